//! A table copied while it is written to: how do its rows and its changes get from one server to
//! another, exactly, and how does one know?
//!
//! ```text
//!             job: the order of the phases, each of which can be resumed
//! preflight ─► schema ─► snapshot ─► range ─► rows ─► ingest ─► schema (keys) ─► apply ─► verify
//!                           └── spool (the binary log from the snapshot on) ──────┘
//!                        progress: rows, ranges and position, at the target
//! ```
//!
//! Neighbours: `waggle-wire` reads rows and binary logs without building values, `waggle-server`
//! knows what a server is; the binary's verb `copy` prints and decides exit codes.
//!
//! Invariant: rows, progress and position change in one transaction of the target, so that a copy
//! ended at any moment goes on where the target says it was.

pub mod apply;
pub mod control;
pub mod error;
pub mod ingest;
pub mod job;
mod json;
pub mod position;
pub mod preflight;
pub mod progress;
pub mod range;
pub mod rows;
pub mod schema;
pub mod session;
pub mod snapshot;
pub mod spool;
pub mod table;
pub mod throttle;
pub mod verify;

pub use control::{Control, Phase};
pub use error::{CopyError, Finding, Severity, Side};
pub use job::{Outcome, Plan, Until};
pub use position::Position;
pub use range::{KeyValue, Range};
pub use table::{Column, Key, Kind, Table, TableName};
