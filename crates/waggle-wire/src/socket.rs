//! The socket: connecting, waiting with a limit, and as few system calls as the kernel allows.
//!
//! The [`Stream`](crate::stream::Stream) lays TLS and compression over it, if the login agreed
//! on them. Invariant: no call waits longer than the limits set here. Both directions first try
//! without waiting and only then poll: on the reference machine a blocking receive cost twice
//! the CPU time of this order.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
#[cfg(any(test, feature = "fuzzing"))]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::{Endpoint, Interrupter};

/// Moves a session's bytes in place of system calls of the calling thread, for callers that wait
/// for many sessions at once. A `limit` is the longest wait without progress, after which a call
/// fails with [`io::ErrorKind::TimedOut`].
pub trait Io: Send {
    /// Takes over all of `bytes`; they may leave with the next receive.
    fn send(&mut self, bytes: &[u8], limit: Option<Duration>) -> io::Result<()>;
    /// Receives at least one byte; `Ok(0)` is the end of the stream.
    fn receive(&mut self, buffer: &mut [u8], limit: Option<Duration>) -> io::Result<usize>;
    /// Sends what it took over and still holds.
    fn flush(&mut self, limit: Option<Duration>) -> io::Result<()>;
    /// Waits until the socket, which is being connected, is or is not.
    fn connected(&mut self, limit: Option<Duration>) -> io::Result<()>;
    /// Waits.
    fn sleep(&mut self, length: Duration);
}

/// Gets each socket that is tried before it is connected, with a way to break its waits from then
/// on, and says how its bytes are to move (`None`: by system calls). An error ends the attempt.
pub type Begin<'a> = dyn FnMut(&Arc<OwnedFd>, Interrupter) -> io::Result<Option<Box<dyn Io>>> + 'a;

/// A connected socket.
pub(crate) struct Socket {
    /// Shared with the interrupters, which hold it weakly, and with `io`.
    socket: Arc<OwnedFd>,
    is_local: bool,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    io: Option<Box<dyn Io>>,
}

impl Socket {
    /// Connects before `deadline`, which goes on limiting reads and writes until it is changed.
    pub(crate) fn connect(
        endpoint: &Endpoint,
        deadline: Instant,
        begin: &mut Begin<'_>,
    ) -> io::Result<Socket> {
        let connected = match endpoint {
            Endpoint::Socket(path) => connect_unix(path, deadline, begin),
            Endpoint::Tcp { host, port } => connect_tcp(host, *port, deadline, begin),
        };
        connected.map_err(|error| {
            let advice = match error.kind() {
                _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                    "; raise the limit of open files (ulimit -n): each connection takes one"
                }
                io::ErrorKind::NotFound if matches!(endpoint, Endpoint::Tcp { .. }) => "",
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "; is a server listening there?"
                }
                _ => "",
            };
            io::Error::new(
                error.kind(),
                format!("connecting to {endpoint}: {error}{advice}"),
            )
        })
    }

    /// A socket that is not connected and does not block until it is.
    fn begun(
        family: AddressFamily,
        deadline: Instant,
        begin: &mut Begin<'_>,
    ) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Arc::new(socket_with(family, SocketType::STREAM, flags, None)?);
        let io = begin(&socket, Interrupter::of(&socket))?;
        Ok(Socket {
            socket,
            is_local: family == AddressFamily::UNIX,
            timeout: None,
            deadline: Some(deadline),
            io,
        })
    }

    /// Waits for the connect under way; the socket blocks from then on, as rings want it.
    fn finish_connect(&mut self) -> io::Result<()> {
        let limit = self.limit();
        match &mut self.io {
            Some(io) => io.connected(limit)?,
            None => self.wait(PollFlags::OUT, "the server to take the connection")?,
        }
        sockopt::socket_error(&self.socket)??;
        self.connected()
    }

    fn connected(&self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.socket, false)?;
        if !self.is_local {
            sockopt::set_tcp_nodelay(&self.socket, true)?;
            // A server whose machine vanishes is noticed even by a wait without a limit.
            sockopt::set_socket_keepalive(&self.socket, true)?;
        }
        Ok(())
    }

    fn sleep(&mut self, length: Duration) {
        match &mut self.io {
            Some(io) => io.sleep(length),
            None => std::thread::sleep(length),
        }
    }

    /// Wraps a connected socket; `is_local` says whether it stays on this machine.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of(socket: UnixStream, is_local: bool) -> Socket {
        Socket {
            socket: Arc::new(socket.into()),
            is_local,
            timeout: None,
            deadline: None,
            io: None,
        }
    }

    /// What breaks this socket's waits from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter::of(&self.socket)
    }

    /// Sends what was taken over and not sent yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let limit = self.limit();
        match &mut self.io {
            Some(io) => io.flush(limit),
            None => Ok(()),
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
        let limit = self.limit();
        if let Some(io) = &mut self.io {
            return match io.receive(buffer, limit) {
                Ok(0) => Err(closed()),
                Ok(length) => Ok(length),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Err(no_progress(limit, "an answer from the server"))
                }
                Err(error) => Err(io::Error::new(
                    error.kind(),
                    format!("receiving from the server: {error}"),
                )),
            };
        }
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(closed()),
                Ok((_, length)) => return Ok(length),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, "an answer from the server")?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("receiving from the server", error)),
            }
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let limit = self.limit();
        if let Some(io) = &mut self.io {
            return io.send(bytes, limit);
        }
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
    fn send_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        send(
            &self.socket,
            bytes,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )
    }

    /// How long the next wait may be.
    fn limit(&self) -> Option<Duration> {
        let Some(deadline) = self.deadline else {
            return self.timeout;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        Some(self.timeout.map_or(left, |timeout| timeout.min(left)))
    }

    fn wait(&self, events: PollFlags, what: &str) -> io::Result<()> {
        let limit = self.limit();
        // A limit that the kernel's time cannot hold is as good as none.
        let timespec = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut watched = [PollFd::new(&self.socket, events)];
        match poll(&mut watched, timespec.as_ref()) {
            Ok(0) => Err(no_progress(limit, what)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(failed("waiting for the server", error)),
        }
    }
}

fn no_progress(limit: Option<Duration>, what: &str) -> io::Error {
    let limit = limit.unwrap_or_default();
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("no progress for {limit:?} while waiting for {what}"),
    )
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the server closed the connection",
    )
}

fn failed(doing: &str, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}

fn connect_unix(path: &Path, deadline: Instant, begin: &mut Begin<'_>) -> io::Result<Socket> {
    const FIRST_DELAY: Duration = Duration::from_micros(100);
    const LONGEST_DELAY: Duration = Duration::from_millis(10);
    let address = SocketAddrUnix::new(path)?;
    let mut delay = FIRST_DELAY;
    loop {
        let mut socket = Socket::begun(AddressFamily::UNIX, deadline, begin)?;
        match connect(&socket.socket, &address) {
            Ok(()) => {
                socket.connected()?;
                return Ok(socket);
            }
            Err(Errno::INTR) => {}
            // The backlog is full, and nothing tells when it no longer is.
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                socket.sleep(delay);
                delay = (delay * 2).min(LONGEST_DELAY);
            }
            Err(Errno::AGAIN) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server does not accept connections (its backlog is full)",
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn connect_tcp(
    host: &str,
    port: u16,
    deadline: Instant,
    begin: &mut Begin<'_>,
) -> io::Result<Socket> {
    let mut last = None;
    // Told apart from every error of connecting.
    let unknown = |error| io::Error::new(io::ErrorKind::NotFound, error);
    for address in (host, port).to_socket_addrs().map_err(unknown)? {
        if deadline <= Instant::now() {
            break;
        }
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let mut socket = Socket::begun(family, deadline, begin)?;
        let connected = match connect(&socket.socket, &address) {
            Ok(()) => socket.connected(),
            Err(Errno::INPROGRESS | Errno::INTR) => socket.finish_connect(),
            Err(error) => Err(error.into()),
        };
        match connected {
            Ok(()) => return Ok(socket),
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

    fn plain(_: &Arc<OwnedFd>, _: Interrupter) -> io::Result<Option<Box<dyn Io>>> {
        Ok(None)
    }

    #[test]
    fn a_wait_has_a_limit() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut stream = Socket::of(near, true);
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
        let mut stream = Socket::of(near, true);
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
        let connected = Socket::connect(&Endpoint::Socket(path), deadline, &mut plain);
        let error = connected.err().expect("nobody listens");
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
            match Socket::connect(&endpoint, deadline, &mut plain) {
                Ok(stream) => open.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}
