//! Stands between the sink and ClickHouse and breaks chosen insertions in chosen places.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// What becomes of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing special.
    Pass,
    /// The server carries it out, its answer is lost.
    LoseAnswer,
    /// Half of the body arrives, then the connection breaks.
    Half,
    /// Half of the body arrives, then the test is told and has to kill the server.
    KillInTheMiddle,
    /// All of it arrives, then the test is told and has to kill the server.
    KillAtTheEnd,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) faults: Arc<Mutex<VecDeque<Fault>>>,
    /// Told when the server has to be killed; answer when it is.
    pub(crate) kills: mpsc::Receiver<mpsc::Sender<()>>,
}

impl Proxy {
    /// Faults apply to insertions into `table`, one after the other.
    pub(crate) fn start(server: u16, table: &'static str, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let faults = Arc::new(Mutex::new(faults.iter().copied().collect::<VecDeque<_>>()));
        let (kill, kills) = mpsc::channel();
        let plan = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (plan, kill) = (Arc::clone(&plan), kill.clone());
                // A broken connection is what this is for.
                thread::spawn(move || _ = serve(client, server, table, &plan, &kill));
            }
        });
        Self {
            port,
            faults,
            kills,
        }
    }
}

/// One request, then the connection ends.
fn serve(
    mut client: TcpStream,
    server: u16,
    table: &str,
    faults: &Mutex<VecDeque<Fault>>,
    kill: &mpsc::Sender<mpsc::Sender<()>>,
) -> std::io::Result<()> {
    let (head, body) = request(&mut client)?;
    let is_insertion = head.contains(&format!("query=INSERT%20INTO%20{table}%20"));
    let fault = if is_insertion {
        faults.lock().expect("faults").pop_front()
    } else {
        None
    };
    let fault = fault.unwrap_or(Fault::Pass);
    let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    upstream.write_all(head.as_bytes())?;
    if matches!(fault, Fault::Half | Fault::KillInTheMiddle) {
        upstream.write_all(&body[..body.len() / 2])?;
        if fault == Fault::Half {
            upstream.shutdown(Shutdown::Write)?;
            // Until the server has made up its mind.
            let _ = upstream.read_to_end(&mut Vec::new());
        } else {
            wait_for_kill(kill);
        }
        return Ok(());
    }
    upstream.write_all(&body)?;
    if fault == Fault::KillAtTheEnd {
        wait_for_kill(kill);
        return Ok(());
    }
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    if fault == Fault::Pass {
        client.write_all(&answer)?;
    }
    Ok(())
}

fn wait_for_kill(kill: &mpsc::Sender<mpsc::Sender<()>>) {
    let (done, wait) = mpsc::channel();
    if kill.send(done).is_ok() {
        let _ = wait.recv();
    }
}

/// Head and body of the request that comes next.
pub(crate) fn request(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut part = [0; 65536];
    loop {
        let count = client.read(&mut part)?;
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        let length = head
            .to_ascii_lowercase()
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next().and_then(|n| n.trim().parse().ok()))
            .unwrap_or(0);
        let mut body = bytes.split_off(end + 4);
        while body.len() < length {
            let count = client.read(&mut part)?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            body.extend_from_slice(&part[..count]);
        }
        return Ok((head, body));
    }
}
