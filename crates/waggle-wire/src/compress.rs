//! Protocol compression: packets in frames that are compressed, zlib or zstd.
//!
//! A frame is three bytes of length, one of sequence, three of length before compression (0: it
//! is not compressed) and the data; packets know nothing of where frames begin. It lies between
//! the packets and TLS or the socket. Invariants: what a frame announces allocates nothing, data
//! is unpacked into the reader's buffer piece by piece; a frame whose data is not what its header
//! says is an error.

mod unpacker;

use std::fmt;
use std::io;
use std::str::FromStr;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::bulk::Compressor;
use zstd::stream::raw::{DParameter, Decoder, Operation};

use crate::Error;
use crate::packet::Transport;

pub use unpacker::{Engines, Unpacker};

const HEADER_BYTES: usize = 7;
/// Shorter data is sent as it is: packing it costs more than it saves. MySQL's own bound.
const PACKED_BYTES_MIN: usize = 50;
/// Most data of one sent frame. The protocol's limit of 16 MiB would only cost memory.
const FRAME_BYTES_MAX: usize = 1 << 20;
const INCOMING_BYTES: usize = 64 << 10;
/// The levels that MySQL's clients use unless told otherwise.
const ZLIB_LEVEL: u32 = 6;
pub(crate) const ZSTD_LEVEL: u8 = 3;
/// No frame holds more than 16 MiB, so no honest server needs a larger window (log2 of bytes).
const ZSTD_WINDOW_LOG_MAX: u32 = 24;

/// Whether and how the protocol is compressed, in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    Off,
    /// zlib: MySQL and MariaDB.
    Zlib,
    /// zstd: MySQL since 8.0.18.
    Zstd,
}

impl Compression {
    fn name(self) -> &'static str {
        match self {
            Compression::Off => "off",
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no [`Compression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("compression is zlib, zstd or off")]
pub struct CompressionError;

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(text: &str) -> Result<Compression, CompressionError> {
        let all = [Compression::Off, Compression::Zlib, Compression::Zstd];
        let plain = text.to_ascii_lowercase();
        let mut all = all.into_iter();
        all.find(|one| one.name() == plain).ok_or(CompressionError)
    }
}

/// Both directions of one algorithm.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in the one box of a stream's layers"
)]
enum Algorithm {
    Zlib {
        packer: Compress,
        unpacker: Decompress,
    },
    Zstd {
        packer: Compressor<'static>,
        unpacker: Decoder<'static>,
    },
}

/// What one step of unpacking did.
struct Step {
    used: usize,
    made: usize,
    is_end: bool,
}

/// The frames of a connection, in both directions. No `Debug`: its buffers hold what users send.
pub(crate) struct Codec {
    algorithm: Algorithm,
    sequence: u8,
    is_in_turn: bool,
    /// Received bytes; those in `start..end` are not consumed yet.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Of the frame being read: bytes of it still to consume, and of data still to give out.
    packed_left: usize,
    data_left: usize,
    /// Whether it is compressed, and the end of its compressed data was not reached.
    is_unpacking: bool,
    /// The frame being sent.
    out: Vec<u8>,
}

impl Codec {
    /// A codec for a session that starts; none for `Off`.
    pub(crate) fn new(compression: Compression) -> Result<Option<Codec>, Error> {
        let algorithm = match compression {
            Compression::Off => return Ok(None),
            Compression::Zlib => Algorithm::Zlib {
                packer: Compress::new(flate2::Compression::new(ZLIB_LEVEL), true),
                unpacker: Decompress::new(true),
            },
            Compression::Zstd => {
                let mut unpacker = Decoder::new()?;
                unpacker.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Algorithm::Zstd {
                    packer: Compressor::new(ZSTD_LEVEL.into())?,
                    unpacker,
                }
            }
        };
        Ok(Some(Codec {
            algorithm,
            sequence: 0,
            is_in_turn: true,
            incoming: vec![0; INCOMING_BYTES],
            start: 0,
            end: 0,
            packed_left: 0,
            data_left: 0,
            is_unpacking: false,
            out: Vec::new(),
        }))
    }

    /// Frames are counted from 0 in each command.
    pub(crate) fn begin_command(&mut self) {
        self.sequence = 0;
    }

    /// Whether the last frame had the number that was due. One that has not may be a server's
    /// last words, which the packets tell.
    pub(crate) fn is_in_turn(&self) -> bool {
        self.is_in_turn
    }

    /// Sends all of `bytes`, in one write if they fit one frame.
    pub(crate) fn send(&mut self, lower: &mut impl Transport, bytes: &[u8]) -> io::Result<()> {
        for data in bytes.chunks(FRAME_BYTES_MAX) {
            self.out.clear();
            self.out.resize(HEADER_BYTES, 0);
            let data_length =
                if data.len() >= PACKED_BYTES_MIN && self.algorithm.pack(data, &mut self.out) {
                    data.len()
                } else {
                    self.out.truncate(HEADER_BYTES);
                    self.out.extend_from_slice(data);
                    0
                };
            let [a, b, c, _] = ((self.out.len() - HEADER_BYTES) as u32).to_le_bytes();
            let [d, e, f, _] = (data_length as u32).to_le_bytes();
            self.out[..HEADER_BYTES].copy_from_slice(&[a, b, c, self.sequence, d, e, f]);
            self.sequence = self.sequence.wrapping_add(1);
            lower.send(&self.out)?;
        }
        Ok(())
    }

    /// Receives at least one byte of data.
    pub(crate) fn receive(
        &mut self,
        lower: &mut impl Transport,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            if self.packed_left == 0 && !self.is_unpacking {
                self.open_frame(lower)?;
            }
            if self.start == self.end && self.packed_left > 0 {
                self.fill(lower)?;
            }
            let made = if self.is_unpacking {
                self.unpack(buffer)?
            } else {
                self.copy(buffer)?
            };
            if made > 0 {
                return Ok(made);
            }
        }
    }

    fn fill(&mut self, lower: &mut impl Transport) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.incoming.len() {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.end += lower.receive(&mut self.incoming[self.end..])?;
        Ok(())
    }

    /// Reads the next frame's header.
    fn open_frame(&mut self, lower: &mut impl Transport) -> io::Result<()> {
        while self.end - self.start < HEADER_BYTES {
            self.fill(lower)?;
        }
        let Some(&[a, b, c, sequence, d, e, f]) =
            self.incoming[self.start..self.end].first_chunk::<HEADER_BYTES>()
        else {
            return Err(damaged("its header ends early"));
        };
        self.start += HEADER_BYTES;
        self.is_in_turn = sequence == self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.packed_left = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.data_left = u32::from_le_bytes([d, e, f, 0]) as usize;
        self.is_unpacking = self.data_left > 0;
        if self.packed_left == 0 {
            return Err(damaged("it is empty"));
        }
        if self.is_unpacking {
            self.algorithm.restart()?;
        }
        Ok(())
    }

    /// Gives out data that is not compressed.
    fn copy(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (self.end - self.start)
            .min(self.packed_left)
            .min(buffer.len());
        buffer[..length].copy_from_slice(&self.incoming[self.start..self.start + length]);
        self.start += length;
        self.packed_left -= length;
        Ok(length)
    }

    /// Gives out what the received part of the frame unpacks to; 0 when that is nothing yet.
    fn unpack(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = (self.end - self.start).min(self.packed_left);
        let packed = &self.incoming[self.start..self.start + available];
        // After the last data there may be a checksum to check; room for a byte shows data that
        // was not announced.
        let mut spare = [0];
        let room = buffer.len().min(self.data_left);
        let target = if room > 0 {
            &mut buffer[..room]
        } else {
            &mut spare[..]
        };
        let step = self.algorithm.unpack(packed, target)?;
        self.start += step.used;
        self.packed_left -= step.used;
        let Some(data_left) = self.data_left.checked_sub(step.made) else {
            return Err(damaged("it holds more data than it announced"));
        };
        self.data_left = data_left;
        if step.is_end {
            if self.data_left > 0 || self.packed_left > 0 {
                return Err(damaged("its data ends early"));
            }
            self.is_unpacking = false;
        } else if step.made == 0 && self.packed_left == 0 && step.used == 0 {
            return Err(damaged("it ends early"));
        } else if step.made == 0 && step.used == 0 && available > 0 {
            return Err(damaged("its data cannot be unpacked"));
        }
        Ok(step.made)
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server sent a compressed frame that is damaged: {what}"),
    )
}

impl Algorithm {
    /// Appends `data` packed; false if that is not shorter, `out` then ends anyhow.
    fn pack(&mut self, data: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Algorithm::Zlib { packer, .. } => {
                packer.reset();
                out.reserve(data.len());
                let status = packer.compress_vec(data, out, FlushCompress::Finish);
                matches!(status, Ok(Status::StreamEnd)) && out.len() < HEADER_BYTES + data.len()
            }
            Algorithm::Zstd { packer, .. } => {
                out.resize(HEADER_BYTES + data.len() - 1, 0);
                // The one error there is: the room is too small.
                let packed = packer.compress_to_buffer(data, &mut out[HEADER_BYTES..]);
                packed
                    .map(|length| out.truncate(HEADER_BYTES + length))
                    .is_ok()
            }
        }
    }

    /// Before a frame is unpacked.
    fn restart(&mut self) -> io::Result<()> {
        match self {
            Algorithm::Zlib { unpacker, .. } => {
                unpacker.reset(true);
                Ok(())
            }
            Algorithm::Zstd { unpacker, .. } => unpacker.reinit(),
        }
    }

    fn unpack(&mut self, packed: &[u8], target: &mut [u8]) -> io::Result<Step> {
        match self {
            Algorithm::Zlib { unpacker, .. } => {
                let (used, made) = (unpacker.total_in(), unpacker.total_out());
                let status = unpacker
                    .decompress(packed, target, FlushDecompress::None)
                    .map_err(|error| damaged(&error.to_string()))?;
                Ok(Step {
                    used: (unpacker.total_in() - used) as usize,
                    made: (unpacker.total_out() - made) as usize,
                    is_end: status == Status::StreamEnd,
                })
            }
            Algorithm::Zstd { unpacker, .. } => {
                let status = unpacker
                    .run_on_buffers(packed, target)
                    .map_err(|error| damaged(&error.to_string()))?;
                Ok(Step {
                    used: status.bytes_read,
                    made: status.bytes_written,
                    is_end: status.remaining == 0,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
