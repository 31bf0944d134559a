//! The copy phase between real servers: rows get to the target as they are, once.
//!
//! One server is both source and target, with a database for each: it starts once.

mod jobs;
mod rows;
mod snapshot;
mod stage;
