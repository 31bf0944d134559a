//! Requests that a socket does not take at once, or at all.

use super::*;

#[test]
fn a_deadline_ends_a_request_that_nobody_takes() {
    if !available() {
        return;
    }
    let (ours, _silent) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    while (&ours).write(&[0; 4096]).is_ok() {}
    ours.set_nonblocking(false).unwrap();
    let limit = Some(Duration::from_millis(10));
    let task = move || {
        let mut buffer = [0; 8];
        let answer = exchange(ours.as_raw_fd(), &[1; 4096], &mut buffer, limit);
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let answer = writable(ours.as_raw_fd(), limit);
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
}

/// The kernel takes such a request in parts, and none of the server's answer may be lost meanwhile.
#[test]
fn a_request_larger_than_the_sockets_buffer_is_sent_whole() {
    if !available() {
        return;
    }
    const BYTES: usize = 3 << 20;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let request: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let expected = request.clone();
    let server = thread::spawn(move || {
        let mut all = vec![0; BYTES];
        theirs.read_exact(&mut all).unwrap();
        theirs.write_all(b"answer").unwrap();
        all == expected
    });
    let task = move || {
        let mut buffer = [0; 16];
        let (length, sent) = exchange(ours.as_raw_fd(), &request, &mut buffer, None).unwrap();
        assert_eq!((&buffer[..length], sent), (&b"answer"[..], BYTES));
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert!(server.join().unwrap());
}

/// A proxy that answers before it has read the request, or a record of TLS that carries nothing.
#[test]
fn what_was_not_sent_when_an_answer_came_is_sent_with_the_next_wait() {
    if !available() {
        return;
    }
    const BYTES: usize = 12 << 10;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 2048).unwrap();
    theirs.write_all(b"early").unwrap();
    let request: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let expected = request.clone();
    let (go, wait) = mpsc::channel();
    let server = thread::spawn(move || {
        let sent_at_first = wait.recv().unwrap();
        let mut all = vec![0; BYTES];
        theirs.read_exact(&mut all).unwrap();
        theirs.write_all(b"late").unwrap();
        (sent_at_first, all == expected)
    });
    let task = move || {
        let mut socket = FiberSocket::new(Arc::new(ours.into()));
        let mut buffer = [0; 16];
        socket.send(&request, None).unwrap();
        let length = socket.receive(&mut buffer, None).unwrap();
        assert_eq!(&buffer[..length], b"early");
        go.send(BYTES - socket.pending()).unwrap();
        let length = socket.receive(&mut buffer, None).unwrap();
        assert_eq!((&buffer[..length], socket.pending()), (&b"late"[..], 0));
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    let (sent_at_first, is_whole) = server.join().unwrap();
    assert!(sent_at_first < BYTES, "the socket took {sent_at_first}");
    assert!(is_whole);
}

#[test]
fn the_last_words_of_a_server_are_heard_after_a_send_that_failed() {
    if !available() {
        return;
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"killed").unwrap();
    drop(theirs);
    let task = move || {
        let mut socket = FiberSocket::new(Arc::new(ours.into()));
        socket.send(b"request", None).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(socket.receive(&mut buffer, None).unwrap(), 6);
        assert_eq!(&buffer[..6], b"killed");
        socket.send(b"request", None).unwrap();
        let error = socket.receive(&mut buffer, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
}
