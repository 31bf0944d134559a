//! Compressed frames for somebody who reads along: bytes are pushed in as they were seen.
//!
//! Many connections share a few [`Engines`]: a direction holds one only while a frame is half
//! seen, so that memory does not grow with connections. Invariant: as the codec's, what a frame
//! announces allocates nothing, and a damaged frame is an error.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::{Compression, HEADER_BYTES, Step, ZSTD_WINDOW_LOG_MAX, damaged};

/// Data is given out in pieces of at most this.
const PIECE_BYTES: usize = 32 << 10;
/// Frames half seen at a time; an engine takes up to some hundred KiB.
const ENGINES_MAX: usize = 64;

enum Engine {
    Zlib(Decompress),
    Zstd(Decoder<'static>),
}

impl Engine {
    fn step(&mut self, packed: &[u8], target: &mut [u8]) -> io::Result<Step> {
        match self {
            Engine::Zlib(engine) => {
                let (used, made) = (engine.total_in(), engine.total_out());
                let status = engine
                    .decompress(packed, target, FlushDecompress::None)
                    .map_err(|error| damaged(&error.to_string()))?;
                Ok(Step {
                    used: (engine.total_in() - used) as usize,
                    made: (engine.total_out() - made) as usize,
                    is_end: status == Status::StreamEnd,
                })
            }
            Engine::Zstd(engine) => {
                let status = engine
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

/// What unpacks, shared by all connections of an onlooker.
#[derive(Default)]
pub struct Engines {
    zlib: Vec<Engine>,
    zstd: Vec<Engine>,
    lent: usize,
    piece: Box<[u8]>,
}

impl Engines {
    /// How many are in use: directions that have seen half a frame.
    pub fn lent(&self) -> usize {
        self.lent
    }

    fn lend(&mut self, compression: Compression) -> io::Result<Engine> {
        if self.lent >= ENGINES_MAX {
            return Err(io::Error::other("too many compressed frames are half seen"));
        }
        if self.piece.is_empty() {
            self.piece = vec![0; PIECE_BYTES].into();
        }
        let spare = match compression {
            Compression::Zstd => self.zstd.pop(),
            Compression::Off | Compression::Zlib => self.zlib.pop(),
        };
        let engine = match (spare, compression) {
            (Some(mut engine), _) => {
                match &mut engine {
                    Engine::Zlib(engine) => engine.reset(true),
                    Engine::Zstd(engine) => engine.reinit()?,
                }
                engine
            }
            (None, Compression::Zstd) => {
                let mut engine = Decoder::new()?;
                engine.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Engine::Zstd(engine)
            }
            (None, _) => Engine::Zlib(Decompress::new(true)),
        };
        self.lent += 1;
        Ok(engine)
    }

    fn take_back(&mut self, engine: Engine) {
        self.lent -= 1;
        match engine {
            Engine::Zlib(_) => self.zlib.push(engine),
            Engine::Zstd(_) => self.zstd.push(engine),
        }
    }
}

/// One direction of a compressed connection. It has no `Debug`: it passes on what users send.
pub struct Unpacker {
    compression: Compression,
    header: [u8; HEADER_BYTES],
    header_length: usize,
    /// Of the frame being read: bytes of it still to come, and of data still to give out.
    packed_left: usize,
    data_left: usize,
    engine: Option<Engine>,
}

impl Unpacker {
    /// At the beginning of a frame.
    pub fn new(compression: Compression) -> Unpacker {
        Unpacker {
            compression,
            header: [0; HEADER_BYTES],
            header_length: 0,
            packed_left: 0,
            data_left: 0,
            engine: None,
        }
    }

    /// How it unpacks.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Between two frames, with nothing of the next.
    pub fn is_between(&self) -> bool {
        self.header_length == 0 && self.packed_left == 0 && self.engine.is_none()
    }

    /// Forgets a frame half seen: the next bytes begin one. Has to be called before an unpacker
    /// is dropped, or its engine is not given back.
    pub fn restart(&mut self, engines: &mut Engines) {
        if let Some(engine) = self.engine.take() {
            engines.take_back(engine);
        }
        *self = Unpacker::new(self.compression);
    }

    /// Gives the data of these bytes to `each`, in pieces.
    ///
    /// # Errors
    /// A frame is damaged, or too many are half seen; call [`restart`](Self::restart).
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        engines: &mut Engines,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.packed_left == 0 {
                bytes = self.read_header(bytes, engines)?;
                continue;
            }
            let (packed, later) = bytes.split_at(bytes.len().min(self.packed_left));
            bytes = later;
            self.packed_left -= packed.len();
            if self.engine.is_some() {
                self.unpack(packed, engines, each)?;
            } else {
                each(packed);
            }
        }
        Ok(())
    }

    fn read_header<'a>(&mut self, bytes: &'a [u8], engines: &mut Engines) -> io::Result<&'a [u8]> {
        let (taken, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.header_length));
        self.header[self.header_length..][..taken.len()].copy_from_slice(taken);
        self.header_length += taken.len();
        if self.header_length < HEADER_BYTES {
            return Ok(rest);
        }
        self.header_length = 0;
        let [a, b, c, _, d, e, f] = self.header;
        self.packed_left = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.data_left = u32::from_le_bytes([d, e, f, 0]) as usize;
        if self.packed_left == 0 {
            return Err(damaged("it is empty"));
        }
        if self.data_left > 0 {
            self.engine = Some(engines.lend(self.compression)?);
        }
        Ok(rest)
    }

    fn unpack(
        &mut self,
        mut packed: &[u8],
        engines: &mut Engines,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut piece = std::mem::take(&mut engines.piece);
        let result = loop {
            let Some(engine) = &mut self.engine else {
                break Err(damaged("it holds more than its data"));
            };
            // Room for a byte more shows data that was not announced.
            let room = piece.len().min(self.data_left + 1);
            let step = match engine.step(packed, &mut piece[..room]) {
                Ok(step) => step,
                Err(error) => break Err(error),
            };
            packed = &packed[step.used..];
            let Some(data_left) = self.data_left.checked_sub(step.made) else {
                break Err(damaged("it holds more data than it announced"));
            };
            self.data_left = data_left;
            if step.made > 0 {
                each(&piece[..step.made]);
            }
            if step.is_end {
                if let Some(engine) = self.engine.take() {
                    engines.take_back(engine);
                }
                if self.data_left > 0 || self.packed_left > 0 || !packed.is_empty() {
                    break Err(damaged("its data ends early"));
                }
                break Ok(());
            }
            if step.made == 0 && step.used == 0 {
                // Nothing more can be had of these bytes.
                let is_short = self.packed_left == 0 || !packed.is_empty();
                break match is_short {
                    true => Err(damaged("it ends early")),
                    false => Ok(()),
                };
            }
        };
        engines.piece = piece;
        result
    }
}
