//! Which tables are there, with which columns, since which version of the schema?
//!
//! Data only: `schema` creates and migrates, `encode` writes rows. Invariants: a column is never
//! renamed, retyped or removed, only added with a later version; every row names the batch that
//! brought it and its place there, so that a repetition can be told.

use waggle_agent::WaitClass;

use crate::delta::OPTIONAL;

/// The version of the schema that this program writes.
pub(crate) const VERSION: u32 = 4;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any bytes.
    Text,
    /// Any bytes, of which there are few different ones.
    Name,
    U8,
    U32,
    U64,
    F64,
    /// Seconds since 1970.
    Time,
    TextOrNull,
    U64OrNull,
    Texts,
    U64s,
}

impl Kind {
    /// The type in SQL; names get a dictionary where the server has such a type.
    pub(crate) fn sql(self, has_low_cardinality: bool) -> &'static str {
        match self {
            Self::Name if has_low_cardinality => "LowCardinality(String)",
            Self::Text | Self::Name => "String",
            Self::U8 => "UInt8",
            Self::U32 => "UInt32",
            Self::U64 => "UInt64",
            Self::F64 => "Float64",
            Self::Time => "DateTime('UTC')",
            Self::TextOrNull => "Nullable(String)",
            Self::U64OrNull => "Nullable(UInt64)",
            Self::Texts => "Array(String)",
            Self::U64s => "Array(UInt64)",
        }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Version of the schema that brought it.
    pub(crate) since: u32,
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Table {
    Digests,
    Statements,
    Load,
    Servers,
    Samples,
    Waits,
    Deadlocks,
    Metrics,
}

impl Table {
    pub(crate) const ALL: [Self; 8] = [
        Self::Digests,
        Self::Statements,
        Self::Load,
        Self::Servers,
        Self::Samples,
        Self::Waits,
        Self::Deadlocks,
        Self::Metrics,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digests => "waggle_digests",
            Self::Statements => "waggle_statements",
            Self::Load => "waggle_load",
            Self::Servers => "waggle_servers",
            Self::Samples => "waggle_samples",
            Self::Waits => "waggle_waits",
            Self::Deadlocks => "waggle_deadlocks",
            Self::Metrics => "waggle_metrics",
        }
    }

    /// Version of the schema that brought it.
    pub(crate) fn since(self) -> u32 {
        if self == Self::Metrics { 2 } else { 1 }
    }

    /// Rows have a time, the table a partition a day, and old ones go.
    pub(crate) fn has_time(self) -> bool {
        self != Self::Digests
    }

    /// What rows are sorted by, before the batch and the place in it.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Digests => "digest",
            Self::Statements | Self::Samples => "host, instance, digest, time",
            Self::Load => "host, instance, dimension, name, time",
            Self::Servers | Self::Waits | Self::Deadlocks => "host, instance, time",
            Self::Metrics => "host, instance, scope, name, label, time",
        }
    }

    /// The columns after those of the batch, in the order of the rows.
    pub(crate) fn columns(self) -> Vec<Column> {
        let mut columns = Columns(Vec::new());
        if self.has_time() {
            columns
                .all(Kind::Time, "time")
                .all(Kind::U64, "time_us")
                .all(Kind::Name, "host instance")
                .all(Kind::U32, "server")
                .all(Kind::U64, "agent_us");
        }
        match self {
            Self::Digests => {
                let texts = "digest fingerprint summary";
                columns.all(Kind::Text, texts).all(Kind::U64, "seen_us");
            }
            Self::Statements => columns.statements(),
            Self::Load => {
                columns
                    .all(Kind::U64, "period_us")
                    .all(Kind::Name, "dimension name");
                columns.session(Kind::U64);
                columns.all(Kind::U64, "unclassified_ns");
            }
            Self::Servers => columns.servers(),
            Self::Samples => columns.samples(),
            Self::Waits => columns.waits(),
            Self::Deadlocks => {
                columns.party("victim");
                columns
                    .all(Kind::U64s, "cycle_connection_id")
                    .all(Kind::Texts, "cycle_user cycle_database cycle_digest");
            }
            Self::Metrics => {
                columns
                    .all(Kind::Name, "scope name label")
                    .all(Kind::F64, "value");
            }
        }
        let since = self.since();
        for column in &mut columns.0 {
            column.since = column.since.max(since);
        }
        columns.0
    }
}

/// The columns of the batch: its two numbers, and the row's place.
pub(crate) const BATCH: [(&str, Kind); 3] = [
    ("batch_run", Kind::U64),
    ("batch_sequence", Kind::U64),
    ("batch_row", Kind::U32),
];

struct Columns(Vec<Column>);

impl Columns {
    /// Columns of one kind, by their names.
    fn all(&mut self, kind: Kind, names: &str) -> &mut Self {
        for name in names.split(' ') {
            self.push(kind, name.to_owned());
        }
        self
    }

    fn push(&mut self, kind: Kind, name: String) {
        self.0.push(Column {
            name,
            kind,
            since: 1,
        });
    }

    fn session(&mut self, kind: Kind) {
        self.all(kind, "cpu_ns runnable_ns");
        for class in WaitClass::ALL {
            self.push(kind, format!("blocked_{}_ns", class.as_str()));
        }
    }

    fn party(&mut self, role: &str) {
        self.push(Kind::U64OrNull, format!("{role}_connection_id"));
        for name in ["user", "database", "digest"] {
            self.push(Kind::Name, format!("{role}_{name}"));
        }
        self.push(Kind::U8, format!("{role}_is_running"));
        for name in ["transaction_us", "idle_us"] {
            self.push(Kind::U64OrNull, format!("{role}_{name}"));
        }
    }

    fn statements(&mut self) {
        self.all(Kind::U64, "period_us")
            .all(Kind::Name, "flavour source digest database user")
            .all(Kind::U64, "count errors latency_sum_ns latency_max_ns")
            .all(Kind::U64s, "latency_upper_ns latency_count");
        self.session(Kind::U64);
        self.all(Kind::U64, "unclassified_ns");
        for name in OPTIONAL {
            self.push(Kind::U64OrNull, name.to_owned());
        }
    }

    fn servers(&mut self) {
        self.all(Kind::U64, "period_us")
            .all(Kind::Name, "flavour version source")
            .all(Kind::U32, "pid")
            .all(Kind::U64, "captured other_commands deadlocks")
            .all(Kind::Texts, "lost_cause")
            .all(Kind::U64s, "lost_count")
            .all(Kind::Texts, "degraded_cause")
            .all(Kind::U64s, "degraded_count waits_ended waits_ended_us")
            .all(Kind::Text, "ended");
        let begin = self.0.len();
        self.all(Kind::U64, "own");
        self.brought_by(3, begin);
        let begin = self.0.len();
        self.all(Kind::U64, "in_routines");
        self.brought_by(4, begin);
    }

    /// The columns from `begin` on came with this version.
    fn brought_by(&mut self, version: u32, begin: usize) {
        for column in &mut self.0[begin..] {
            column.since = version;
        }
    }

    fn samples(&mut self) {
        self.all(Kind::U64, "sequence")
            .all(Kind::Name, "reason digest")
            .all(Kind::TextOrNull, "text")
            .all(Kind::Name, "user client database")
            .all(Kind::U64OrNull, "connection_id")
            .all(Kind::Name, "origin")
            .all(Kind::U64OrNull, "latency_ns");
        self.session(Kind::U64OrNull);
        for name in OPTIONAL {
            self.push(Kind::U64OrNull, name.to_owned());
        }
        let more = "error network_received_bytes network_sent_bytes in_transaction";
        self.all(Kind::U64OrNull, more);
        let begin = self.0.len();
        self.all(Kind::Texts, "comment_key comment_value")
            .all(Kind::Text, "trace_id span_id");
        self.brought_by(2, begin);
    }

    fn waits(&mut self) {
        self.all(Kind::U64, "wait")
            .all(Kind::Name, "kind")
            .all(Kind::U64, "since_us waited_us")
            .all(Kind::U8, "ended");
        self.party("waiter");
        self.party("blocker");
        let object = "table_name index_name mode_wanted mode_held unknown_because";
        self.all(Kind::Name, object);
    }
}
