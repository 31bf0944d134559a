//! A blocking client for MySQL and MariaDB, made for measuring.
//!
//! It answers one question for the crates above: how does a statement get to a server, and how
//! much came back, at the least cost to the machine that both share. A command is one write;
//! answers are parsed in place in one buffer per connection; rows are skipped as packets and
//! built only for the few callers that look at them.
//!
//! ```text
//! Dsn ─► Connection ─┬─ login ─── handshake, auth
//!                    ├─ result ── reply, rows        each field through a Cursor
//!                    └─ Channel (packet) ─── Stream ─── [compress] ─── [tls] ─── Socket
//! ```
//!
//! Invariants: bytes from a server never make this crate panic or allocate without bound;
//! passwords never show in `Debug`, `Display` or errors; TLS that was asked for is never left out;
//! no wait is without a limit, and none goes on once the process was told to end.

#![forbid(unsafe_code)]

mod auth;
pub mod binlog;
pub mod bulk;
mod compress;
mod connection;
mod cursor;
mod dsn;
mod ending;
mod error;
mod execution;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod interrupter;
mod login;
pub mod onlooker;
mod packet;
mod reply;
mod result;
mod row_stream;
mod rows;
mod secret;
mod socket;
mod stream;
mod text_results;
mod tls;
mod value;

pub use bulk::BulkRows;
pub use compress::{Compression, CompressionError};
pub use connection::{Connection, Statement, Summary};
pub use dsn::{Dsn, DsnError, Endpoint, ServerKey, Timeouts};
pub use ending::end_waits;
pub use error::Error;
pub use interrupter::Interrupter;
pub use row_stream::{FieldPart, FieldParts, Fields, Piece, RowStream};
pub use rows::Row;
pub use secret::{PasswordFileError, Secret};
pub use socket::{Begin, Io};
pub use text_results::TextResults;
pub use tls::{Tls, TlsError, TlsMode, TlsModeError};
pub use value::Value;
