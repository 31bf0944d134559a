//! What one entry of a slow log says.
//!
//! The words are those of MySQL 5.7 to 9.7 (with `log_slow_extra`), MariaDB (with its
//! verbosities) and Percona Server. Neighbours: `parser` says which line is which. Invariants: any
//! bytes are accepted; a word that is missing or odd leaves its field empty; the text is cut at
//! [`TEXT_BYTES_MAX`].

use std::str;

/// Longest text that is kept of a statement.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest name that is kept.
const NAME_BYTES_MAX: usize = 512;

/// What administrator commands are called in a log, and their number in the protocol.
const COMMANDS: [(&str, u32); 16] = [
    ("Quit", 1),
    ("Init DB", 2),
    ("Field List", 4),
    ("Refresh", 7),
    ("Shutdown", 8),
    ("Statistics", 9),
    ("Processlist", 10),
    ("Ping", 14),
    ("Change user", 17),
    ("Binlog Dump", 18),
    ("Prepare", 22),
    ("Long Data", 24),
    ("Close stmt", 25),
    ("Reset stmt", 26),
    ("Fetch", 28),
    ("Reset Connection", 31),
];

/// An entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) user: Vec<u8>,
    pub(super) host: Vec<u8>,
    pub(super) database: Vec<u8>,
    pub(super) connection_id: Option<u64>,
    pub(super) query_ns: Option<u64>,
    pub(super) lock_ns: Option<u64>,
    pub(super) rows_sent: Option<u64>,
    pub(super) rows_examined: Option<u64>,
    pub(super) rows_affected: Option<u64>,
    pub(super) error: Option<u32>,
    pub(super) bytes_received: Option<u64>,
    pub(super) bytes_sent: Option<u64>,
    pub(super) tmp_tables: Option<u32>,
    pub(super) tmp_disk_tables: Option<u32>,
    pub(super) full_scan: Option<u32>,
    pub(super) full_join: Option<u32>,
    pub(super) is_truncated: bool,
    /// When it was written, ns since 1970.
    written_ns: Option<u64>,
    /// When the statement began, ns since 1970, as `SET timestamp` says.
    began_ns: Option<u64>,
    has_account: bool,
    text: Vec<u8>,
    /// The last line so far ended with `;`.
    is_whole: bool,
}

impl Entry {
    /// Begins the next entry. The database stays: MySQL names it when it changes.
    pub(super) fn begin(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let database = std::mem::take(&mut self.database);
        *self = Self {
            text,
            database,
            ..Self::default()
        };
    }

    pub(super) fn forget_database(&mut self) {
        self.database.clear();
    }

    /// The statement's text, or the words for an administrator command.
    pub(super) fn text(&self) -> &[u8] {
        let text = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        let text = match self.is_truncated {
            true => text,
            false => text.strip_suffix(b";").unwrap_or(text),
        };
        match self.command() {
            // As others who read these files call it.
            Some(_) => text.strip_prefix(b"# ").unwrap_or(text),
            None => text,
        }
    }

    /// The protocol's number of an administrator command.
    pub(super) fn command(&self) -> Option<u32> {
        let name = self.text.strip_prefix(b"# administrator command: ")?;
        let name = name.split(|&byte| byte == b';').next()?;
        let found = COMMANDS.iter().find(|(known, _)| known.as_bytes() == name);
        Some(found.map_or(u32::MAX, |(_, number)| *number))
    }

    /// When the statement ended, ns since 1970.
    pub(super) fn end_ns(&self) -> Option<u64> {
        let computed = || self.began_ns?.checked_add(self.query_ns?);
        self.written_ns.or_else(computed)
    }

    pub(super) fn has_timestamp(&self) -> bool {
        self.began_ns.is_some()
    }

    /// A line that begins an entry (`# Time`, `# User@Host`) comes too late to belong to this one.
    pub(super) fn is_behind(&self, line: &[u8]) -> bool {
        self.has_account || self.has_timestamp() || line.starts_with(b"# Time: ")
    }

    /// The text ends where a text can end.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Adds a line, or a piece of one, to the text.
    pub(super) fn push_text(&mut self, line: &[u8]) {
        self.is_whole = line.ends_with(b";\n");
        let room = TEXT_BYTES_MAX - self.text.len();
        // The `;` and the end of the line are the log's, not the statement's.
        let needed = line.len() - if self.is_whole { 2 } else { 0 };
        if needed > room || self.is_truncated {
            self.is_truncated = true;
        }
        self.text.extend_from_slice(&line[..line.len().min(room)]);
    }

    /// Takes a line before the statement that is no comment; false if it is the statement.
    pub(super) fn take_circumstance(&mut self, line: &[u8]) -> bool {
        // What follows the time is the statement, also if it is a USE or a SET itself.
        if self.has_timestamp() {
            return false;
        }
        let Some(line) = line.strip_suffix(b";\n") else {
            return false;
        };
        if let Some(name) = line.strip_prefix(b"use ") {
            self.database = cut(name);
            return true;
        }
        let Some(assigned) = line
            .strip_prefix(b"SET ")
            .and_then(|l| str::from_utf8(l).ok())
        else {
            return false;
        };
        let mut began_ns = None;
        for pair in assigned.split(',') {
            match pair.split_once('=') {
                Some(("timestamp", value)) => began_ns = seconds_ns(value),
                Some(("last_insert_id" | "insert_id", _)) => {}
                _ => return false,
            }
        }
        self.began_ns = began_ns;
        began_ns.is_some()
    }

    /// Takes a line that begins with `#`.
    pub(super) fn take_header(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(time) = line.strip_prefix(b"# Time: ") {
            self.written_ns = str::from_utf8(time).ok().and_then(time_ns);
        } else if let Some(account) = line.strip_prefix(b"# User@Host: ") {
            self.take_account(account);
        } else {
            self.take_fields(line);
        }
    }

    /// `user[user] @ host [address]`, on MySQL with the connection's id.
    fn take_account(&mut self, line: &[u8]) {
        self.has_account = true;
        let text = String::from_utf8_lossy(line);
        let (account, id) = match text.rsplit_once(" Id: ") {
            Some((account, id)) => (account, id.trim().parse().ok()),
            None => (&*text, None),
        };
        self.connection_id = id.or(self.connection_id);
        let Some((user, place)) = account.rsplit_once(" @ ") else {
            return;
        };
        let user = user.rsplit_once('[').map_or(user, |(user, _)| user);
        let (host, address) = place.split_once('[').unwrap_or((place, ""));
        let address = address.split(']').next().unwrap_or_default();
        let host = match host.trim() {
            "" => address,
            host => host,
        };
        self.user = cut(user.trim().as_bytes());
        self.host = cut(host.as_bytes());
    }

    /// `# Word: value  Word: value ...`
    fn take_fields(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some((_, rest)) = text.split_once(" Schema: ") {
            let ends = ["  QC_hit:", "  QC_Hit:", "  Last_errno:"];
            let end = ends.iter().filter_map(|end| rest.find(end)).min();
            let name = rest[..end.unwrap_or(rest.len())].trim();
            self.database = cut(name.as_bytes());
        }
        let mut words = text.split_ascii_whitespace().skip(1).peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_suffix(':') else {
                continue;
            };
            let value = words
                .next_if(|next| !next.ends_with(':'))
                .unwrap_or_default();
            self.take_field(name, value);
        }
    }

    fn take_field(&mut self, name: &str, value: &str) {
        let number = || value.parse::<u64>().ok();
        let small = || value.parse::<u32>().ok();
        let flag = || match value {
            "Yes" => Some(1),
            "No" => Some(0),
            _ => None,
        };
        match name {
            "Thread_id" | "Id" => self.connection_id = number(),
            "Query_time" => self.query_ns = seconds_ns(value),
            "Lock_time" => self.lock_ns = seconds_ns(value),
            "Rows_sent" => self.rows_sent = number(),
            "Rows_examined" => self.rows_examined = number(),
            "Rows_affected" => self.rows_affected = number(),
            "Errno" | "Last_errno" => self.error = small(),
            "Bytes_received" => self.bytes_received = number(),
            "Bytes_sent" => self.bytes_sent = number(),
            "Tmp_tables" | "Created_tmp_tables" => self.tmp_tables = small(),
            "Tmp_disk_tables" | "Created_tmp_disk_tables" => self.tmp_disk_tables = small(),
            "Full_scan" => self.full_scan = flag(),
            "Full_join" => self.full_join = flag(),
            _ => {}
        }
    }
}

fn cut(name: &[u8]) -> Vec<u8> {
    name[..name.len().min(NAME_BYTES_MAX)].to_vec()
}

/// Seconds with a fraction, as ns.
fn seconds_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let fraction_ns = match fraction {
        "" => 0,
        digits => digits.parse::<u64>().ok()? * scale,
    };
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction_ns)
}

/// `2026-11-21T15:14:37.123456Z`, or with an offset (`+01:00`), as ns since 1970. Nothing for the
/// older form, which is in the server's time zone and says no fraction.
fn time_ns(text: &str) -> Option<u64> {
    let (date, clock) = text.trim().split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let at = clock.find(['Z', '+', '-'])?;
    let (clock, zone) = clock.split_at(at);
    let offset_s = match zone.strip_prefix(['+', '-']) {
        None => 0,
        Some(offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            if zone.starts_with('-') {
                -seconds
            } else {
                seconds
            }
        }
    };
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (
        parts.next()?.parse::<i64>().ok()?,
        parts.next()?.parse::<i64>().ok()?,
    );
    let second_ns = seconds_ns(parts.next()?)?;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    let is_clock = (0..24).contains(&hour) && (0..60).contains(&minute);
    let is_odd = !(1..=31).contains(&day) || offset_s.abs() > 86_400 || second_ns > 61_000_000_000;
    if !is_date || !is_clock || is_odd {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 - offset_s;
    u64::try_from(seconds)
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(second_ns)
}

/// Days of the proleptic Gregorian calendar; a year begins with March here, so that the odd day is
/// its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time_ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            time_ns("2024-02-29T12:00:00.5Z"),
            Some(1_709_208_000_500_000_000)
        );
        assert_eq!(
            time_ns("2026-11-21T16:14:37+01:00"),
            time_ns("2026-11-21T15:14:37Z")
        );
        assert_eq!(
            time_ns("2026-11-21T14:14:37-01:00"),
            time_ns("2026-11-21T15:14:37Z")
        );
        for bad in [
            "261121 15:14:37",
            "",
            "T",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00",
            "9999999999999-1-1T0:0:0Z",
            "2026-11-21T15:14:37+99:99:99",
            "2026-1-1T1:1:é",
        ] {
            assert_eq!(time_ns(bad), None, "{bad}");
        }
        assert_eq!(seconds_ns("0.000123"), Some(123_000));
        assert_eq!(seconds_ns("12"), Some(12_000_000_000));
        assert_eq!(seconds_ns("1.1234567891"), Some(1_123_456_789));
        for bad in ["", ".", "-1", "1e5", "99999999999999999999", "1.é"] {
            assert_eq!(seconds_ns(bad), None, "{bad}");
        }
    }

    #[test]
    fn accounts() {
        let account = |line: &str| {
            let mut entry = Entry::default();
            entry.take_header(format!("# User@Host: {line}\n").as_bytes());
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(entry.user), text(entry.host), entry.connection_id)
        };
        let of = |user: &str, host: &str, id| (user.to_owned(), host.to_owned(), id);
        assert_eq!(
            account("root[root] @ localhost []  Id:     8"),
            of("root", "localhost", Some(8))
        );
        assert_eq!(
            account("app[app] @  [10.0.0.7]  Id: 12"),
            of("app", "10.0.0.7", Some(12))
        );
        assert_eq!(
            account("a @ b[x] @ db1 [10.0.0.7]"),
            of("a @ b", "db1", None)
        );
        assert_eq!(account("[SQL_SLAVE] @  []"), of("", "", None));
        assert_eq!(account("nonsense"), of("", "", None));
    }
}
