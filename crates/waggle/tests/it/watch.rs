//! `waggle watch`: real servers, the real kernel, the real binary.

mod burn;
mod clock;
mod exact;
mod faults;
mod fields;
mod limits;
mod listen;
mod own;
pub(crate) mod raw;
mod receiver;
pub(crate) mod rights;
mod screen;
mod secrets;
mod servers;
mod speed;
pub(crate) mod stage;
