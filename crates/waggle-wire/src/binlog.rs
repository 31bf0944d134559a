//! Reading a server's binary log: events, positions, tables, rows and values.
//!
//! It answers: what changed, in which table, to which values? A walk over an event borrows from
//! the event's bytes; values become text only where somebody appends them to a buffer of their
//! own, and nothing is allocated for a row.
//!
//! ```text
//! Connection::dump ─► stream ─► event ─┬─ gtid         positions
//!                                      ├─ payload, mariadb   events inside of events
//!                                      ├─ table_map    what the rows' columns are
//!                                      └─ rows ─► value ─► text, LOAD DATA field, SQL literal
//!                                                  └─ json, decimal, temporal, number
//! ```
//!
//! Invariants: no bytes of a log make this module panic, loop or allocate past what the event
//! holds; what it cannot read is an error that says so, never a missing row or a changed value.

pub mod event;
pub mod gtid;
pub mod json;
pub mod mariadb;
pub mod payload;
pub mod rows;
pub mod stream;
pub mod table_map;
pub mod value;

mod decimal;
mod number;
mod temporal;

pub use decimal::Form as DecimalForm;
