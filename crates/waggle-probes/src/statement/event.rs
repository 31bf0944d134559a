//! One finished statement, as the kernel half wrote it.
//!
//! Neighbours: [`super::plan`] says which numbers are in an event, [`super::reader`] adds what it
//! leaves out. Invariant: a record is lent, not copied; what could not be read is not told.

use waggle_symbols::FieldName;

use super::Times;
use super::plan::Places;
use super::skeleton::types;
use crate::plain::{Plain, value_in};
use crate::wait::WaitClass;

/// Sums of a session so far, to be told apart by statement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    tmp_tables: u32,
    tmp_disk_tables: u32,
    select_scan: u32,
    select_full_join: u32,
    bytes_received: u64,
    bytes_sent: u64,
}

/// Bytes of the array of blocked times.
const BLOCKED_BYTES: usize = 8 * WaitClass::COUNT;

/// One finished statement, lent from the ring buffer.
#[derive(Clone, Copy)]
pub struct StatementEvent<'a> {
    header: &'a types::statement_event,
    places: &'a Places,
    blocked: Option<&'a [u8]>,
    pub(super) user: &'a [u8],
    pub(super) host: &'a [u8],
    database: &'a [u8],
    text: &'a [u8],
    /// The session's sums at its last statement, if that is the one before.
    pub(super) before: Option<Sums>,
}

// SAFETY: integers without padding.
unsafe impl Plain for types::statement_event {}

impl<'a> StatementEvent<'a> {
    pub(super) fn parse(record: &'a [u8], places: &'a Places) -> Option<Self> {
        let header: &types::statement_event = value_in(record)?;
        let rest = &record[size_of::<types::statement_event>()..];
        let (blocked, rest) = if header.blocked == 0 {
            (None, rest)
        } else {
            let (blocked, rest) = rest.split_at_checked(BLOCKED_BYTES)?;
            (Some(blocked), rest)
        };
        let (user, rest) = rest.split_at_checked(header.user_length.into())?;
        let (host, rest) = rest.split_at_checked(header.host_length.into())?;
        let (database, rest) = rest.split_at_checked(header.database_length.into())?;
        let text = rest.get(..usize::from(header.text_copied))?;
        Some(Self {
            header,
            places,
            blocked,
            user,
            host,
            database,
            text,
            before: None,
        })
    }

    pub(super) fn has(&self, flag: types::event_flag) -> bool {
        u32::from(self.header.flags) & flag.0 != 0
    }

    pub(super) fn sums(&self) -> Sums {
        Sums {
            tmp_tables: self.header.tmp_tables,
            tmp_disk_tables: self.header.tmp_disk_tables,
            select_scan: self.header.select_scan,
            select_full_join: self.header.select_full_join,
            bytes_received: self.header.bytes_received,
            bytes_sent: self.header.bytes_sent,
        }
    }

    /// When it ended, ns of the monotonic clock.
    pub fn time_ns(&self) -> u64 {
        self.header.time_ns
    }

    /// When it began, us on the server's clock; `None` if unknown or unreadable.
    pub fn start_us(&self) -> Option<u64> {
        (self.header.start_us != 0).then_some(self.header.start_us)
    }

    /// When it began, ns of the monotonic clock, if its start time is that of the statement around
    /// it: those within a routine have no other. What it did in routines itself is left
    /// out then.
    pub fn part_since_ns(&self) -> Option<u64> {
        self.has(types::event_flag::EVENT_PART)
            .then_some(self.header.since_ns)
    }

    /// Address of the session object in the server.
    pub fn thd(&self) -> u64 {
        self.header.thd
    }

    /// The thread that carried it out.
    pub fn tid(&self) -> u32 {
        self.header.tid
    }

    /// Connection id; 0 if unknown.
    pub fn connection_id(&self) -> u64 {
        self.header.connection_id
    }

    /// Rows sent to the client.
    pub fn rows_sent(&self) -> u64 {
        self.header.rows_sent
    }

    /// Rows examined.
    pub fn rows_examined(&self) -> u64 {
        self.header.rows_examined
    }

    /// The server's error number, 0 for none.
    pub fn error_number(&self) -> u32 {
        self.header.error_number
    }

    /// The protocol command (3: query, 23: execute, ...); 0 if unknown.
    pub fn command(&self) -> u32 {
        self.header.command
    }

    /// Rows changed; `None` if unknown.
    pub fn rows_affected(&self) -> Option<u64> {
        self.known(FieldName::RowsAffected, self.header.rows_affected)
    }

    /// Warnings raised; `None` if unknown.
    pub fn warnings(&self) -> Option<u32> {
        self.known(FieldName::Warnings, self.header.warnings)
    }

    /// The number that [`waggle_symbols::layout::LockTime`] tells how to read; `None` if unknown.
    pub fn lock_time(&self) -> Option<u64> {
        self.known(FieldName::LockTime, self.header.lock_time)
    }

    /// The protocol's status flags ([`waggle_symbols::layout::server_status`]); `None` if unknown.
    pub fn server_status(&self) -> Option<u32> {
        self.known(FieldName::ServerStatus, self.header.server_status)
    }

    /// What kind of thread, for `StatementLayout::thread_kind`; `None` if unknown.
    pub fn system_thread(&self) -> Option<u32> {
        self.known(FieldName::SystemThread, self.header.system_thread)
    }

    /// True within a stored routine; `None` if unknown.
    pub fn is_in_routine(&self) -> Option<bool> {
        self.known(FieldName::Routine, self.header.routine != 0)
    }

    /// Temporary tables made, and of these on disk; `None` if unknown, also for the first
    /// statement seen of a session.
    pub fn tmp_tables(&self) -> Option<(u32, u32)> {
        let before = self.before?;
        let all = grown(before.tmp_tables, self.header.tmp_tables)?;
        let disk = grown(before.tmp_disk_tables, self.header.tmp_disk_tables)?;
        self.known(FieldName::TmpTables, ())?;
        self.known(FieldName::TmpDiskTables, (all, disk))
    }

    /// Tables read from end to end, and joins without a key; `None` as for
    /// [`tmp_tables`](Self::tmp_tables).
    pub fn full_scans(&self) -> Option<(u32, u32)> {
        let before = self.before?;
        let scans = grown(before.select_scan, self.header.select_scan)?;
        let joins = grown(before.select_full_join, self.header.select_full_join)?;
        self.known(FieldName::SelectScan, ())?;
        self.known(FieldName::SelectFullJoin, (scans, joins))
    }

    /// Bytes received from the client and sent to it since the statement before; `None` as for
    /// [`tmp_tables`](Self::tmp_tables).
    pub fn network_bytes(&self) -> Option<(u64, u64)> {
        let before = self.before?;
        let received = self
            .header
            .bytes_received
            .checked_sub(before.bytes_received)?;
        let sent = self.header.bytes_sent.checked_sub(before.bytes_sent)?;
        self.known(FieldName::BytesReceived, ())?;
        self.known(FieldName::BytesSent, (received, sent))
    }

    fn known<T>(&self, field: FieldName, value: T) -> Option<T> {
        let bit = self.places.bit(field)?;
        (self.header.unread & (1 << bit) == 0).then_some(value)
    }

    /// True if the thread was known when it ended.
    pub fn has_times(&self) -> bool {
        self.has(types::event_flag::EVENT_TIMES)
    }

    /// Where its `wall_ns` (from the server's start time to [`time_ns`](Self::time_ns)) went;
    /// `None` if the probe has no breakdown, or did not know the thread.
    ///
    /// The server keeps its start time in whole microseconds, so a statement that never left the
    /// processor may seem up to 1 us longer than it was.
    pub fn times(&self, wall_ns: u64) -> Option<Times> {
        if !self.has_times() {
            return None;
        }
        let mut times = Times {
            runnable_ns: self.header.runnable_ns,
            ..Times::default()
        };
        for (index, bytes) in self.blocked.unwrap_or_default().chunks_exact(8).enumerate() {
            if self.header.blocked & (1 << index) != 0 {
                let ns = u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8]));
                times.blocked_ns[index] = ns;
            }
        }
        // What came before the kernel half last began to count is not known.
        let seen_ns = self.header.time_ns.saturating_sub(self.header.since_ns);
        times.remainder_ns = wall_ns.saturating_sub(seen_ns);
        let known_ns = wall_ns - times.remainder_ns;
        times.bound_blocked(known_ns);
        let blocked_ns: u64 = times.blocked_ns.iter().sum();
        // A thread's first statement may have been preceded by time runnable that the kernel half
        // could not tell from the statement's own.
        let most_ns = known_ns.saturating_sub(blocked_ns);
        times.runnable_ns = times.runnable_ns.min(most_ns);
        times.cpu_ns = most_ns - times.runnable_ns;
        Some(times)
    }

    /// Context switches that the thread asked for, and those that were forced on it.
    pub fn switches(&self) -> Option<(u32, u32)> {
        self.has_times()
            .then_some((self.header.voluntary, self.header.forced))
    }

    /// Bytes read from storage, and written to it, on behalf of the thread.
    pub fn storage_bytes(&self) -> Option<(u64, u64)> {
        self.has_times()
            .then_some((self.header.read_bytes, self.header.written_bytes))
    }

    /// Page faults that had to read.
    pub fn major_faults(&self) -> Option<u32> {
        self.has_times().then_some(self.header.faults)
    }

    /// The statement's text as far as it was copied.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// True if only the beginning of the text was copied.
    pub fn is_truncated(&self) -> bool {
        self.header.text_length as usize > self.text.len()
    }

    /// User name.
    pub fn user(&self) -> &'a [u8] {
        self.user
    }

    /// The client's host name or address; empty if not known.
    pub fn host(&self) -> &'a [u8] {
        self.host
    }

    /// Default database.
    pub fn database(&self) -> &'a [u8] {
        self.database
    }

    /// True if `field` could not be read (its page was not in memory, or the pointer was stale).
    pub fn is_unread(&self, field: FieldName) -> bool {
        let bit = self.places.bit(field);
        bit.is_some_and(|bit| self.header.unread & (1 << bit) != 0)
    }

    /// True if some field could not be read.
    pub fn has_unread(&self) -> bool {
        self.header.unread != 0
    }
}

/// The growth of a sum of which the low half is kept. One that was reset meanwhile (`FLUSH
/// STATUS`) seems to have grown by half its range.
fn grown(before: u32, now: u32) -> Option<u32> {
    let grown = now.wrapping_sub(before);
    (grown < 1 << 31).then_some(grown)
}
