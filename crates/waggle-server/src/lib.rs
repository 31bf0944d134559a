//! What is a MySQL or MariaDB server here: which one, where, at what cost, and throw-away ones.
//!
//! * [`binary`] and [`install`]: which server programs are here, and which build each is;
//! * [`process`]: which of them run; [`discovery`]: following them as they come and go;
//! * [`cpu`]: what a running one costs, in CPU time and memory;
//! * [`confine`]: keeping processes to a part of the machine;
//! * [`status`]: what it says about itself, over a [`waggle_wire::Connection`];
//! * [`sandbox`]: servers of our own that vanish with the process that started them;
//! * [`topology`]: a primary of that kind and its replicas.
//!
//! Below this crate is only `waggle-wire`. Invariant: nothing here writes to a server or to a
//! directory that is not a throw-away one, and nothing connects to a server that was not named.

pub mod binary;
pub mod confine;
pub mod cpu;
pub mod discovery;
mod flavour;
pub mod install;
mod pidfd;
pub mod process;
pub mod sandbox;
pub mod status;
pub mod topology;

pub use flavour::{Flavour, FlavourError};
