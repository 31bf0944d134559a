//! What is found in the builds that are here, and what is said of damaged ones.

mod builds;
mod latches;
mod locks;
mod mutated;
mod mutated_program;
mod redo;
