//! Where a statement's facts stand in the memory of a server's session object (`THD`).

use std::fmt;

use crate::elf::Binary;
use crate::known;
use crate::recipe;

/// A fact about a finished statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldName {
    /// Statement text: pointer, then length.
    Query,
    /// Default database: pointer, then length.
    Database,
    /// Authenticated user name.
    User,
    /// Connection id, as in the process list.
    ConnectionId,
    /// When the statement began, microseconds on the server's clock.
    StartTime,
    /// Rows sent to the client.
    RowsSent,
    /// Rows read from the storage engines.
    RowsExamined,
    /// The server's error number, 0 for none.
    ErrorNumber,
    /// The protocol command (`COM_QUERY`, ...) being carried out.
    Command,
    /// The server's own lock time, microseconds: see [`StatementLayout::lock_time`].
    LockTime,
    /// Rows changed, as the client was told; 0 for a statement that failed or gave a result set.
    RowsAffected,
    /// Warnings, as the client was told; 0 for a statement that failed.
    Warnings,
    /// The protocol's status flags: [`server_status`].
    ServerStatus,
    /// What kind of thread this is, a number that [`StatementLayout::thread_kind`] reads.
    SystemThread,
    /// Pointer to the running stored routine's context; null outside of one.
    Routine,
    /// The client's host name, or its address where it has none: a string like [`Self::User`].
    ClientHost,
    /// Temporary tables made by the session so far. This and the following five count up over
    /// the session; a lower value than before means that the session's status was reset
    /// (`FLUSH STATUS`, `COM_CHANGE_USER`, or `SHOW STATUS`, which undoes what it counted).
    TmpTables,
    /// Of [`Self::TmpTables`], those on disk.
    TmpDiskTables,
    /// Joins that read their first table from end to end.
    SelectScan,
    /// Joins that read a further table from end to end.
    SelectFullJoin,
    /// Bytes received from the client.
    BytesReceived,
    /// Bytes sent to the client.
    BytesSent,
}

/// Flags of [`FieldName::ServerStatus`], the same on both servers: they are the protocol's.
pub mod server_status {
    /// The connection is in a transaction.
    pub const IN_TRANSACTION: u32 = 1;
    /// No good index was used (`SERVER_QUERY_NO_GOOD_INDEX_USED`).
    pub const NO_GOOD_INDEX_USED: u32 = 16;
    /// No index was used (`SERVER_QUERY_NO_INDEX_USED`).
    pub const NO_INDEX_USED: u32 = 32;
}

impl FieldName {
    /// Every field, in the order they are reported.
    pub const ALL: [Self; 22] = [
        Self::Query,
        Self::Database,
        Self::User,
        Self::ConnectionId,
        Self::StartTime,
        Self::RowsSent,
        Self::RowsExamined,
        Self::ErrorNumber,
        Self::Command,
        Self::LockTime,
        Self::RowsAffected,
        Self::Warnings,
        Self::ServerStatus,
        Self::SystemThread,
        Self::Routine,
        Self::ClientHost,
        Self::TmpTables,
        Self::TmpDiskTables,
        Self::SelectScan,
        Self::SelectFullJoin,
        Self::BytesReceived,
        Self::BytesSent,
    ];

    /// The name used in reports and `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Database => "database",
            Self::User => "user",
            Self::ConnectionId => "connection_id",
            Self::StartTime => "start_time",
            Self::RowsSent => "rows_sent",
            Self::RowsExamined => "rows_examined",
            Self::ErrorNumber => "error_number",
            Self::Command => "command",
            Self::LockTime => "lock_time",
            Self::RowsAffected => "rows_affected",
            Self::Warnings => "warnings",
            Self::ServerStatus => "server_status",
            Self::SystemThread => "system_thread",
            Self::Routine => "routine",
            Self::ClientHost => "client_host",
            Self::TmpTables => "tmp_tables",
            Self::TmpDiskTables => "tmp_disk_tables",
            Self::SelectScan => "select_scan",
            Self::SelectFullJoin => "select_full_join",
            Self::BytesReceived => "bytes_received",
            Self::BytesSent => "bytes_sent",
        }
    }
}

/// A path from `THD` to a value: dereference at each of `derefs`, then the value is at `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Offsets at which a pointer is loaded, outermost first; at most one is used today.
    pub derefs: Vec<u32>,
    /// Offset of the value, bytes.
    pub offset: u32,
    /// Bytes of the value: 4 or 8.
    pub width: u8,
    /// For a string pointer: its length stands right behind it; else the string ends with NUL.
    pub length_follows: bool,
}

impl Location {
    /// A value in `THD` itself.
    pub fn direct(offset: u32, width: u8) -> Self {
        Self {
            derefs: Vec::new(),
            offset,
            width,
            length_follows: false,
        }
    }

    /// A pointer and length in `THD` itself.
    pub fn text(offset: u32) -> Self {
        Self {
            length_follows: true,
            ..Self::direct(offset, 8)
        }
    }

    /// A value behind one pointer in `THD`.
    pub fn behind(pointer: u32, offset: u32, width: u8) -> Self {
        Self {
            derefs: vec![pointer],
            ..Self::direct(offset, width)
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "THD")?;
        for deref in &self.derefs {
            write!(f, "+{deref:#x} ->")?;
        }
        write!(f, "+{:#x}", self.offset)
    }
}

/// How a location was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// From the table of known builds.
    Table,
    /// By decoding these exported functions.
    Decoded(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str("table of known builds"),
            Self::Decoded(from) => write!(f, "decoded from {from}"),
        }
    }
}

/// One field: where it is and how that was found, or why it is not known.
#[derive(Debug, Clone)]
pub struct Field {
    /// Which fact.
    pub name: FieldName,
    /// Its place, or the reason it is not known.
    pub found: Result<(Location, Source), String>,
}

/// The clock that `THD`'s start time is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartClock {
    /// Wall clock (MySQL).
    Realtime,
    /// Monotonic clock (MariaDB).
    Monotonic,
}

/// What [`FieldName::LockTime`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockTime {
    /// Waited so far, microseconds: for table locks and, by the engine's report, for rows
    /// (MySQL).
    Duration(Location),
    /// When the last lock was had, microseconds on the clock of [`FieldName::StartTime`], plus
    /// the engine's waits since; the lock time is its distance from the start, all that came
    /// before the locks (parsing, opening tables) included (MariaDB). A wait for a row hardly
    /// shows: its InnoDB reports milliseconds to a function that adds microseconds.
    Moment(Location),
}

/// Who had the statement carried out, as far as the kind of thread tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadKind {
    /// A client's connection.
    Client,
    /// A thread that receives or applies a replication stream.
    Replication,
    /// The event scheduler or one of its workers.
    Event,
    /// Another thread of the server's own.
    Other,
}

/// All fields of one server build.
#[derive(Debug, Clone)]
pub struct StatementLayout {
    /// One entry per [`FieldName::ALL`], in that order.
    pub fields: Vec<Field>,
    /// The clock of [`FieldName::StartTime`].
    pub start_clock: StartClock,
}

impl StatementLayout {
    /// Finds the fields of `binary`: from the table if its build id is known, else by decoding.
    pub fn find(binary: &Binary) -> Self {
        let start_clock = if binary.function("thd_query_string").is_some() {
            StartClock::Monotonic
        } else {
            StartClock::Realtime
        };
        let table = binary.build_id().and_then(known::lookup);
        let fields = FieldName::ALL
            .into_iter()
            .map(|name| {
                let known = table
                    .as_ref()
                    .and_then(|t| t.iter().find(|(n, _)| *n == name));
                let found = match known {
                    Some((_, location)) => Ok((location.clone(), Source::Table)),
                    None => recipe::decode(binary, name),
                };
                Field { name, found }
            })
            .collect();
        Self {
            fields,
            start_clock,
        }
    }

    /// Finds every field by decoding, whether or not the build is known.
    pub fn decode(binary: &Binary) -> Self {
        let mut layout = Self::find(binary);
        for field in &mut layout.fields {
            field.found = recipe::decode(binary, field.name);
        }
        layout
    }

    /// The place of `name`, if known.
    pub fn location(&self, name: FieldName) -> Option<&Location> {
        self.fields
            .iter()
            .find(|field| field.name == name)
            .and_then(|field| field.found.as_ref().ok())
            .map(|(location, _)| location)
    }

    /// Where the lock time is, and what stands there.
    pub fn lock_time(&self) -> Option<LockTime> {
        let location = self.location(FieldName::LockTime)?.clone();
        Some(match self.start_clock {
            StartClock::Realtime => LockTime::Duration(location),
            StartClock::Monotonic => LockTime::Moment(location),
        })
    }

    /// Reads a value of [`FieldName::SystemThread`].
    pub fn thread_kind(&self, system_thread: u32) -> ThreadKind {
        // (receiver, applier, applier's worker), one bit each; the last is MySQL's alone.
        let replication = match self.start_clock {
            StartClock::Realtime => 1 | 2 | 64,
            StartClock::Monotonic => 2 | 4,
        };
        match system_thread {
            0 => ThreadKind::Client,
            8 | 16 => ThreadKind::Event,
            bits if bits & replication != 0 => ThreadKind::Replication,
            _ => ThreadKind::Other,
        }
    }

    /// The fields that are not known, with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (FieldName, &str)> {
        self.fields
            .iter()
            .filter_map(|f| f.found.as_ref().err().map(|why| (f.name, why.as_str())))
    }
}
