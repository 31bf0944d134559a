//! `waggle watch`: real servers, the real kernel, the real binary.

mod exact;
mod faults;
mod fields;
pub(crate) mod raw;
mod screen;
mod secrets;
mod servers;
mod speed;
pub(crate) mod stage;
