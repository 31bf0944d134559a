//! Where a server's threads go to sleep for latches, and what a latch's own memory says.
//!
//! MySQL: every InnoDB mutex and rw-lock that cannot be had at once gets a cell of the wait array
//! (`sync_array_reserve_cell`, with latch, type, file and line), and sleeps in
//! `sync_array_wait_event`, whose calls of `os_event_wait_low` and `sync_array_free_cell` are the
//! sleep's two ends; whoever lets go of a latch with sleepers passes `os_event_set` with its event.
//! Both servers: metadata locks, by the sites of [`crate::lock`]. MariaDB's own latches are words
//! that threads sleep on; they need nothing of the binary.
//!
//! Where a latch keeps its event, its owner and its name is decoded from the functions that use
//! them (`innodb`, `metadata`, by the instructions of `code`), and each only counts if the code has
//! the form that is known. `pthread` says which thread an owner is, `data_symbols` what a latch
//! without a name is called.
//!
//! Invariant: none of the sites is passed by a thread that gets its latch at once, except
//! `os_event_set`, which all kinds of events share.

mod code;
mod data_symbols;
mod innodb;
mod metadata;
mod pthread;

use std::fmt;
use std::path::Path;

use crate::elf::{Binary, ElfError};
use crate::lock::LockLayout;
use crate::site::Site;
use code::{RESERVE, wanted};

pub use data_symbols::DataSymbols;
pub use pthread::thread_number;

/// What a site reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LatchHook {
    /// A latch cannot be had: latch, type, file, line (`rsi`, `rdx`, `rcx`, `r8`).
    Wanted,
    /// The thread goes to sleep for it: event (`rdi`).
    Sleeps,
    /// It woke.
    Wakes,
    /// Somebody sets an event: event (`rdi`).
    Sets,
    /// The thread goes to sleep for a metadata lock: its wait (`rdi`).
    MetadataSleeps,
    /// It woke.
    MetadataWakes,
    /// A wait for a metadata lock is told its fate: the wait, the fate (`rdi`, `esi`).
    MetadataTold,
}

impl LatchHook {
    /// Every hook.
    pub const ALL: [Self; 7] = [
        Self::Wanted,
        Self::Sleeps,
        Self::Wakes,
        Self::Sets,
        Self::MetadataSleeps,
        Self::MetadataWakes,
        Self::MetadataTold,
    ];

    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wanted => "latch wanted",
            Self::Sleeps => "sleep for a latch",
            Self::Wakes => "end of a sleep for a latch",
            Self::Sets => "latch with sleepers released",
            Self::MetadataSleeps => "sleep for a metadata lock",
            Self::MetadataWakes => "end of a sleep for a metadata lock",
            Self::MetadataTold => "metadata lock granted",
        }
    }
}

impl fmt::Display for LatchHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatchSite {
    /// What it reports.
    pub hook: LatchHook,
    /// Where.
    pub site: Site,
    /// The function has not moved the stack yet: the return address is on top of it.
    pub at_entry: bool,
}

/// An InnoDB mutex, offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutexLayout {
    /// Of the owner's `pthread_t`; `None` where the word only says that there is one (MySQL 8.0).
    pub owner: Option<u32>,
    /// Of the pointer to its event.
    pub event: u32,
    /// Of the number of its name.
    pub latch_id: Option<u32>,
}

/// An InnoDB rw-lock, offsets in bytes. Its state is the 32-bit word at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RwLockLayout {
    /// Of the `pthread_t` of whoever has it exclusively.
    pub writer: u32,
    /// Of the pointer to the event.
    pub event: u32,
    /// Of the name of the file that made it, a pointer; the line follows.
    pub made_at: u32,
}

/// What a type given to the wait array asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitType {
    /// The number.
    pub number: u8,
    /// How a rw-lock is asked for; `None`: a mutex.
    pub mode: Option<RwMode>,
}

/// How a rw-lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RwMode {
    /// Shared.
    Shared,
    /// Shared with readers, exclusive among its like.
    SharedExclusive,
    /// Exclusive.
    Exclusive,
    /// Exclusive and granted; the readers have to leave first.
    ExclusiveDraining,
}

/// Where a metadata lock's wait leads to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPath {
    /// From the wait: of the pointer to the ticket waited for.
    pub ticket: u32,
    /// From the ticket: of the pointer to the lock.
    pub lock: u32,
    /// From the lock: of the key's bytes; their number stands at the lock's start, in 16 bits.
    pub key: u32,
}

/// Where names of mutexes are, in the file's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameTable {
    /// Of the pointer to the array of pointers to descriptions, one a latch id.
    pub array: u64,
    /// In a description: of the pointer to the name.
    pub name: u32,
}

/// Every place of one build.
#[derive(Debug, Clone, Default)]
pub struct LatchLayout {
    /// What was found.
    pub sites: Vec<LatchSite>,
    /// What was not, and why.
    pub missing: Vec<(String, String)>,
    /// InnoDB's mutexes.
    pub mutex: Option<MutexLayout>,
    /// InnoDB's rw-locks.
    pub rw_lock: Option<RwLockLayout>,
    /// What the wait array's types mean.
    pub types: Vec<WaitType>,
    /// Names of mutexes.
    pub names: Option<NameTable>,
    /// Keys of metadata locks.
    pub key: Option<KeyPath>,
}

impl LatchLayout {
    /// Finds every place of the server binary at `path`. A binary that is no server has none.
    ///
    /// # Errors
    /// The file cannot be read, or is not for x86-64.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let binary = Binary::open(path, wanted)?;
        let mut layout = Self::default();
        layout.find_metadata(&binary, &LockLayout::open(path)?);
        if binary.function_by_prefix(RESERVE).is_some() {
            layout.find_innodb(&binary);
        }
        Ok(layout)
    }

    /// The site of `hook`, if there is one.
    pub fn site(&self, hook: LatchHook) -> Option<&LatchSite> {
        self.sites.iter().find(|s| s.hook == hook)
    }

    fn miss(&mut self, what: &str, why: &str) {
        self.missing.push((what.to_owned(), why.to_owned()));
    }
}
