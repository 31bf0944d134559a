//! The agent's parts against real servers and the real kernel.

mod locks;
mod partition;
