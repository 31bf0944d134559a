//! Kinds of events, as the servers number them. A kind that is not here may be passed over only
//! when its header says that it is [ignorable](super::Header::is_ignorable).

/// A statement, or the beginning or end of a transaction.
pub const QUERY: u8 = 2;
/// The log ended: its server stopped.
pub const STOP: u8 = 3;
/// The log goes on in another file.
pub const ROTATE: u8 = 4;
/// A transaction of a transactional engine is committed.
pub const XID: u8 = 16;
/// How the events of this log are written.
pub const FORMAT_DESCRIPTION: u8 = 15;
/// The columns of the table that rows follow for.
pub const TABLE_MAP: u8 = 19;
/// Rows, in their first form.
pub const WRITE_ROWS_V1: u8 = 23;
/// See [`WRITE_ROWS_V1`].
pub const UPDATE_ROWS_V1: u8 = 24;
/// See [`WRITE_ROWS_V1`].
pub const DELETE_ROWS_V1: u8 = 25;
/// Something happened that the log does not hold.
pub const INCIDENT: u8 = 26;
/// The server is alive and has nothing to say.
pub const HEARTBEAT: u8 = 27;
/// The text of the statement that rows came from.
pub const ROWS_QUERY: u8 = 29;
/// Rows, with room for extra data.
pub const WRITE_ROWS: u8 = 30;
/// See [`WRITE_ROWS`].
pub const UPDATE_ROWS: u8 = 31;
/// See [`WRITE_ROWS`].
pub const DELETE_ROWS: u8 = 32;
/// The transaction that follows, in MySQL.
pub const GTID: u8 = 33;
/// A transaction without an identifier follows.
pub const ANONYMOUS_GTID: u8 = 34;
/// The transactions of all logs before this one.
pub const PREVIOUS_GTIDS: u8 = 35;
/// A distributed transaction is prepared.
pub const XA_PREPARE: u8 = 38;
/// Updates whose JSON values may be differences.
pub const PARTIAL_UPDATE_ROWS: u8 = 39;
/// A whole transaction, compressed.
pub const TRANSACTION_PAYLOAD: u8 = 40;
/// A heartbeat with a position of 64 bits.
pub const HEARTBEAT_V2: u8 = 41;
/// The transaction that follows, in MySQL, with a tag in its identifier.
pub const GTID_TAGGED: u8 = 42;
/// MariaDB: the text of the statement that rows came from.
pub const ANNOTATE_ROWS: u8 = 160;
/// MariaDB: a position that every reader has passed.
pub const BINLOG_CHECKPOINT: u8 = 161;
/// MariaDB: the transaction that follows.
pub const MARIADB_GTID: u8 = 162;
/// MariaDB: the last transaction of each domain and server before this log.
pub const MARIADB_GTID_LIST: u8 = 163;
/// MariaDB: the rest of the log is encrypted (files only; streams are not).
pub const START_ENCRYPTION: u8 = 164;
/// MariaDB: a compressed [`QUERY`].
pub const QUERY_COMPRESSED: u8 = 165;
/// MariaDB: compressed rows.
pub const WRITE_ROWS_COMPRESSED_V1: u8 = 166;
/// See [`WRITE_ROWS_COMPRESSED_V1`].
pub const UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
/// See [`WRITE_ROWS_COMPRESSED_V1`].
pub const DELETE_ROWS_COMPRESSED_V1: u8 = 168;
/// MariaDB's newest versions: a part of rows that are too many for one event. Not read here:
/// whoever meets one must stop.
pub const PARTIAL_ROW_DATA: u8 = 172;
