//! Where to attach in a server binary, and where in its memory a statement's facts stand.
//!
//! Neighbours: `waggle-server` says which binary a process runs; `waggle-probes` attaches what is
//! found here. Works on stripped stock binaries: the exported functions are decoded, nothing is
//! executed and nothing is guessed. What cannot be found is reported with its reason.
//!
//! Invariant: a site is only ever an instruction boundary reached by decoding from the start of
//! an exported function, and its bytes are handed out with it, so that the attacher can compare
//! them with what is mapped.

pub mod boundary;
pub mod callers;
pub mod elf;
pub mod function;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod hook;
pub mod known;
pub mod latch;
pub mod layout;
pub mod lock;
pub mod mapped;
pub mod mark;
pub mod recipe;
pub mod redo;
pub mod site;
pub mod trace;
pub mod unwind;
pub mod usdt;

pub use elf::{Binary, BuildId, ElfError, Function};
pub use hook::{Hook, HookError, HookSite};
pub use latch::{LatchHook, LatchLayout, LatchSite};
pub use layout::{
    Field, FieldName, Location, LockTime, Source, StatementLayout, ThreadKind, server_status,
};
pub use lock::{LockHook, LockLayout, LockSite, SearchLayout};
pub use mark::Marks;
pub use site::{Register, Site, SiteError, TrapCost};
