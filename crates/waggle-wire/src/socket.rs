//! The socket: connecting, waiting with a limit, and as few system calls as the kernel allows.
//!
//! The [`Stream`](crate::stream::Stream) lays TLS and compression over it, if the login agreed
//! on them. Invariants: no call waits longer than the limits set here, but where somebody asks and
//! hears that the server is at work; each wait is told to [`crate::ending`]. Both directions first
//! try without waiting and only then poll: on the reference machine a blocking receive cost twice
//! the CPU time of this order.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
#[cfg(any(test, feature = "fuzzing"))]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::ending::{self, Pulse};
use crate::{Endpoint, Interrupter};

/// How soon the end of this process is noticed while a name is resolved.
const RESOLVE_LOOK: Duration = Duration::from_millis(50);

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
    limits: Limits,
    io: Option<Box<dyn Io>>,
    pulse: Arc<Pulse>,
    /// Asked when a limit is reached; true for waiting on.
    is_at_work: Option<Box<dyn FnMut() -> bool + Send>>,
}

/// How long waits may be; `None` is without limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// The longest that no byte may come.
    pub(crate) read: Option<Duration>,
    /// The longest that no byte may be taken.
    pub(crate) write: Option<Duration>,
    /// The moment when all must be over.
    pub(crate) deadline: Option<Instant>,
}

impl Limits {
    /// All over at this moment.
    pub(crate) fn until(deadline: Instant) -> Limits {
        Limits {
            deadline: Some(deadline),
            ..Limits::default()
        }
    }

    fn next(&self, timeout: Option<Duration>) -> Option<Duration> {
        let Some(deadline) = self.deadline else {
            return timeout;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }
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
            pulse: ending::note(&socket),
            socket,
            is_local: family == AddressFamily::UNIX,
            limits: Limits::until(deadline),
            io,
            is_at_work: None,
        })
    }

    /// Waits for the connect under way; the socket blocks from then on, as rings want it.
    fn finish_connect(&mut self) -> io::Result<()> {
        let limit = self.limits.next(None);
        match &mut self.io {
            Some(io) => {
                self.pulse.wait();
                let connected = io.connected(limit);
                self.pulse.wait();
                connected?;
            }
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
            None => thread::sleep(length),
        }
    }

    /// Wraps a connected socket; `is_local` says whether it stays on this machine.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of(socket: UnixStream, is_local: bool) -> Socket {
        let socket = Arc::new(socket.into());
        Socket {
            pulse: ending::note(&socket),
            socket,
            is_local,
            limits: Limits::default(),
            io: None,
            is_at_work: None,
        }
    }

    /// What breaks this socket's waits from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter::of(&self.socket)
    }

    /// Sends what was taken over and not sent yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let limit = self.limits.next(self.limits.write);
        match &mut self.io {
            Some(io) => {
                self.pulse.wait();
                let flushed = io.flush(limit);
                self.pulse.wait();
                flushed
            }
            None => Ok(()),
        }
    }

    /// Whether nobody but this machine's kernel sees what is sent.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// How long waits may be from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Asks this, once a limit of a direction is reached, whether to wait that long again.
    pub(crate) fn ask_when_silent(&mut self, is_at_work: Box<dyn FnMut() -> bool + Send>) {
        self.is_at_work = Some(is_at_work);
    }

    /// A command begins.
    pub(crate) fn begin_command(&self) {
        self.pulse.command();
    }

    /// Receives at least one byte into `buffer`, which must not be empty.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(io) = &mut self.io {
            let limit = self.limits.next(self.limits.read);
            self.pulse.wait();
            let received = io.receive(buffer, limit);
            self.pulse.wait();
            return match received {
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
        if let Some(io) = &mut self.io {
            let limit = self.limits.next(self.limits.write);
            self.pulse.wait();
            let sent = io.send(bytes, limit);
            self.pulse.wait();
            return sent;
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

    fn wait(&mut self, events: PollFlags, what: &str) -> io::Result<()> {
        let timeout = match events {
            PollFlags::IN => self.limits.read,
            _ => self.limits.write,
        };
        let limit = self.limits.next(timeout);
        // A limit that the kernel's time cannot hold is as good as none.
        let timespec = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut watched = [PollFd::new(&self.socket, events)];
        self.pulse.wait();
        let polled = poll(&mut watched, timespec.as_ref());
        self.pulse.wait();
        match polled {
            Ok(0) if self.is_still_at_work() => Ok(()),
            Ok(0) => Err(no_progress(limit, what)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(failed("waiting for the server", error)),
        }
    }

    /// Whether the silence of the server is known to be work.
    fn is_still_at_work(&mut self) -> bool {
        let is_over = self.limits.deadline.is_some() || ending::is_begun();
        !is_over && self.is_at_work.as_mut().is_some_and(|ask| ask())
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
    let what = match ending::is_begun() {
        true => "this process was told to end, and the server had not answered",
        false => "the server closed the connection",
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
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
            Err(Errno::AGAIN) if Instant::now() < deadline && !ending::is_due() => {
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
    for address in resolved(host, port, deadline)? {
        if deadline <= Instant::now() || ending::is_due() {
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

/// The addresses of a host. A resolver may wait for minutes, and nothing ends that: a thread of its
/// own waits, and is left behind when it takes too long.
fn resolved(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let name = (host.to_owned(), port);
    let (tell, told) = mpsc::channel();
    let resolver = thread::Builder::new().name("waggle-resolve".to_owned());
    resolver.spawn(move || {
        let found = name.to_socket_addrs().map(|found| found.collect());
        // Nobody waits for what came too late.
        let _ = tell.send(found);
    })?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match told.recv_timeout(left.min(RESOLVE_LOOK)) {
            // Told apart from every error of connecting.
            Ok(found) => return found.map_err(|why| io::Error::new(io::ErrorKind::NotFound, why)),
            Err(_) if left.is_zero() || ending::is_begun() => {
                let what = "no address for the name in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// The one limit of both directions.
    fn both(timeout: Duration) -> Limits {
        Limits {
            read: Some(timeout),
            write: Some(timeout),
            deadline: None,
        }
    }

    fn plain(_: &Arc<OwnedFd>, _: Interrupter) -> io::Result<Option<Box<dyn Io>>> {
        Ok(None)
    }

    #[test]
    fn a_wait_has_a_limit() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut stream = Socket::of(near, true);
        stream.set_limits(both(Duration::from_millis(5)));
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = stream.send(&vec![0; 32 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        stream.set_limits(Limits::until(Instant::now()));
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_limit_is_no_end_while_the_server_is_at_work() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut stream = Socket::of(near, true);
        stream.set_limits(both(Duration::from_millis(2)));
        let mut asked = 0;
        let (tell, told) = std::sync::mpsc::channel();
        stream.ask_when_silent(Box::new(move || {
            asked += 1;
            tell.send(asked).unwrap();
            asked < 3
        }));
        let error = stream.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn each_direction_has_its_own_limit() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut stream = Socket::of(near, true);
        stream.set_limits(Limits {
            write: Some(Duration::from_millis(3)),
            ..Limits::default()
        });
        let error = stream.send(&vec![0; 32 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("3ms"), "{error}");
    }

    #[test]
    fn a_name_has_addresses_and_an_address_is_one() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let address = resolved("::1", 7, deadline).unwrap();
        assert_eq!(address, ["[::1]:7".parse().unwrap()]);
        let found = resolved("localhost", 7, deadline).unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()));
        // What a slow resolver finds later is not waited for.
        let error = resolved("localhost.invalid", 7, Instant::now()).unwrap_err();
        assert!(matches!(
            error.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::NotFound
        ));
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
