//! What do the host, a server's process and the server itself say of what they use?
//!
//! * [`HostSampler`]: processors, memory, disks and network, from `/proc`;
//! * [`ProcessSampler`]: one server's process, from `/proc/PID` and the kernel's task statistics;
//! * [`StatusSampler`]: the server's own counters, by SQL, only where a DSN was given.
//!
//! Types are in [`crate::host`]. Invariants: counters are cumulative, as the kernel and the server
//! keep them; what could not be read is named, never a zero; no sampler waits for a server. Each
//! text of the kernel is parsed by a function that takes a string and survives any.

mod host;
mod parse;
mod process;
mod status;
mod tasks;

pub use host::HostSampler;
pub use process::ProcessSampler;
pub use status::StatusSampler;
