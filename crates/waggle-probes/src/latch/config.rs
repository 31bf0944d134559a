//! What the kernel half is told of a process before it is loaded.
//!
//! Invariant: what is not known is said to be unknown, never 0.

use std::path::PathBuf;

use waggle_symbols::latch::RwMode;
use waggle_symbols::usdt::{Argument, Operand, Probe};
use waggle_symbols::{LatchLayout, Site};

use super::types;
use crate::plain::Plain;

/// A static probe of a program, as the original article's patch has them.
#[derive(Debug, Clone)]
pub struct StaticProbe {
    /// `wait_start`, `wait_end` or `latch_exit`.
    what: What,
    /// The file it is in.
    pub(super) binary: PathBuf,
    /// Where.
    pub(super) site: Site,
    /// Offset in the file of the counter that switches it on.
    pub(super) semaphore: Option<u64>,
    argument: types::latch_argument,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Start,
    End,
    Exit,
}

impl StaticProbe {
    /// From what the file's notes say. `None`: it is none of the three.
    ///
    /// # Errors
    /// Its argument, the latch's address, cannot be read where the note says.
    pub fn new(
        binary: PathBuf,
        probe: &Probe,
        site: Site,
        semaphore: Option<u64>,
    ) -> Option<Result<Self, String>> {
        let what = match probe.name.as_str() {
            "wait_start" => What::Start,
            "wait_end" => What::End,
            "latch_exit" => What::Exit,
            _ => return None,
        };
        let argument = match (what, probe.arguments.first()) {
            (What::End, _) => Ok(types::latch_argument::default()),
            (_, Some(first)) => argument(first),
            (_, None) => Err(format!(
                "{} has no argument: the latch's address",
                probe.name
            )),
        };
        Some(argument.map(|argument| Self {
            what,
            binary,
            site,
            semaphore,
            argument,
        }))
    }

    pub(super) fn program(&self) -> &'static str {
        match self.what {
            What::Start => "static_sleeps",
            What::End => "static_wakes",
            What::Exit => "static_releases",
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.what {
            What::Start => "wait_start",
            What::End => "wait_end",
            What::Exit => "latch_exit",
        }
    }
}

fn argument(argument: &Argument) -> Result<types::latch_argument, String> {
    use types::latch_argument_kind as kind;
    /// Where `struct pt_regs` keeps the registers, in words, by their numbers.
    const PLACES: [u8; 16] = [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0];
    let (of, reg, offset) = match &argument.operand {
        Ok(Operand::Constant(value)) => (kind::LATCH_ARGUMENT_CONSTANT, 0, *value),
        Ok(Operand::Register(register)) => (kind::LATCH_ARGUMENT_REGISTER, register.0, 0),
        Ok(Operand::Memory {
            base,
            offset,
            index: None,
        }) => (kind::LATCH_ARGUMENT_MEMORY, base.0, *offset),
        Ok(Operand::Memory { .. }) => return Err("its argument stands in an array".into()),
        Err(why) => return Err(why.clone()),
    };
    Ok(types::latch_argument {
        kind: u8::try_from(of.0).unwrap_or(0),
        place: PLACES[usize::from(reg & 15)],
        size: argument.bytes,
        offset,
        ..Default::default()
    })
}

pub(super) fn config(
    pid: u32,
    layout: &LatchLayout,
    thread_number: Option<u32>,
    statics: &[StaticProbe],
    bitset: bool,
) -> types::latch_config {
    let known = |offset: Option<u32>| offset.map_or(-1, u32::cast_signed);
    let mut config = types::latch_config {
        tgid: pid,
        thread_number: known(thread_number),
        mutex_owner: known(layout.mutex.and_then(|m| m.owner)),
        mutex_id: known(layout.mutex.and_then(|m| m.latch_id)),
        rw_writer: known(layout.rw_lock.map(|l| l.writer)),
        rw_made_at: known(layout.rw_lock.map(|l| l.made_at)),
        ticket: known(layout.key.map(|k| k.ticket)),
        lock: known(layout.key.map(|k| k.lock)),
        key: known(layout.key.map(|k| k.key)),
        bitset: u32::from(bitset),
        ..Default::default()
    };
    for wait_type in &layout.types {
        use types::latch_type as t;
        let meaning = match wait_type.mode {
            None => t::LATCH_TYPE_MUTEX,
            Some(RwMode::Shared) => t::LATCH_TYPE_SHARED,
            Some(RwMode::SharedExclusive) => t::LATCH_TYPE_SHARED_EXCLUSIVE,
            Some(RwMode::Exclusive) => t::LATCH_TYPE_EXCLUSIVE,
            Some(RwMode::ExclusiveDraining) => t::LATCH_TYPE_DRAINING,
        };
        if let Some(slot) = config.types.get_mut(usize::from(wait_type.number)) {
            *slot = u8::try_from(meaning.0).unwrap_or(0);
        }
    }
    for (slot, probe) in config.arguments.iter_mut().zip(statics) {
        *slot = probe.argument;
    }
    config
}

// SAFETY: integers without padding.
unsafe impl Plain for types::latch_config {}
