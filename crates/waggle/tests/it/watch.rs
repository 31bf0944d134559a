//! `waggle watch`: real servers, the real kernel, the real binary.

mod burn;
mod clock;
mod exact;
mod faults;
mod fields;
mod limits;
mod own;
pub(crate) mod raw;
mod receiver;
mod rights;
mod screen;
mod secrets;
mod servers;
mod speed;
pub(crate) mod stage;
