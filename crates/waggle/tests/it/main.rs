//! The verbs as a user runs them: the real binary, real servers, the real kernel.

mod bench;
mod doctor;
mod lab;
mod need;
mod server;
mod watch;
