//! The statement probe with the breakdown of time, in real servers.

mod bed;
mod plain;
mod routines;
mod waits;
