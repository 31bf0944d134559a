//! A profile in the forms that people and other programs read: folded stacks, a flame graph, the
//! difference of two, pprof, and the Firefox Profiler's JSON.
//!
//! [`view`] says which samples are taken, what stands below their first call and what weighs; a
//! module a format turns a [`Profile`](crate::model::Profile) into bytes. Nothing is opened or
//! written here. Neighbours: `model` has the profile; `waggle-report` has its tables and its page.
//!
//! Invariants: names are foreign (symbols of any program, of any length, with any character), and
//! none breaks a format; weights of all lines add up to those of the entries taken; an index that
//! leads nowhere is shown as damage and never panics.

pub mod diff;
pub mod firefox;
pub mod flame;
pub mod folded;
mod name;
pub mod pprof;
pub mod view;

#[cfg(test)]
mod tests;

use std::io;

use thiserror::Error;

pub use view::{Root, Unit, View};

/// Why there is no output.
#[derive(Debug, Error)]
pub enum OutError {
    /// Nothing to draw.
    #[error("{what} holds no sample of this kind; profile for longer, or another kind")]
    Empty {
        /// Which profile.
        what: &'static str,
    },
    /// The format's library refused.
    #[error("cannot make the {format}: {source}")]
    Format {
        /// Such as `flame graph`.
        format: &'static str,
        /// Its reason.
        source: io::Error,
    },
}
