//! Who waits for whom on one server: waits, blocking trees and deadlocks.
//!
//! ```text
//! LockProbe ── events ──► Analysis ──► LockWait, Deadlock ──► tree
//! Sessions ─── parties ─────┘  ▲
//! Inspector (only with a DSN) ─┘  tables, indexes, modes, ages
//! ```
//! [`LockWatch`] holds these together for the agent's loop. Neighbours: `waggle_probes::lock`
//! below; views, records and exporters above.
//!
//! Invariants: a wait is told as ended exactly once. Nobody is named as a blocker whom the server
//! did not name. Every table is bounded, and what is beyond is counted.

mod analysis;
mod deadlocks;
mod inspect;
mod metadata;
mod modes;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod watch;

pub use analysis::{Analysis, WaitDetail};
pub use inspect::{
    Finding, Inspector, MetadataHold, Question, RowWait, StatusDeadlock, StatusMember,
    latest_deadlock,
};
pub use tree::{TreeLine, TreeRole, tree};
pub use watch::LockWatch;
