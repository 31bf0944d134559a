//! The agent: what do the servers of this host do, statement by statement, and who waits for whom?
//!
//! A [`source::Source`] (probe, packets, PERFORMANCE_SCHEMA, slow log) yields
//! [`source::Observation`]s; the aggregate sums them into bounded tables; a
//! [`view::View`] is a snapshot of these, which the terminal, the run directory and every exporter
//! read. Neighbours: `waggle-probes` below; the binary's `watch` and `waggle-export` above.
//!
//! Invariants: captured + lost + the agent's own = executed, in every view. Memory is bounded
//! whatever the servers
//! do. No literal of a statement leaves this crate unless it was asked for, and a statement that
//! may carry a password never does.

pub mod agent;
pub mod aggregate;
pub mod budget;
pub mod host;
pub mod hosts;
pub mod lock;
pub mod locks;
#[cfg(test)]
mod mutation;
pub mod sample;
pub mod sessions;
pub mod sink;
pub mod source;
mod sql;
pub mod statement;
pub mod view;

pub use sql::{Access, OwnSessions};
pub use waggle_probes::wait::WaitClass;
