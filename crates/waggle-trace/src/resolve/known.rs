//! What waggle finds by decoding a server's binary: places (`known:redo.written`) and numbers
//! (`$write_lsn`), and whether a running server agrees.
//!
//! Neighbour: `waggle_symbols::redo` decodes. Invariant: a number is only handed out after the
//! running process had values there that it can have.

use std::thread;
use std::time::Duration;

use waggle_probes::point::{Base, Step, Value};
use waggle_symbols::function::Program;
use waggle_symbols::redo::{self, MariadbRedo, MysqlRedo};
use waggle_symbols::{Binary, Function, Site};

use super::process::Process;

/// Something known by name.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// A function's entry.
    Entry(Function),
    /// A function's return.
    Return(Function),
    /// A function's entry, if its first argument is this address of the binary.
    EntryWith(Function, u64),
    /// Instructions.
    Sites(Vec<Site>),
    /// An offset.
    Offset(i64),
    /// An address of the binary.
    Address(u64),
}

/// What was decoded, or why not.
#[derive(Debug)]
pub(super) enum Redo {
    Mysql(Box<MysqlRedo>),
    Mariadb(Box<MariadbRedo>),
    Refused(String),
}

impl Redo {
    pub(super) fn find(process: &Process) -> Self {
        let program = process.program();
        let is_mysql = program.address("log_sys").is_some();
        let found = if is_mysql {
            redo::mysql(program).map(|found| Self::Mysql(found.into()))
        } else {
            mariadb(program).map(|found| Self::Mariadb(found.into()))
        };
        let checked = found.and_then(|found| found.check(process).map(|()| found));
        checked.unwrap_or_else(Self::Refused)
    }

    /// The place or number of that name.
    pub(super) fn get(&self, name: &str) -> Result<Known, String> {
        let found = match self {
            Self::Mysql(redo) => match name {
                "redo.wait" => Some(Known::Entry(redo.wait.clone())),
                "redo.wait:ret" => Some(Known::Return(redo.wait.clone())),
                "redo.write" => Some(Known::Entry(redo.write.clone())),
                "redo.written" => Some(Known::Sites(redo.written.clone())),
                "redo.flush" => Some(Known::Entry(redo.flush.clone())),
                "redo.flushed" => Some(Known::Sites(redo.flushed.clone())),
                "write_lsn" => Some(Known::Offset(redo.write_lsn)),
                "flushed_lsn" => Some(Known::Offset(redo.flushed_lsn)),
                "paused" => Some(Known::Offset(redo.paused)),
                _ => None,
            },
            Self::Mariadb(redo) => match name {
                "redo.wait" => Some(Known::Entry(redo.wait.clone())),
                "redo.wait:ret" => Some(Known::Return(redo.wait.clone())),
                "redo.acquire" => Some(Known::Entry(redo.acquire.clone())),
                "redo.release" => Some(Known::Entry(redo.release.clone())),
                "redo.release-write" => {
                    Some(Known::EntryWith(redo.release.clone(), redo.write_lock))
                }
                "redo.release-flush" => {
                    Some(Known::EntryWith(redo.release.clone(), redo.flush_lock))
                }
                "write_lock" => Some(Known::Address(redo.write_lock)),
                "flush_lock" => Some(Known::Address(redo.flush_lock)),
                "value" => Some(Known::Offset(redo.value)),
                _ => None,
            },
            Self::Refused(reason) => return Err(reason.clone()),
        };
        found.ok_or_else(|| format!("waggle knows no `{name}` of this server"))
    }

    /// Looks whether the running server has such numbers there: what is flushed is written, both
    /// only grow, and neither is 0.
    fn check(&self, process: &Process) -> Result<(), String> {
        const READINGS: usize = 20;
        let (written, flushed) = match self {
            Self::Mysql(redo) => (
                load(&[redo.log_sys.cast_signed(), redo.write_lsn]),
                load(&[redo.log_sys.cast_signed(), redo.flushed_lsn]),
            ),
            Self::Mariadb(redo) => (
                load(&[redo.write_lock.cast_signed() + redo.value]),
                load(&[redo.flush_lock.cast_signed() + redo.value]),
            ),
            Self::Refused(_) => return Ok(()),
        };
        let mut before = (0, 0);
        for reading in 0..READINGS {
            // In this order: what is flushed now was written before.
            let now_flushed = process.value(&flushed)?;
            let now_written = process.value(&written)?;
            let is_possible = now_flushed > 0
                && now_flushed <= now_written
                && now_written < 1 << 62
                && now_flushed >= before.0
                && now_written >= before.1;
            if !is_possible {
                return Err(format!(
                    "the running server disagrees: flushed {now_flushed}, written {now_written}, \
                     before that {} and {}",
                    before.0, before.1
                ));
            }
            before = (now_flushed, now_written);
            if reading + 1 < READINGS {
                // A busy server moves on meanwhile.
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }
}

/// The number at the end of a chain of pointers from the binary's address 0.
fn load(chain: &[i64]) -> Value {
    let step = |add: &i64| Step {
        add: *add,
        load: 8,
        signed: false,
    };
    Value {
        base: Base::Image,
        steps: chain.iter().map(step).collect(),
        ..Value::default()
    }
}

fn mariadb(program: &Program) -> Result<MariadbRedo, String> {
    let binary = Binary::open(program.path(), redo::wanted).map_err(|error| error.to_string())?;
    redo::mariadb(program, &binary)
}
