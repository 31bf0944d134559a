//! One finished statement, as the kernel half wrote it.
//!
//! Neighbours: [`super::plan`] says which numbers are in an event. Invariant: a record is lent, not
//! copied; only what an event leaves out because it has not changed is remembered, by thread.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use waggle_symbols::FieldName;

use super::plan::Places;
use super::skeleton::types;
use crate::ring::Ring;
use crate::wait::WaitClass;

/// Where a statement's wall time went; `cpu + runnable + sum(blocked) + remainder = wall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// On a processor, ns.
    pub cpu_ns: u64,
    /// Ready to run, but not running, ns.
    pub runnable_ns: u64,
    /// Blocked, by class in the order of [`WaitClass::ALL`], ns.
    pub blocked_ns: [u64; WaitClass::COUNT],
    /// Time at the statement's beginning that nothing is known of, ns.
    pub remainder_ns: u64,
}

impl Times {
    /// A thread may have waited between the moment it was counted from and the statement's start:
    /// no more than `known_ns` is the statement's, each class in its proportion.
    fn bound_blocked(&mut self, known_ns: u64) {
        let sum: u128 = self.blocked_ns.iter().map(|ns| u128::from(*ns)).sum();
        if sum <= u128::from(known_ns) {
            return;
        }
        for ns in &mut self.blocked_ns {
            let share = u128::from(*ns) * u128::from(known_ns) / sum;
            *ns = u64::try_from(share).unwrap_or(known_ns);
        }
    }
}

/// Sums of a session so far, to be told apart by statement.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    tmp_tables: u32,
    tmp_disk_tables: u32,
    select_scan: u32,
    select_full_join: u32,
    bytes_received: u64,
    bytes_sent: u64,
}

/// What is remembered of a thread: what its events leave out.
#[derive(Debug, Default)]
struct Session {
    user: Vec<u8>,
    host: Vec<u8>,
    sums: Sums,
}

/// Thread ids are spread well enough by a multiplication.
#[derive(Debug, Default)]
pub(super) struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, tid: u32) {
        self.0 = (self.0 ^ u64::from(tid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Threads remembered before those that have ended are looked for.
const SESSIONS_FIRST: usize = 4096;

/// The reading end of a probe's ring buffer.
#[derive(Debug)]
pub struct Events {
    ring: Ring,
    places: Places,
    sessions: HashMap<u32, Session, BuildHasherDefault<TidHasher>>,
    sessions_max: usize,
}

impl Events {
    pub(super) fn new(ring: Ring, places: Places) -> Self {
        Self {
            ring,
            places,
            sessions: HashMap::default(),
            sessions_max: SESSIONS_FIRST,
        }
    }

    /// Lends every finished event to `each`, at most `limit`; returns how many.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(StatementEvent<'_>)) -> usize {
        let Self {
            ring,
            places,
            sessions,
            ..
        } = self;
        let count = ring.consume(limit, |record| {
            let Some(mut event) = StatementEvent::parse(record, places) else {
                return;
            };
            if !event.has(types::event_flag::EVENT_TIMES) {
                return each(event);
            }
            let session = sessions.entry(event.header.tid).or_default();
            if event.has(types::event_flag::EVENT_NAMES) {
                session.user.clear();
                session.user.extend_from_slice(event.user);
                session.host.clear();
                session.host.extend_from_slice(event.host);
            }
            let sums = event.sums();
            let before = std::mem::replace(&mut session.sums, sums);
            if event.has(types::event_flag::EVENT_CONTINUES) {
                event.before = Some(before);
            }
            event.user = &session.user;
            event.host = &session.host;
            each(event);
        });
        if self.sessions.len() > self.sessions_max {
            self.forget_ended();
        }
        count
    }

    fn forget_ended(&mut self) {
        self.sessions
            .retain(|tid, _| Path::new(&format!("/proc/{tid}")).exists());
        self.sessions_max = (self.sessions.len() * 2).max(SESSIONS_FIRST);
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }
}

/// Bytes of the array of blocked times.
const BLOCKED_BYTES: usize = 8 * WaitClass::COUNT;

/// One finished statement, lent from the ring buffer.
#[derive(Clone, Copy)]
pub struct StatementEvent<'a> {
    header: &'a types::statement_event,
    places: &'a Places,
    blocked: Option<&'a [u8]>,
    user: &'a [u8],
    host: &'a [u8],
    database: &'a [u8],
    text: &'a [u8],
    /// The session's sums at its last statement, if that is the one before.
    before: Option<Sums>,
}

impl<'a> StatementEvent<'a> {
    fn parse(record: &'a [u8], places: &'a Places) -> Option<Self> {
        let (header, rest) = record.split_at_checked(size_of::<types::statement_event>())?;
        let header = header.as_ptr().cast::<types::statement_event>();
        if !header.is_aligned() {
            return None;
        }
        // SAFETY: long enough (split above), aligned (checked), all bit patterns are valid.
        let header = unsafe { &*header };
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

    fn has(&self, flag: types::event_flag) -> bool {
        u32::from(self.header.flags) & flag.0 != 0
    }

    fn sums(&self) -> Sums {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_no_longer_than_what_is_known() {
        let mut times = Times::default();
        times.blocked_ns[0] = u64::MAX;
        times.blocked_ns[1] = u64::MAX / 3;
        times.bound_blocked(1000);
        assert_eq!(times.blocked_ns[..2], [750, 250]);
        let before = times;
        times.bound_blocked(1000);
        assert_eq!(times, before);
    }
}
