//! The verbs as a user runs them: the real binary, real servers, the real kernel.

mod bench;
mod copy;
mod doctor;
mod lab;
mod load_ring;
mod profile;
mod report;
mod server;
mod study;
mod sysbench;
mod trace;
mod tune;
mod watch;
mod workloads;
