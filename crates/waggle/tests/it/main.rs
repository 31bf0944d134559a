//! The verbs as a user runs them: the real binary, real servers, the real kernel.

mod bench;
mod copy;
mod credentials;
mod doctor;
mod foreign;
mod hostile;
mod lab;
mod load_ring;
mod modes;
mod profile;
mod report;
mod rights;
mod server;
mod study;
mod sysbench;
mod trace;
mod tune;
mod watch;
mod workloads;
