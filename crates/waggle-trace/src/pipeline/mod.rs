//! What was each wait made of? Waits in, stages that other threads carried out, out.
//!
//! Data flow: [`Tracker`] takes events in the order of their time, keeps what each stage has
//! reached (`progress`) and who waits; when a wait ends, `decompose` cuts it into its stages,
//! and once nothing before its end can be missing any more, it is flagged or handed to the
//! [`Aggregate`]. Neighbours: a stage file says which points are which ([`Layout`]); the
//! scheduler's [`Activity`] says what the threads were doing.
//!
//! Invariants: pure, no clock, no kernel. The parts of a wait sum to it to the nanosecond, and what
//! its thread was doing in a part sums to the part. A wait that a loss may have touched is in no
//! figure but the count of such waits. Memory does not grow with the length of the trace.

mod aggregate;
mod bars;
mod counts;
mod decompose;
mod doing;
mod followed;
mod layout;
mod losses;
mod open;
mod progress;
#[cfg(test)]
mod simulation;
mod tracker;

pub use aggregate::{Aggregate, AggregateSettings, Group, Shape, Slice, StageTotals};
pub use bars::Latencies;
pub use counts::Counts;
pub use decompose::{Part, Reached, Wait};
pub use doing::{Activity, Doing, Reason, Unknown};
pub use followed::Followed;
pub use layout::{Layout, Seen, StageLayout};
pub use tracker::Tracker;
