//! How are questions put to a server without anybody waiting for the answers?
//!
//! A server may hang, restart or never answer, and the agent's loop must not notice: a [`Session`]
//! connects anew, no more often than it should, and gives each statement a time limit; a
//! [`Background`] runs it on a thread of its own and keeps the newest answer. Neighbours: the
//! status sampler and the PERFORMANCE_SCHEMA source. Invariants: nothing here changes the server
//! but for the connection itself; an error never carries a password.

mod access;
mod background;
mod session;

pub use access::{Access, OwnSessions};
pub(crate) use access::{MARK, OWN_NAME};
pub(crate) use background::Background;
pub(crate) use session::{Failed, Session, number, text};
