//! Where does a server's redo log say how far it is written and flushed, and where is that told?
//!
//! MySQL (`log_t`): the two notifiers are told apart by the one number that each reads first, so
//! they give the offsets; where the numbers are stored is found in the functions that the log's
//! threads and `log_write_up_to` share. MariaDB (`group_commit_lock`): its engine exports nothing,
//! but a wait in it is announced by `thd_wait_begin` with a type of its own, which leads to
//! `acquire`, from there to `log_write_up_to`, and from there to `release` and the two locks.
//! Neighbours: [`boundary`](crate::boundary), [`callers`](crate::callers).
//!
//! Invariant: what does not come out in exactly one way is refused with the reason. The numbers are
//! checked against a live server before they are used; that is the reader's part.

mod mariadb;
mod mysql;
mod stores;

pub use mariadb::{MariadbRedo, mariadb, wanted};
pub use mysql::{MysqlRedo, mysql};

use crate::elf::Function;
use crate::trace::trace;

/// Where the 8-byte number of its first argument stands that a function reads first.
fn first_read(function: &Function) -> Option<i64> {
    let found = trace(function);
    let read = found.direct(0, 8).find(|a| a.reads && !a.writes)?;
    Some(read.address.offset)
}
