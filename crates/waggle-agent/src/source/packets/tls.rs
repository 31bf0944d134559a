//! How many statements does TLS hide?
//!
//! All that shows is who speaks: each time the server answers the client is one exchange, and that
//! is one command of a client that waits for its answers. Invariant: an estimate; it says nothing
//! of what a statement was.

/// Exchanges of a login: the keys, and the login itself.
const LOGIN_TURNS: u32 = 2;
/// The least answer in TLS: an end of the connection is shorter.
const ANSWER_BYTES_MIN: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    login_left: u32,
    is_asked: bool,
}

impl Turns {
    /// From the request for TLS on.
    pub(super) fn from_start() -> Turns {
        Turns {
            login_left: LOGIN_TURNS,
            is_asked: false,
        }
    }

    /// Of a connection that was open before.
    pub(super) fn amid() -> Turns {
        Turns {
            login_left: 0,
            is_asked: false,
        }
    }

    pub(super) fn client_spoke(&mut self) {
        self.is_asked = true;
    }

    /// Gives how many statements that shows to have ended.
    pub(super) fn server_spoke(&mut self, bytes: usize) -> u64 {
        if !self.is_asked || bytes < ANSWER_BYTES_MIN {
            return 0;
        }
        self.is_asked = false;
        if self.login_left > 0 {
            self.login_left -= 1;
            return 0;
        }
        1
    }
}
