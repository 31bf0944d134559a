//! What may the agent cost, and what does it leave out to keep to that?
//!
//! Two means: a control group of its own ([`Group`]) makes the kernel enforce the limits whatever
//! happens; the [`Governor`] sees that they are near and leaves out work, in a stated order, before
//! they bite. [`rights`] gives up what is no longer needed. Neighbour: the agent's loop feeds the
//! governor and carries out what it decides.
//! Invariant: what is left out is named in every view while it is, and counted where statements
//! lose something by it; no statement goes uncounted.

mod governor;
mod group;
pub mod rights;

pub use governor::{Change, Governor, Reading, Shed};
pub use group::Group;

/// Limits; `None` is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// CPU time of the agent and of its probes in the servers, cores (0.05 is 5% of one). The
    /// kernel enforces it on the agent alone.
    pub cpu: Option<f64>,
    /// Memory of the agent, bytes.
    pub memory: Option<u64>,
}

impl Limits {
    /// True if there is any.
    pub fn any(&self) -> bool {
        self.cpu.is_some() || self.memory.is_some()
    }
}
