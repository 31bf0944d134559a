//! What packets travel through: the socket, and over it what the login agreed on.
//!
//! ```text
//! Channel ─► compression (compress) ─► TLS (tls) ─► Socket
//! ```
//!
//! Invariant: a connection with neither layer pays one branch a call for their being possible.

use std::io;
use std::time::Instant;

use crate::compress::Codec;
use crate::packet::Transport;
use crate::socket::{Begin, Limits, Socket};
use crate::tls::{self, Session};
use crate::{Compression, Endpoint, Error, Interrupter, Tls};

/// A connected socket with its layers.
pub(crate) struct Stream {
    socket: Socket,
    layers: Option<Box<Layers>>,
}

/// At least one of the two is there.
#[derive(Default)]
struct Layers {
    tls: Option<Session>,
    codec: Option<Codec>,
}

/// What a login asks of a transport besides carrying packets.
pub(crate) trait Upgrade: Transport {
    /// Goes on over TLS, after its handshake.
    fn start_tls(&mut self, tls: &Tls, endpoint: &Endpoint) -> Result<(), Error>;
    /// Goes on in compressed frames.
    fn start_compression(&mut self, compression: Compression) -> Result<(), Error>;
}

impl Stream {
    /// Connects before `deadline`, which goes on limiting reads and writes until it is changed.
    pub(crate) fn connect(
        endpoint: &Endpoint,
        deadline: Instant,
        begin: &mut Begin<'_>,
    ) -> io::Result<Stream> {
        Socket::connect(endpoint, deadline, begin).map(Stream::over)
    }

    fn over(socket: Socket) -> Stream {
        Stream {
            socket,
            layers: None,
        }
    }

    /// Wraps a connected socket; `is_local` says whether it stays on this machine.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of(socket: std::os::unix::net::UnixStream, is_local: bool) -> Stream {
        Stream::over(Socket::of(socket, is_local))
    }

    /// Whether nobody but this machine's kernel sees what is sent.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.is_local()
    }

    /// How long waits may be from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.socket.set_limits(limits);
    }

    /// Asks this, once a limit of a direction is reached, whether to wait that long again.
    pub(crate) fn ask_when_silent(&mut self, is_at_work: Box<dyn FnMut() -> bool + Send>) {
        self.socket.ask_when_silent(is_at_work);
    }

    /// Sends a last command, as far as that takes no wait.
    pub(crate) fn send_last(&mut self, packet: &[u8]) -> io::Result<()> {
        self.set_limits(Limits::until(Instant::now()));
        self.begin_command();
        self.send(packet)?;
        self.flush()
    }

    /// Sends what was taken over and not sent yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }

    /// What breaks this stream's waits from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        self.socket.interrupter()
    }
}

impl Transport for Stream {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.layers {
            None => self.socket.receive(buffer),
            Some(layers) => layers.receive(&mut self.socket, buffer),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.layers {
            None => self.socket.send(bytes),
            Some(layers) => layers.send(&mut self.socket, bytes),
        }
    }

    fn begin_command(&mut self) {
        self.socket.begin_command();
        if let Some(layers) = &mut self.layers
            && let Some(codec) = &mut layers.codec
        {
            codec.begin_command();
        }
    }

    fn is_numbered_below(&self) -> bool {
        let codec = self
            .layers
            .as_ref()
            .and_then(|layers| layers.codec.as_ref());
        codec.is_some_and(Codec::is_in_turn)
    }
}

impl Upgrade for Stream {
    fn start_tls(&mut self, tls: &Tls, endpoint: &Endpoint) -> Result<(), Error> {
        let session = tls::connect(tls, endpoint, &mut self.socket)?;
        self.layers.get_or_insert_default().tls = Some(session);
        Ok(())
    }

    fn start_compression(&mut self, compression: Compression) -> Result<(), Error> {
        if let Some(codec) = Codec::new(compression)? {
            self.layers.get_or_insert_default().codec = Some(codec);
        }
        Ok(())
    }
}

impl Layers {
    // Neither is inlined: the bare socket's path stays short.
    #[inline(never)]
    fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        match (&mut self.codec, &mut self.tls) {
            (Some(codec), Some(tls)) => codec.receive(&mut Secured { tls, socket }, buffer),
            (Some(codec), None) => codec.receive(socket, buffer),
            (None, Some(tls)) => tls.receive(socket, buffer),
            (None, None) => socket.receive(buffer),
        }
    }

    #[inline(never)]
    fn send(&mut self, socket: &mut Socket, bytes: &[u8]) -> io::Result<()> {
        match (&mut self.codec, &mut self.tls) {
            (Some(codec), Some(tls)) => codec.send(&mut Secured { tls, socket }, bytes),
            (Some(codec), None) => codec.send(socket, bytes),
            (None, Some(tls)) => tls.send(socket, bytes),
            (None, None) => socket.send(bytes),
        }
    }
}

impl Transport for Socket {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Socket::receive(self, buffer)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        Socket::send(self, bytes)
    }
}

/// TLS over the socket, as what compressed frames travel through.
struct Secured<'a> {
    tls: &'a mut Session,
    socket: &'a mut Socket,
}

impl Transport for Secured<'_> {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tls.receive(self.socket, buffer)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.send(self.socket, bytes)
    }
}
