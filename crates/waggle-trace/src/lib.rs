//! What was a wait made of, who held what, and where does a function's time go? What
//! `waggle trace` knows.
//!
//! Neighbours: `waggle-symbols` says where to attach, `waggle-probes` attaches and hands out
//! records, the binary's verb `trace` prints. Everything between is here, and the arithmetic is
//! pure: events in, waits and stages out.
//!
//! Invariant: the stages of a wait add up to it to the nanosecond, and what was lost is never
//! silently part of a figure.

mod attached;
pub mod call;
pub mod event;
pub mod latch;
mod lost;
pub mod pipeline;
pub mod resolve;
pub mod slices;
pub mod source;
pub mod stack;
pub mod stagefile;
pub mod threads;
pub mod timeline;
pub mod waits;

pub use event::{Departure, Event, PointId, StackId, Thread, What};
pub use timeline::{Split, State, Timeline};
