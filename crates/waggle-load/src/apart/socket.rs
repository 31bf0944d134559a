//! Messages of bounded length over a Unix socket, and descriptors beside them.
//!
//! Invariant: whatever the other side sends, no more than the bound is held, what is no message is
//! an error, and a wait ends when the caller says so.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message: a snapshot with a histogram for each of thousands of statements.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The longest line that a script prints, and what is around it.
pub(super) const EVENT_BYTES_MAX: usize = 128 << 10;

/// How much is read at once: a length that lies costs no more memory than this.
const CHUNK_BYTES: usize = 256 << 10;

/// How often a wait looks whether it is still wanted.
const TICK: Duration = Duration::from_millis(50);

/// Most descriptors that one request brings.
const DESCRIPTORS_MAX: usize = 8;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The other side is gone.
    #[error("it closed its socket")]
    Closed,
    /// What came is no message.
    #[error("it sent what is no message: {0}")]
    Garbage(String),
    /// It is not wanted any more, or was waited for long enough.
    #[error("it did not answer in time")]
    Late,
    /// The kernel refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Bytes as they are sent: the length, then the message.
fn framed(message: &impl Serialize, bytes_max: usize) -> Result<Vec<u8>, Broken> {
    let bytes = postcard::to_extend(message, vec![0; 4])
        .map_err(|error| Broken::Garbage(error.to_string()))?;
    let length = bytes.len() - 4;
    if length > bytes_max {
        let text = format!("a message of {length} bytes, of {bytes_max} at most");
        return Err(Broken::Garbage(text));
    }
    let mut bytes = bytes;
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Sends a message.
pub(super) fn send(
    mut stream: &UnixStream,
    message: &impl Serialize,
    bytes_max: usize,
) -> Result<(), Broken> {
    let bytes = framed(message, bytes_max)?;
    Ok(stream.write_all(&bytes)?)
}

/// The next message, however long it takes.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
    bytes_max: usize,
) -> Result<T, Broken> {
    stream.set_read_timeout(None)?;
    read(stream, bytes_max, &mut || true)
}

/// The next message; `goes_on` is asked from time to time whether it is still waited for.
pub(super) fn receive_while<T: DeserializeOwned>(
    stream: &UnixStream,
    bytes_max: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<T, Broken> {
    stream.set_read_timeout(Some(TICK))?;
    read(stream, bytes_max, goes_on)
}

fn read<T: DeserializeOwned>(
    stream: &UnixStream,
    bytes_max: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<T, Broken> {
    let mut length = [0; 4];
    fill(stream, &mut length, goes_on)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        let text = format!("a message of {length} bytes, of {bytes_max} at most");
        return Err(Broken::Garbage(text));
    }
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let from = bytes.len();
        bytes.resize(length.min(from + CHUNK_BYTES), 0);
        fill(stream, &mut bytes[from..], goes_on)?;
    }
    decoded(&bytes)
}

/// A message that uses up its bytes.
pub(super) fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(Broken::Garbage(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(Broken::Garbage(error.to_string())),
    }
}

fn fill(
    mut stream: &UnixStream,
    mut to: &mut [u8],
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), Broken> {
    while !to.is_empty() {
        match stream.read(to) {
            Ok(0) => return Err(Broken::Closed),
            Ok(count) => to = &mut to[count..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if goes_on() => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(Broken::Late),
                io::ErrorKind::ConnectionReset => return Err(Broken::Closed),
                _ => return Err(Broken::Io(error)),
            },
        }
    }
    Ok(())
}

/// Hands descriptors over.
pub(super) fn send_descriptors(control: &UnixStream, descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !buffer.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let one = [IoSlice::new(&[1])];
    sendmsg(control, &one, &mut buffer, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Those that were handed over next; `None` when the other side is gone.
pub(super) fn receive_descriptors(control: &UnixStream) -> Option<Vec<OwnedFd>> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut buffer = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut one = [IoSliceMut::new(&mut byte)];
        match recvmsg(control, &mut one, &mut buffer, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes > 0 => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return None,
        }
        let rights = buffer.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        return Some(rights.flatten().collect());
    }
}
