//! `waggle trace`: programs that know their own truth, real servers, the real kernel.

pub(crate) mod ends;
mod func;
mod latch;
mod load;
mod lossy;
mod pipeline;
mod program;
mod redo;
mod replica;
mod slices;
mod soak;
mod truth;
mod waits;
