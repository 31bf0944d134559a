//! `waggle trace`: programs that know their own truth, real servers, the real kernel.

mod ends;
mod func;
mod latch;
mod load;
mod lossy;
mod pipeline;
mod program;
mod redo;
mod replica;
mod soak;
mod truth;
mod waits;
