//! How another thread ends a session's wait for the server.
//!
//! Whoever ends a run asks for it while the session's own thread sits in poll(2). Invariant: it
//! never keeps a socket open, and never touches a descriptor that the session has given back.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::net::{Shutdown, shutdown};

/// Breaks the waits of one [`Connection`](crate::Connection) from any thread.
#[derive(Debug, Clone)]
pub struct Interrupter(Weak<OwnedFd>);

impl Interrupter {
    pub(crate) fn of(socket: &Arc<OwnedFd>) -> Interrupter {
        Interrupter(Arc::downgrade(socket))
    }

    /// Shuts the connection down: a wait in progress and every later command fail with
    /// [`Error::Io`](crate::Error::Io). Does nothing once the connection is gone.
    ///
    /// The server notices when it next reads or writes; a statement in progress may go on there
    /// until then.
    pub fn interrupt(&self) {
        if let Some(socket) = self.0.upgrade() {
            // Fails when the server has closed first, which is as good.
            let _ = shutdown(&*socket, Shutdown::Both);
        }
    }
}
