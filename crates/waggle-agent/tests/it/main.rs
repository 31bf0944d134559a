//! The agent's parts against real servers and the real kernel.

mod locks;
mod locks_stage;
#[path = "../need/mod.rs"]
mod need;
mod partition;
