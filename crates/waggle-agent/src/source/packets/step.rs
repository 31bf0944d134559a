//! Is a connection in step, and if not: what was missed, and when is it again?
//!
//! The session asks before it reads on, and flows tell of gaps. Neighbours: `resync` knows what
//! commands look like, `hidden` how many statements hide in bytes. Invariant: a connection that
//! fell out of step yields nothing until a client's piece is a command and can be nothing else.

use waggle_wire::Compression;

use super::answer::{Answer, State};
use super::framer::Framer;
use super::losses::Cause;
use super::resync::{self, Shape};
use super::session::{Phase, Session, Shared};
use super::tls::Turns;

/// A connection that sends commands before it has the answers is taken up again only after a pause.
const PIPELINE_PAUSE_NS: u64 = 1_000_000_000;
/// Attempts to find a command on a connection that never showed one.
const STRIKES_MAX: u16 = 64;

impl Session {
    /// `bytes` of the client were never seen.
    pub(super) fn client_gap(&mut self, bytes: u32, shared: &mut Shared) {
        let hidden = match self.phase {
            Phase::Commands if self.client.framer.absorb(bytes as usize) => return,
            // Of a file that is being loaded: one statement, which waits for its answer.
            Phase::Commands if self.answer.state == State::File => 0,
            Phase::Commands | Phase::Lost if self.is_confirmed => self.hidden_by(bytes),
            // Its first statement: what it is was seen, and nothing is known of others.
            Phase::Commands => u64::from(self.client.framer.begun() > 0),
            Phase::Ignored | Phase::Tls(_) => return,
            _ => 0,
        };
        shared.losses.add(Cause::Dropped, hidden);
        self.fall_out(Cause::Dropped, shared);
    }

    /// How many statements these bytes of the client hide.
    fn hidden_by(&self, bytes: u32) -> u64 {
        let framer = &self.client.framer;
        let said = self.server_at.zip(self.server_mark);
        let answered = said.map_or(u32::MAX, |(at, mark)| at.wrapping_sub(mark));
        self.sizes.hidden(
            bytes.into(),
            framer.begun() as u64,
            framer.left() as u64,
            answered.into(),
        )
    }

    /// The watch ends, and packets of this connection were dropped of which nothing came after.
    /// Gives how many bytes are missing of a statement that was seen to begin.
    pub(super) fn end_unheard(&mut self, shared: &mut Shared) -> usize {
        if self.phase != Phase::Commands {
            return 0;
        }
        let left = self.client.framer.left();
        let begun = u64::from(self.client.framer.begun() > 0);
        shared.losses.add(Cause::Dropped, begun);
        self.fall_out(Cause::Dropped, shared);
        left
    }

    /// `bytes` of the server were never seen.
    pub(super) fn server_gap(&mut self, bytes: u32, shared: &mut Shared) {
        match self.phase {
            Phase::Ignored | Phase::Tls(_) | Phase::Lost => {}
            Phase::Commands if self.server.framer.absorb(bytes as usize) => {}
            _ => self.fall_out(Cause::Dropped, shared),
        }
    }

    /// Nothing is known of where packets begin; statements that wait are counted.
    pub(super) fn fall_out(&mut self, cause: Cause, shared: &mut Shared) {
        if matches!(self.phase, Phase::Ignored | Phase::Tls(_)) {
            return;
        }
        self.give_up_pending(cause, shared);
        for half in [&mut self.client, &mut self.server] {
            half.framer = Framer::default();
            // Amid a frame that is being unpacked, the caller does it.
            if let (Some(unpacker), Some(engines)) = (&mut half.unpacker, &mut shared.engines) {
                unpacker.restart(engines);
            }
        }
        self.phase = Phase::Lost;
        if cause == Cause::NotUnderstood {
            self.strike();
        }
    }

    fn give_up_pending(&mut self, cause: Cause, shared: &mut Shared) {
        let waiting = self.pending.iter().filter(|c| c.code.is_statement());
        // Before the first whole exchange it may be no connection of this protocol at all.
        if self.is_confirmed || cause != Cause::NotUnderstood {
            shared.losses.add(cause, waiting.count() as u64);
        }
        self.pending.clear();
        self.answer = Answer::default();
    }

    /// It was not understood. What the client says at a stretch, such as the rest of a long
    /// statement whose middle was dropped, is one attempt.
    fn strike(&mut self) {
        if self.struck_ns == self.last_server_ns {
            return;
        }
        self.struck_ns = self.last_server_ns;
        self.strikes = self.strikes.saturating_add(1);
        if self.strikes > STRIKES_MAX && !self.is_confirmed {
            self.phase = Phase::Ignored;
        }
    }

    /// Gets in step if a client's piece is a command and can be nothing else.
    pub(super) fn take_up(&mut self, bytes: &[u8], time_ns: u64, shared: &mut Shared) -> bool {
        if self.client.framer.begun() > 0 {
            return false;
        }
        let expects = match self.is_agreed || self.is_compressed() {
            true => Some(self.is_compressed()),
            false => None,
        };
        let shape = resync::shape(bytes, expects);
        if matches!(shape, Shape::Plain | Shape::Packed)
            && self.pipelines
            && time_ns.saturating_sub(self.last_server_ns) < PIPELINE_PAUSE_NS
        {
            // Answers to older commands may still come.
            shared.losses.add(Cause::Dropped, 1);
            return false;
        }
        match shape {
            Shape::Tls => {
                let mut turns = Turns::amid();
                turns.client_spoke();
                self.phase = Phase::Tls(turns);
                return false;
            }
            Shape::Unknown => {
                self.strike();
                return false;
            }
            Shape::Packed if !self.is_compressed() => {
                self.unpack(resync::packing(bytes).unwrap_or(Compression::Zlib));
            }
            Shape::Packed => self.learn_compression(bytes),
            Shape::Plain => {}
        }
        self.phase = Phase::Commands;
        true
    }

    /// The connection is over, or forgotten.
    pub(super) fn close(&mut self, cause: Cause, shared: &mut Shared) {
        if self.is_confirmed {
            self.give_up_pending(cause, shared);
        }
        for half in [&mut self.client, &mut self.server] {
            if let (Some(unpacker), Some(engines)) = (&mut half.unpacker, &mut shared.engines) {
                unpacker.restart(engines);
            }
        }
    }
}
