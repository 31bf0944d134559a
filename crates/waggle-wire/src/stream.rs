//! The socket: connecting, waiting with a limit, and as few system calls as the kernel allows.
//!
//! The packet layer reads and writes through it. Invariant: no call waits longer than the
//! limits set here. Both directions first try without waiting and only then poll: on the
//! reference machine a blocking receive cost twice the CPU time of this order.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::Endpoint;

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    is_local: bool,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
}

impl Stream {
    /// Connects before `deadline`, which goes on limiting reads and writes until it is changed.
    pub(crate) fn connect(endpoint: &Endpoint, deadline: Instant) -> io::Result<Stream> {
        let (socket, is_local) = match endpoint {
            Endpoint::Socket(path) => (connect_unix(path, deadline).map(OwnedFd::from), true),
            Endpoint::Tcp { host, port } => {
                (connect_tcp(host, *port, deadline).map(OwnedFd::from), false)
            }
        };
        let socket = socket.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "; is a server listening there?"
                }
                _ => "",
            };
            io::Error::new(
                error.kind(),
                format!("connecting to {endpoint}: {error}{advice}"),
            )
        })?;
        Ok(Stream {
            socket,
            is_local,
            timeout: None,
            deadline: Some(deadline),
        })
    }

    /// Wraps a connected socket; `is_local` says whether it stays on this machine.
    #[cfg(test)]
    pub(crate) fn of(socket: UnixStream, is_local: bool) -> Stream {
        Stream {
            socket: socket.into(),
            is_local,
            timeout: None,
            deadline: None,
        }
    }

    /// Whether nobody but this machine's kernel sees what is sent.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// The longest a read or write may go without progress, and the moment when all must be
    /// over.
    pub(crate) fn set_limits(&mut self, timeout: Option<Duration>, deadline: Option<Instant>) {
        self.timeout = timeout;
        self.deadline = deadline;
    }

    /// Receives at least one byte into `buffer`, which must not be empty.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection",
                    ));
                }
                Ok((_, length)) => return Ok(length),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, "an answer from the server")?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("receiving from the server", error)),
            }
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.send_some(bytes) {
                Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, "the server to take the command")?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("sending to the server", error)),
            }
        }
        Ok(())
    }

    /// Sends what the kernel takes at once.
    pub(crate) fn send_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        send(
            &self.socket,
            bytes,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )
    }

    fn wait(&self, events: PollFlags, what: &str) -> io::Result<()> {
        let left = self
            .deadline
            .map(|d| d.saturating_duration_since(Instant::now()));
        let limit = match (self.timeout, left) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        };
        // A limit that the kernel's time cannot hold is as good as none.
        let timespec = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut watched = [PollFd::new(&self.socket, events)];
        match poll(&mut watched, timespec.as_ref()) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "no progress for {:?} while waiting for {what}",
                    limit.unwrap_or_default()
                ),
            )),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(failed("waiting for the server", error)),
        }
    }
}

fn failed(doing: &str, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}

fn connect_unix(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // A full backlog makes connect(2) wait; only the send timeout limits that.
    let left = deadline
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(left))?;
    match connect(&socket, &address) {
        Ok(()) => Ok(UnixStream::from(socket)),
        Err(Errno::AGAIN) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the server does not accept connections (its backlog is full)",
        )),
        Err(error) => Err(error.into()),
    }
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = None;
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                // A server whose machine vanishes is noticed even by a wait without a limit.
                sockopt::set_socket_keepalive(&stream, true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(
            io::ErrorKind::TimedOut,
            "no address of the host answered in time",
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_wait_has_a_limit() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut stream = Stream::of(near, true);
        stream.set_limits(Some(Duration::from_millis(5)), None);
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = stream.send(&vec![0; 32 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        stream.set_limits(None, Some(Instant::now()));
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let mut stream = Stream::of(near, true);
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = stream.send(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn connecting_names_the_place_and_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none.sock");
        let deadline = Instant::now() + Duration::from_secs(5);
        let error = Stream::connect(&Endpoint::Socket(path), deadline).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("none.sock"), "{error}");
        assert!(error.to_string().contains("listening"), "{error}");
    }

    #[test]
    fn a_full_backlog_ends_at_the_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("full.sock");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let endpoint = Endpoint::Socket(path);
        let deadline = Instant::now() + Duration::from_millis(50);
        let mut open = Vec::new();
        let error = loop {
            match Stream::connect(&endpoint, deadline) {
                Ok(stream) => open.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}
