//! The verbs as a user runs them: the real binary, real servers, the real kernel.

mod bench;
mod doctor;
mod lab;
mod load_ring;
mod need;
mod report;
mod server;
mod study;
mod sysbench;
mod watch;
mod workloads;
