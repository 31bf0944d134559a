//! eBPF probes: each is a folder with its kernel half, the header both halves share, and the
//! Rust that loads, attaches and reads it.
//!
//! Neighbours: `waggle-symbols` says where to attach and what to read there. Nothing here knows
//! about servers' protocols or about reports.
//!
//! Invariant: a probe lives exactly as long as its Rust value, or as the process: the kernel
//! removes it when the last descriptor closes, also after a kill.

pub mod burn;
pub mod call;
pub mod capability;
pub mod clock;
pub mod kernel;
pub mod latch;
pub mod lock;
mod object;
#[doc(hidden)]
pub mod own;
mod plain;
pub mod point;
mod processors;
pub mod programs;
mod record;
pub mod ring;
pub mod sample;
pub mod sched;
pub mod statement;
pub mod timeline;
pub mod wait;
