//! Which latch did threads wait for, how long, and who held it meanwhile?
//!
//! `waggle-probes` sees a thread go to sleep for a latch, wake from it, and a holder let go of a
//! latch that is waited for; nothing of latches that are free. [`Join`] makes waits of these, and
//! accounts for every nanosecond of each: held by a thread that is known, between holders, or not
//! observed. [`Table`] sums waits by latch.
//!
//! Neighbours: [`seen`] is what goes in, [`held`] the arithmetic of one wait; [`source`] turns the
//! kernel's records into what is seen, [`naming`] gives latches and places their names; the
//! binary's verb prints the table.
//!
//! Invariant: the parts of a wait add up to it to the nanosecond. A holder is only named by the act
//! of letting go, and only for as long as it must have held the latch; never by a guess.

mod find;
pub mod held;
mod history;
mod join;
mod memory;
mod metadata;
pub mod naming;
pub mod seen;
pub mod source;
mod table;

pub use find::{Found, Options, SourceError};
pub use join::{Join, JoinCounters, Wait};
pub use naming::Naming;
pub use seen::{Kind, LatchId, Mode, Request, Seen, What};
pub use source::{Ended, Source};
pub use table::{HolderKey, HolderRow, Name, RequestRow, Row, Spread, THE_REST, Table};
