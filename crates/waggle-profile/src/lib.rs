//! Where does a process spend its time, and for which statement?
//!
//! Samples of the threads that run and records of those that do not become a [`model::Profile`]:
//! time by whole stack, each with whose it is (process, role, digest). A [`Recorder`] records;
//! everything that shows a profile is in [`out`].
//!
//! Neighbours: `waggle-probes` takes the samples, `waggle-trace` names addresses and threads,
//! `waggle-agent` says which statement a thread ran. Invariant: time that was sampled is in the
//! profile or in [`model::Losses`], never in neither.

mod capture;
pub mod join;
pub mod kallsyms;
pub mod model;
mod naming;
pub mod offcpu;
pub mod out;
mod processes;
mod recorder;
pub mod roles;
mod statements;
mod sums;

pub use processes::descendants;
pub use recorder::{RecordError, Recorder, RecorderOptions};
