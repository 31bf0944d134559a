//! Reads the latest deadlock of `SHOW ENGINE INNODB STATUS`.
//!
//! For eyes that see no deadlock as it happens (packets, PERFORMANCE_SCHEMA, the slow log, a build
//! whose places are not known). Both families print it in the same form, with small differences.
//!
//! Invariants: any bytes are accepted, time is linear in them, and what is kept is bounded. The
//! statements in it have literals: they leave here as fingerprints only.

use waggle_digest::{Fingerprinter, digest_id};

use crate::sessions::printable;

/// Most text that is looked at, bytes. The server itself stops at 1 MiB.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Most transactions of a deadlock.
const MEMBERS_MAX: usize = 64;
/// Most text of a statement that is kept, bytes.
const STATEMENT_BYTES_MAX: usize = 4096;

/// One transaction of a deadlock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusMember {
    /// Its number in the report, from 1.
    pub number: u64,
    /// Connection id.
    pub connection_id: u64,
    /// Age of the transaction then, s.
    pub active_s: Option<u64>,
    /// Its statement, without literals.
    pub fingerprint: String,
    /// Digest of that, as Percona's tools print it.
    pub digest: String,
    /// `schema.table` of the lock it waited for.
    pub table: String,
    /// Index of that lock.
    pub index: String,
    /// Its mode, as the server prints it.
    pub mode: String,
}

/// The latest deadlock of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusDeadlock {
    /// Date, time and thread, as the server prints them: the same deadlock has the same.
    pub mark: String,
    /// Its transactions, in the report's order.
    pub members: Vec<StatusMember>,
    /// Number of the one that was rolled back.
    pub victim: Option<u64>,
}

/// Which part of a transaction's report is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Statement,
    Held,
    Wanted,
}

/// The latest deadlock in the status text; `None` if there was none.
pub fn latest_deadlock(status: &[u8]) -> Option<StatusDeadlock> {
    let status = &status[..status.len().min(TEXT_BYTES_MAX)];
    let mut lines = status
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    lines.find(|line| *line == b"LATEST DETECTED DEADLOCK")?;
    let mut lines = lines.skip(1);
    let mut deadlock = StatusDeadlock {
        mark: printable(lines.next()?).chars().take(64).collect(),
        ..StatusDeadlock::default()
    };
    let mut part = Part::Head;
    let mut statement = Vec::new();
    let mut before: &[u8] = b"";
    for line in lines {
        // Every section of the status stands between two such rules.
        if is_rule(before) && is_section(line) {
            break;
        }
        before = line;
        if let Some(title) = line.strip_prefix(b"*** ") {
            finish(&mut deadlock, &mut statement);
            part = enter(&mut deadlock, title, part)?;
            continue;
        }
        let Some(member) = deadlock.members.last_mut() else {
            continue;
        };
        match part {
            Part::Head => part = head(member, line),
            Part::Statement if statement.len() < STATEMENT_BYTES_MAX => {
                statement.extend_from_slice(line);
                statement.push(b'\n');
            }
            Part::Wanted => wanted(member, line),
            Part::Held | Part::Statement => {}
        }
    }
    finish(&mut deadlock, &mut statement);
    (!deadlock.members.is_empty()).then_some(deadlock)
}

fn is_rule(line: &[u8]) -> bool {
    line.len() >= 4 && line.iter().all(|byte| *byte == b'-')
}

fn is_section(line: &[u8]) -> bool {
    let upper = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ';
    !line.is_empty() && line.iter().all(upper)
}

/// A line of three stars: a transaction, a part of one, or the verdict. `None` ends the reading.
fn enter(deadlock: &mut StatusDeadlock, title: &[u8], part: Part) -> Option<Part> {
    if let Some(rest) = title.strip_prefix(b"WE ROLL BACK TRANSACTION (") {
        deadlock.victim = leading_number(rest);
        return Some(Part::Held);
    }
    if let Some(rest) = title.strip_prefix(b"(") {
        let number = leading_number(rest)?;
        let at = rest.iter().position(|byte| *byte == b')')?;
        let what = rest[at + 1..].trim_ascii();
        if what.starts_with(b"TRANSACTION") {
            if deadlock.members.len() >= MEMBERS_MAX {
                return None;
            }
            deadlock.members.push(StatusMember {
                number,
                ..StatusMember::default()
            });
            return Some(Part::Head);
        }
        return Some(part_of(what));
    }
    // MariaDB leaves the number out.
    match part_of(title) {
        Part::Head => Some(part),
        found => Some(found),
    }
}

fn part_of(title: &[u8]) -> Part {
    if title.starts_with(b"WAITING FOR") {
        Part::Wanted
    } else if title.starts_with(b"HOLDS") || title.starts_with(b"CONFLICTING WITH") {
        Part::Held
    } else {
        Part::Head
    }
}

/// Lines before the statement; the last of them names the connection.
fn head(member: &mut StatusMember, line: &[u8]) -> Part {
    if let Some(rest) = after(line, b", ACTIVE ") {
        member.active_s = leading_number(rest);
    }
    // "MySQL thread id", "MariaDB thread id".
    let Some(rest) = after(line, b" thread id ") else {
        return Part::Head;
    };
    member.connection_id = leading_number(rest).unwrap_or(0);
    Part::Statement
}

/// `RECORD LOCKS space id .. index PRIMARY of table `s`.`t` trx id .. lock_mode X waiting`
fn wanted(member: &mut StatusMember, line: &[u8]) {
    const NAME_BYTES_MAX: usize = 512;
    let is_lock = line.starts_with(b"RECORD LOCKS") || line.starts_with(b"TABLE LOCK");
    if !is_lock || !member.table.is_empty() {
        return;
    }
    let named = |rest: &[u8], end: &[u8]| {
        let length = find(rest, end).unwrap_or(rest.len()).min(NAME_BYTES_MAX);
        printable(&rest[..length]).replace('`', "")
    };
    if let Some(rest) = after(line, b" index ") {
        member.index = named(rest, b" of table ");
    }
    if let Some(rest) = after(line, b" table ") {
        member.table = named(rest, b" trx id ");
    }
    if let Some(rest) = after(line, b" lock_mode ").or_else(|| after(line, b" lock mode ")) {
        member.mode = named(rest, b" waiting");
    }
}

/// The statement of the last transaction has been read.
fn finish(deadlock: &mut StatusDeadlock, statement: &mut Vec<u8>) {
    let text = statement.trim_ascii();
    if let Some(member) = deadlock.members.last_mut()
        && member.fingerprint.is_empty()
        && !text.is_empty()
    {
        let mut fingerprinter = Fingerprinter::new();
        let fingerprint = fingerprinter.fingerprint(text);
        member.digest = digest_id(fingerprint).to_string();
        member.fingerprint = printable(fingerprint);
    }
    statement.clear();
}

fn leading_number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

/// What stands behind the first `mark`.
fn after<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    find(line, mark).map(|at| &line[at + mark.len()..])
}

fn find(line: &[u8], mark: &[u8]) -> Option<usize> {
    line.windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MYSQL: &str = "
=====================================
------------------------
LATEST DETECTED DEADLOCK
------------------------
2026-11-21 15:16:17 140012345678901
*** (1) TRANSACTION:
TRANSACTION 2069, ACTIVE 12 sec starting index read
mysql tables in use 1, locked 1
LOCK WAIT 4 lock struct(s), heap size 1128, 3 row lock(s), undo log entries 2
MySQL thread id 10, OS thread handle 139, query id 28 localhost root updating
UPDATE t SET b = 'secret'
 WHERE id = 2

*** (1) HOLDS THE LOCK(S):
RECORD LOCKS space id 2 page no 4 n bits 80 index PRIMARY of table `sbtest`.`t` trx id 2069 \
lock_mode X locks rec but not gap

*** (1) WAITING FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 2 page no 4 n bits 80 index by_a of table `sbtest`.`t` trx id 2069 \
lock_mode X locks rec but not gap waiting
Record lock, heap no 3 PHYSICAL RECORD: n_fields 5; compact format; info bits 0

*** (2) TRANSACTION:
TRANSACTION 2070, ACTIVE 7 sec starting index read
MySQL thread id 11, OS thread handle 140, query id 29 localhost root updating
DELETE FROM t WHERE id = 1

*** (2) WAITING FOR THIS LOCK TO BE GRANTED:
TABLE LOCK table `sbtest`.`t` trx id 2070 lock mode IX waiting

*** WE ROLL BACK TRANSACTION (2)
------------
TRANSACTIONS
------------
*** (3) TRANSACTION:
";

    #[test]
    fn a_deadlock_is_read_without_its_literals() {
        let found = latest_deadlock(MYSQL.as_bytes()).expect("a deadlock");
        assert_eq!(found.mark, "2026-11-21 15:16:17 140012345678901");
        assert_eq!(found.victim, Some(2));
        let [one, two] = &found.members[..] else {
            panic!("{found:#?}");
        };
        assert_eq!((one.number, one.connection_id), (1, 10));
        assert_eq!(one.active_s, Some(12));
        assert_eq!(one.fingerprint, "update t set b = ? where id = ?");
        assert_eq!((&*one.table, &*one.index), ("sbtest.t", "by_a"));
        assert_eq!(one.mode, "X locks rec but not gap");
        assert_eq!((two.connection_id, &*two.mode), (11, "IX"));
        assert_eq!(two.fingerprint, "delete from t where id = ?");
    }

    #[test]
    fn none_is_none() {
        assert_eq!(latest_deadlock(b""), None);
        assert_eq!(latest_deadlock(b"\n------------\nTRANSACTIONS\n"), None);
        assert_eq!(latest_deadlock(b"LATEST DETECTED DEADLOCK\n---\n"), None);
    }

    /// Seeded damage: whatever the bytes, the reading ends and keeps its bounds.
    #[test]
    fn damaged_text_is_survived() {
        let mut random = waggle_stats::random::Random::new(4);
        let mut read = 0;
        for _ in 0..500 {
            let mut text = MYSQL.as_bytes().to_vec();
            for _ in 0..1 + random.next_below(20) {
                if text.len() < 2 {
                    break;
                }
                let at = random.next_below(text.len());
                match random.next_below(4) {
                    0 => text[at] = random.next_u64() as u8,
                    1 => text.truncate(at.max(1)),
                    2 => _ = text.remove(at.min(text.len() - 1)),
                    _ => {
                        let piece = text[at..].to_vec();
                        text.extend(piece);
                    }
                }
                text.truncate(1 << 14);
            }
            if let Some(found) = latest_deadlock(&text) {
                read += 1;
                assert!((1..=MEMBERS_MAX).contains(&found.members.len()));
                assert!(found.mark.chars().count() <= 64);
            }
        }
        assert!(read > 50, "{read}");
    }
}
