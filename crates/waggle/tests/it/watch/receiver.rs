//! A store's other side, for all kinds at once: refuses until told otherwise, keeps what is sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// One request: its head, and its body unpacked.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

/// Listens on loopback for as long as the test runs.
pub(super) struct Receiver {
    pub(super) url: String,
    got: Arc<Mutex<Vec<Got>>>,
    accepts: Arc<AtomicBool>,
}

impl Receiver {
    /// Answers 503 to everything.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let receiver = Self {
            url,
            got: Arc::default(),
            accepts: Arc::default(),
        };
        let (got, accepts) = (Arc::clone(&receiver.got), Arc::clone(&receiver.accepts));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (got, accepts) = (Arc::clone(&got), Arc::clone(&accepts));
                std::thread::spawn(move || serve(client, &got, &accepts));
            }
        });
        receiver
    }

    /// Answers 200 from now on, with a body that every kind of sink takes.
    pub(super) fn accept(&self) {
        self.accepts.store(true, Ordering::Release);
    }

    /// What was sent so far, refused or not.
    pub(super) fn got(&self) -> Vec<Got> {
        self.got.lock().expect("requests").clone()
    }
}

fn serve(mut client: TcpStream, got: &Mutex<Vec<Got>>, accepts: &AtomicBool) {
    let mut reader = BufReader::new(client.try_clone().expect("a second handle"));
    while let Some(request) = request(&mut reader) {
        // How many there are: none. Where nothing is counted, the body says nothing.
        let counts = memchr::memmem::find(&request.body, b"count()").is_some();
        got.lock().expect("requests").push(request);
        let (status, body) = match accepts.load(Ordering::Acquire) {
            true if counts => ("200 OK", "0"),
            true => ("200 OK", ""),
            false => ("503 Later", "later"),
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
        if client.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<Got> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let value = |name: &str| {
        let line = head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        });
        line.unwrap_or_default()
    };
    let mut packed = vec![0; value("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut packed).ok()?;
    let body = match value("content-encoding").as_str() {
        "gzip" => {
            let mut body = Vec::new();
            let mut unpacker = flate2::read::GzDecoder::new(&*packed);
            unpacker.read_to_end(&mut body).expect("gzip");
            body
        }
        "snappy" => snap::raw::Decoder::new()
            .decompress_vec(&packed)
            .expect("snappy"),
        _ => packed,
    };
    Some(Got { head, body })
}
