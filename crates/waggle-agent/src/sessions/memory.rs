//! What does a session do now, as its `THD` says?
//!
//! Reads the memory of a server through `/proc/PID/mem`, opened once: the right to read is checked
//! at opening, so that it outlives the agent's capabilities, and the file stands for that process
//! alone, even if its id is given to another. Nothing is stopped and nothing is written.
//!
//! Invariant: the server changes this memory while it is read. A reading counts only if the
//! connection id, the text's place and the start time are the same before and after it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;

use waggle_symbols::layout::StartClock;
use waggle_symbols::{FieldName, Location, StatementLayout};

use super::Moment;

/// Most text of a statement that is read, bytes.
const TEXT_BYTES_MAX: usize = 8192;
/// Longest statement that is believed, bytes: `max_allowed_packet` cannot be larger.
const TEXT_LENGTH_MAX: u64 = 1 << 30;
/// Longest name that is believed, bytes.
const NAME_BYTES_MAX: u64 = 64 * 4;
/// Addresses of user space end here.
const ADDRESS_MAX: u64 = 1 << 47;
/// `SERVER_STATUS_IN_TRANS`, in both families.
const IN_TRANSACTION: u64 = 1;

/// The memory of one server process.
#[derive(Debug)]
pub struct ServerMemory {
    file: File,
    layout: StatementLayout,
}

/// What a `THD` said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Glance {
    pub(super) is_running: bool,
    pub(super) command: u32,
    /// On the server's clock, us.
    pub(super) start_us: u64,
    pub(super) truncated: bool,
    pub(super) in_transaction: Option<bool>,
    pub(super) database: Vec<u8>,
    pub(super) user: Vec<u8>,
}

/// What must not change during a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    connection_id: u64,
    command: u64,
    start_us: u64,
    query: u64,
    length: u64,
}

impl ServerMemory {
    /// Opens the memory of process `pid` for reading.
    ///
    /// # Errors
    /// The process is gone, or may not be traced by this one (see ptrace(2)).
    pub fn open(pid: u32, layout: StatementLayout) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(format!("/proc/{pid}/mem"))?;
        Ok(Self { file, layout })
    }

    /// A start time of the server's as ns of the monotonic clock.
    pub(super) fn start_ns(&self, start_us: u64, moment: &Moment) -> u64 {
        match self.layout.start_clock {
            StartClock::Monotonic => start_us.saturating_mul(1000),
            StartClock::Realtime => moment.time_ns_of(start_us),
        }
    }

    /// Looks at the session at `thd` if it still is that of `connection_id`; the text of its
    /// statement goes to `text`.
    pub(super) fn look(&self, thd: u64, connection_id: u64, text: &mut Vec<u8>) -> Option<Glance> {
        text.clear();
        let before = self.anchor(thd)?;
        if before.connection_id != connection_id {
            return None;
        }
        let mut glance = Glance {
            command: u32::try_from(before.command).ok()?,
            start_us: before.start_us,
            in_transaction: self.in_transaction(thd),
            database: self.text_at(thd, FieldName::Database).unwrap_or_default(),
            user: self.text_at(thd, FieldName::User).unwrap_or_default(),
            ..Glance::default()
        };
        // 0 is COM_SLEEP; between two statements there is no text.
        let has_text = before.query != 0 && (1..=TEXT_LENGTH_MAX).contains(&before.length);
        if before.command != 0 && has_text {
            let whole = usize::try_from(before.length).ok()?;
            text.resize(whole.min(TEXT_BYTES_MAX), 0);
            glance.truncated = text.len() < whole;
            glance.is_running = self.read(before.query, text).is_some();
        }
        if self.anchor(thd)? == before {
            return Some(glance);
        }
        // It went on to something else meanwhile: it lives, and what it does is not known.
        text.clear();
        Some(Glance {
            in_transaction: glance.in_transaction,
            ..Glance::default()
        })
    }

    /// The connection id of the session at `thd`, if that is one.
    pub fn connection_id(&self, thd: u64) -> Option<u64> {
        self.number(thd, FieldName::ConnectionId)
            .filter(|id| *id != 0)
    }

    fn anchor(&self, thd: u64) -> Option<Anchor> {
        let query = self.layout.location(FieldName::Query)?;
        let mut words = [0; 16];
        self.read(self.place(thd, query)?, &mut words)?;
        let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default());
        Some(Anchor {
            connection_id: self.number(thd, FieldName::ConnectionId)?,
            command: self.number(thd, FieldName::Command)?,
            start_us: self.number(thd, FieldName::StartTime)?,
            query: word(0),
            length: word(8),
        })
    }

    /// Whether the session is in a transaction, where the build's layout tells.
    fn in_transaction(&self, thd: u64) -> Option<bool> {
        let status = self.number(thd, FieldName::ServerStatus)?;
        Some(status & IN_TRANSACTION != 0)
    }

    fn number(&self, thd: u64, name: FieldName) -> Option<u64> {
        self.number_at(thd, self.layout.location(name)?)
    }

    fn number_at(&self, thd: u64, location: &Location) -> Option<u64> {
        let mut bytes = [0; 8];
        let width = usize::from(location.width).min(8);
        self.read(self.place(thd, location)?, &mut bytes[..width])?;
        Some(u64::from_le_bytes(bytes))
    }

    fn text_at(&self, thd: u64, name: FieldName) -> Option<Vec<u8>> {
        let location = self.layout.location(name)?;
        let mut words = [0; 16];
        self.read(self.place(thd, location)?, &mut words)?;
        let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default());
        let length = if location.length_follows {
            word(8)
        } else {
            NAME_BYTES_MAX
        };
        if length == 0 || length > NAME_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        if location.length_follows {
            self.read(word(0), &mut bytes)?;
            return Some(bytes);
        }
        // A string that ends somewhere: its page may end before the longest name would.
        let count = self.file.read_at(&mut bytes, user_address(word(0))?).ok()?;
        let end = bytes[..count].iter().position(|byte| *byte == 0)?;
        bytes.truncate(end);
        Some(bytes)
    }

    /// Where a value stands.
    fn place(&self, thd: u64, location: &Location) -> Option<u64> {
        let mut base = thd;
        for deref in &location.derefs {
            let mut pointer = [0; 8];
            self.read(base.checked_add(u64::from(*deref))?, &mut pointer)?;
            base = u64::from_ne_bytes(pointer);
        }
        base.checked_add(location.offset.into())
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact_at(bytes, user_address(address)?).ok()
    }
}

/// `address`, if user space can have it.
fn user_address(address: u64) -> Option<u64> {
    (4096..ADDRESS_MAX).contains(&address).then_some(address)
}
