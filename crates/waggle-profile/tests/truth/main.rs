//! Is a profile right? Held against programs that know where their time went, and against the
//! agent's own account of a real server's statements.

mod server;
mod shares;
