//! One connection as the protocol has it: who is logged in, which commands wait for their answer.
//!
//! Flows give it both directions' bytes in order, and gaps; `client` reads what the client asks,
//! `answer` what the server sends to it. A connection goes from the greeting to commands; one that
//! was open before, or lost bytes, is out of step until a client's piece looks like a command and
//! nothing else.
//! Invariants: memory is bounded per connection; a statement is yielded only if its command and
//! its whole answer were seen, in turn; every other one is counted. No proof of a password is kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use waggle_wire::Compression;
use waggle_wire::onlooker::{self, Engines, Unpacker};

use super::answer::Answer;
use super::command::{Command, Sql};
use super::framer::{Framer, Packet};
use super::hidden::Sizes;
use super::losses::{Cause, Losses};
use super::resync;
use super::texts::Texts;
use super::tls::Turns;
use crate::source::Observation;

/// Commands that wait for their answers on one connection; more is no client that we know.
pub(super) const PENDING_MAX: usize = 1024;
/// Prepared statements of one connection whose text is remembered.
const PREPARED_MAX: usize = 16_384;
/// Kept of a server's packet that comes in pieces: all of any that is read.
const ANSWER_BYTES_KEPT: usize = 1024;
/// A text buffer above this is not kept for the next command.
const SPARE_BYTES_MAX: usize = 8 << 10;

/// What all sessions of a source share.
#[derive(Default)]
pub(super) struct Shared {
    /// `None` while they unpack.
    pub(super) engines: Option<Box<Engines>>,
    pub(super) texts: Texts,
    pub(super) losses: Losses,
    pub(super) text_bytes_max: usize,
    /// The clock may have been set since the last look: times across it mean nothing.
    pub(super) is_clock_doubtful: bool,
    pub(super) statements: u64,
}

/// The bytes are not what they should be here.
pub(super) struct Confused;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The server's first packet is due.
    Greeting,
    /// The client's answer to it is due.
    Login,
    /// Until the server accepts.
    Proof,
    Commands,
    /// Out of step: nothing is known of where packets begin.
    Lost,
    Tls(Turns),
    /// Not to be read further: a replication stream, another protocol, a refused login.
    Ignored,
}

#[derive(Default)]
pub(super) struct Half {
    pub(super) framer: Framer,
    pub(super) unpacker: Option<Unpacker>,
}

pub(super) struct Session {
    pub(super) phase: Phase,
    /// Both sides'; meaningless unless `is_agreed`.
    pub(super) capabilities: u64,
    /// The login was seen.
    pub(super) is_agreed: bool,
    /// Learnt from answers where the login was not seen.
    pub(super) deprecates_eof: Option<bool>,
    pub(super) connection_id: Option<u64>,
    pub(super) user: Vec<u8>,
    pub(super) database: Vec<u8>,
    pub(super) host: Box<str>,
    /// User and database that the server has not accepted yet.
    pub(super) claimed: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) client: Half,
    pub(super) server: Half,
    pub(super) pending: VecDeque<Command>,
    pub(super) answer: Answer,
    pub(super) prepared: BTreeMap<u32, Arc<[u8]>>,
    pub(super) last_prepared: Option<u32>,
    pub(super) spare: Vec<u8>,
    /// End of the last answer.
    pub(super) last_end_ns: u64,
    pub(super) last_server_ns: u64,
    /// It has sent a command before it had the answer to another.
    pub(super) pipelines: bool,
    /// A whole exchange was understood.
    pub(super) is_confirmed: bool,
    pub(super) strikes: u16,
    /// When the server had spoken last at the latest of these.
    pub(super) struck_ns: u64,
    /// What statements take, to tell how many a gap hides.
    pub(super) sizes: Sizes,
    pub(super) bytes_since: u64,
    /// Number of the server's next byte, and what it was when the client's bytes were last seen
    /// without a gap.
    pub(super) server_at: Option<u32>,
    pub(super) server_mark: Option<u32>,
}

impl Session {
    /// A connection that begins, or one that was open before.
    pub(super) fn new(host: String, begins: bool) -> Session {
        Session {
            phase: if begins { Phase::Greeting } else { Phase::Lost },
            capabilities: 0,
            is_agreed: false,
            deprecates_eof: None,
            connection_id: None,
            user: Vec::new(),
            database: Vec::new(),
            host: host.into(),
            claimed: None,
            client: Half::default(),
            server: Half::default(),
            pending: VecDeque::new(),
            answer: Answer::default(),
            prepared: BTreeMap::new(),
            last_prepared: None,
            spare: Vec::new(),
            last_end_ns: 0,
            last_server_ns: 0,
            pipelines: false,
            is_confirmed: false,
            strikes: 0,
            struck_ns: u64::MAX,
            sizes: Sizes::default(),
            bytes_since: 0,
            server_at: None,
            server_mark: None,
        }
    }

    pub(super) fn agreed(&self, capability: u64) -> bool {
        self.is_agreed && self.capabilities & capability != 0
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.client.unpacker.is_some()
    }

    /// The server had said all before the byte of this number.
    pub(super) fn server_is_at(&mut self, number: u32) {
        let is_later = |at: u32| number.wrapping_sub(at).cast_signed() > 0;
        if self.server_at.is_none_or(is_later) {
            self.server_at = Some(number);
        }
    }

    /// The client's next bytes.
    pub(super) fn client_bytes(&mut self, bytes: &[u8], time_ns: u64, shared: &mut Shared) {
        self.server_mark = self.server_at;
        if let Phase::Tls(turns) = &mut self.phase {
            return turns.client_spoke();
        }
        // Before the greeting it is a proxy's words about whom it speaks for.
        if matches!(self.phase, Phase::Ignored | Phase::Greeting)
            || (self.phase == Phase::Lost && !self.take_up(bytes, time_ns, shared))
        {
            return;
        }
        let Some(mut unpacker) = self.client.unpacker.take() else {
            return self.client_plain(bytes, time_ns, shared);
        };
        let mut engines = shared.engines.take().unwrap_or_default();
        let unpacked = unpacker.push(bytes, &mut engines, &mut |piece| {
            self.client_plain(piece, time_ns, shared);
        });
        shared.engines = Some(engines);
        self.client.unpacker = Some(unpacker);
        // Out of step while it was unpacked: what is left of the frame means nothing.
        if unpacked.is_err() || self.phase == Phase::Lost {
            self.fall_out(Cause::NotUnderstood, shared);
        }
    }

    fn client_plain(&mut self, bytes: &[u8], time_ns: u64, shared: &mut Shared) {
        let mut framer = std::mem::take(&mut self.client.framer);
        let mut rest = bytes;
        let keep = shared.text_bytes_max.saturating_add(64);
        let mut result = Ok(());
        while result.is_ok()
            && let Some(packet) = framer.next(&mut rest, keep)
        {
            result = self.client_packet(&packet, time_ns, shared);
        }
        framer.trim();
        self.client.framer = framer;
        if result.is_err() {
            self.fall_out(Cause::NotUnderstood, shared);
        }
    }

    /// A buffer that is not needed any more.
    pub(super) fn recycle(&mut self, sql: Sql) {
        if let Sql::Own { text, .. } = sql
            && text.capacity() <= SPARE_BYTES_MAX
        {
            self.spare = text;
        }
    }

    /// The server's next bytes.
    pub(super) fn server_bytes(
        &mut self,
        bytes: &[u8],
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        self.last_server_ns = time_ns;
        match &mut self.phase {
            Phase::Ignored | Phase::Lost => return,
            Phase::Tls(turns) => {
                let hidden = turns.server_spoke(bytes.len());
                return shared.losses.add(Cause::Tls, hidden);
            }
            _ => {}
        }
        self.learn_compression(bytes);
        let Some(mut unpacker) = self.server.unpacker.take() else {
            return self.server_plain(bytes, time_ns, shared, each);
        };
        let mut engines = shared.engines.take().unwrap_or_default();
        let unpacked = unpacker.push(bytes, &mut engines, &mut |piece| {
            self.server_plain(piece, time_ns, shared, each);
        });
        shared.engines = Some(engines);
        self.server.unpacker = Some(unpacker);
        if unpacked.is_err() || self.phase == Phase::Lost {
            self.fall_out(Cause::NotUnderstood, shared);
        }
    }

    fn server_plain(
        &mut self,
        bytes: &[u8],
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        let mut framer = std::mem::take(&mut self.server.framer);
        let mut rest = bytes;
        loop {
            self.skip_rows(&mut framer, &mut rest);
            let Some(packet) = framer.next(&mut rest, ANSWER_BYTES_KEPT) else {
                self.server.framer = framer;
                return;
            };
            let was_compressed = self.is_compressed();
            let result = match self.phase {
                Phase::Commands => self.answer_packet(&packet, time_ns, shared, each),
                _ => self.opening_packet(&packet),
            };
            if result.is_err() {
                self.fall_out(Cause::NotUnderstood, shared);
                return;
            }
            // From the end of the login on, frames are compressed.
            if self.is_compressed() && !was_compressed && !rest.is_empty() {
                return self.server_bytes(rest, time_ns, shared, each);
            }
        }
    }

    fn opening_packet(&mut self, packet: &Packet<'_>) -> Result<(), Confused> {
        match (self.phase, packet.first()) {
            (Phase::Greeting, _) => match onlooker::opening(packet.head) {
                Ok(opening) if packet.sequences.0 == 0 => {
                    self.connection_id = Some(opening.connection_id.into());
                    self.capabilities = opening.capabilities;
                    self.phase = Phase::Login;
                }
                // Refused, or another protocol.
                _ => self.phase = Phase::Ignored,
            },
            (Phase::Proof, 0) => {
                self.accept_claim();
                self.phase = Phase::Commands;
                self.start_compression();
            }
            (Phase::Proof | Phase::Login, 0xff) => self.phase = Phase::Ignored,
            _ => {}
        }
        Ok(())
    }

    /// The server has accepted the user.
    pub(super) fn accept_claim(&mut self) {
        if let Some((user, database)) = self.claimed.take() {
            self.user = user;
            self.database = database;
        }
        self.prepared.clear();
    }

    fn start_compression(&mut self) {
        let compression = if self.agreed(onlooker::COMPRESS) {
            Compression::Zlib
        } else if self.agreed(onlooker::ZSTD_COMPRESSION) {
            Compression::Zstd
        } else {
            return;
        };
        self.unpack(compression);
    }

    /// Where the login was not seen, the first packed frame shows how it is packed.
    pub(super) fn learn_compression(&mut self, bytes: &[u8]) {
        if let Some(unpacker) = &self.server.unpacker
            && !self.is_agreed
            && unpacker.is_between()
            && let Some(shown) = resync::packing(bytes)
            && shown != unpacker.compression()
        {
            self.unpack(shown);
        }
    }

    pub(super) fn unpack(&mut self, compression: Compression) {
        for half in [&mut self.client, &mut self.server] {
            half.unpacker = Some(Unpacker::new(compression));
        }
    }

    /// Remembers what a preparation gave.
    pub(super) fn remember(&mut self, id: u32, text: &[u8], shared: &mut Shared) {
        self.last_prepared = Some(id);
        if self.prepared.len() < PREPARED_MAX
            && let Some(text) = shared.texts.keep(text)
        {
            self.prepared.insert(id, text);
        }
    }
}
