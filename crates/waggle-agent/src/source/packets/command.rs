//! A command that a client sent, until its answer has come.

use std::sync::Arc;

/// The first byte of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(pub(super) u8);

impl Code {
    pub(super) const QUIT: Code = Code(1);
    pub(super) const INIT_DB: Code = Code(2);
    pub(super) const QUERY: Code = Code(3);
    pub(super) const FIELD_LIST: Code = Code(4);
    pub(super) const STATISTICS: Code = Code(9);
    pub(super) const PING: Code = Code(14);
    pub(super) const CHANGE_USER: Code = Code(17);
    pub(super) const BINLOG_DUMP: Code = Code(18);
    pub(super) const TABLE_DUMP: Code = Code(19);
    pub(super) const PREPARE: Code = Code(22);
    pub(super) const EXECUTE: Code = Code(23);
    pub(super) const SEND_LONG_DATA: Code = Code(24);
    pub(super) const CLOSE: Code = Code(25);
    pub(super) const RESET: Code = Code(26);
    pub(super) const FETCH: Code = Code(28);
    pub(super) const BINLOG_DUMP_GTID: Code = Code(30);
    pub(super) const RESET_CONNECTION: Code = Code(31);
    pub(super) const CLONE: Code = Code(32);
    pub(super) const BULK_EXECUTE: Code = Code(250);

    /// Servers count it as a statement (`Questions`).
    pub(super) fn is_statement(self) -> bool {
        !matches!(
            self,
            Code::QUIT
                | Code::STATISTICS
                | Code::PING
                | Code::PREPARE
                | Code::SEND_LONG_DATA
                | Code::CLOSE
                | Code::RESET
        )
    }
}

/// Its text.
#[derive(Default)]
pub(super) enum Sql {
    /// It has none.
    #[default]
    None,
    /// It brought its own.
    Own { text: Vec<u8>, truncated: bool },
    /// It executes a prepared statement.
    Prepared(Arc<[u8]>),
    /// It executes the statement prepared last.
    LastPrepared,
    /// It was not seen.
    Unknown,
}

/// It has no `Debug`: it holds what users send.
pub(super) struct Command {
    pub(super) code: Code,
    pub(super) sql: Sql,
    /// When its last byte was seen.
    pub(super) begin_ns: u64,
    /// Its size with headers.
    pub(super) bytes: u64,
    /// Number of the first packet of its answer.
    pub(super) due: u8,
    pub(super) is_clock_doubtful: bool,
}
