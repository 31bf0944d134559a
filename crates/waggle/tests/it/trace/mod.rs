//! `waggle trace`: programs that know their own truth, real servers, the real kernel.

mod func;
mod latch;
mod pipeline;
mod redo;
mod truth;
mod waits;
