//! In which modes are metadata locks held, and which of them keep which out?
//!
//! One table for both families of servers and both ways of naming a mode: by number, as the probe
//! reads it, and by name, as the server's table of locks shows it. Neighbours:
//! [`search`](super::search) names what the probe saw, [`metadata`](super::metadata) asks what
//! stands in a waiter's way.
//!
//! Invariant: a mode that is not known excludes nothing and has no name.

/// A mode, and what of it may be held beside it.
struct Mode {
    name: &'static str,
    /// Its place in MariaDB's `enum_mdl_type`; MySQL's is the place in [`MODES`].
    mariadb: Option<u32>,
    /// Bits of the modes in [`MODES`] that keep it from being granted.
    excluded_by: u16,
}

const INTENTION_EXCLUSIVE: u16 = 1 << 0;
const SHARED: u16 = 1 << 1;
const SHARED_HIGH_PRIO: u16 = 1 << 2;
const SHARED_READ: u16 = 1 << 3;
const SHARED_WRITE: u16 = 1 << 4;
const SHARED_WRITE_LOW_PRIO: u16 = 1 << 5;
const SHARED_UPGRADABLE: u16 = 1 << 6;
const SHARED_READ_ONLY: u16 = 1 << 7;
const SHARED_NO_WRITE: u16 = 1 << 8;
const SHARED_NO_READ_WRITE: u16 = 1 << 9;
const EXCLUSIVE: u16 = 1 << 10;

/// Every mode.
const ALL: u16 = INTENTION_EXCLUSIVE
    | SHARED
    | SHARED_HIGH_PRIO
    | SHARED_READ
    | WRITES
    | SHARED_UPGRADABLE
    | SHARED_READ_ONLY
    | NO_WRITES;
/// Modes that write rows.
const WRITES: u16 = SHARED_WRITE | SHARED_WRITE_LOW_PRIO;
/// Modes that let nobody else write.
const NO_WRITES: u16 = SHARED_NO_WRITE | SHARED_NO_READ_WRITE | EXCLUSIVE;

const fn mode(name: &'static str, mariadb: Option<u32>, excluded_by: u16) -> Mode {
    Mode {
        name,
        mariadb,
        excluded_by,
    }
}

/// In the order of MySQL's `enum_mdl_type`. What excludes what is by the servers' tables of
/// compatibility of granted locks, for objects and for scopes alike: the modes of the two meet in
/// `SHARED` and `EXCLUSIVE` only, which mean the same in both.
const MODES: [Mode; 11] = [
    mode("INTENTION_EXCLUSIVE", Some(0), SHARED | EXCLUSIVE),
    mode("SHARED", Some(1), INTENTION_EXCLUSIVE | EXCLUSIVE),
    mode("SHARED_HIGH_PRIO", Some(2), EXCLUSIVE),
    mode("SHARED_READ", Some(3), SHARED_NO_READ_WRITE | EXCLUSIVE),
    mode("SHARED_WRITE", Some(4), SHARED_READ_ONLY | NO_WRITES),
    mode("SHARED_WRITE_LOW_PRIO", None, SHARED_READ_ONLY | NO_WRITES),
    mode("SHARED_UPGRADABLE", Some(5), SHARED_UPGRADABLE | NO_WRITES),
    mode(
        "SHARED_READ_ONLY",
        Some(6),
        WRITES | SHARED_NO_READ_WRITE | EXCLUSIVE,
    ),
    mode(
        "SHARED_NO_WRITE",
        Some(7),
        WRITES | SHARED_UPGRADABLE | NO_WRITES,
    ),
    mode(
        "SHARED_NO_READ_WRITE",
        Some(8),
        SHARED_READ | WRITES | SHARED_UPGRADABLE | SHARED_READ_ONLY | NO_WRITES,
    ),
    mode("EXCLUSIVE", Some(9), ALL),
];

/// Whose numbers of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    MySql,
    MariaDb,
}

/// The name of a mode by its number; empty if there is none of that number.
pub(super) fn name(number: u32, numbering: Numbering) -> &'static str {
    let found = match numbering {
        Numbering::MySql => MODES.get(number as usize),
        Numbering::MariaDb => MODES.iter().find(|mode| mode.mariadb == Some(number)),
    };
    found.map_or("", |mode| mode.name)
}

/// Whether a lock held in mode `held` keeps one from being granted in mode `wanted`.
pub(super) fn excludes(held: &str, wanted: &str) -> bool {
    let place = |name: &str| MODES.iter().position(|mode| mode.name == name);
    let (Some(held), Some(wanted)) = (place(held), place(wanted)) else {
        return false;
    };
    MODES[wanted].excluded_by & 1 << held != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_goes_both_ways() {
        for one in &MODES {
            for two in &MODES {
                let (one, two) = (one.name, two.name);
                assert_eq!(excludes(one, two), excludes(two, one), "{one} {two}");
            }
            assert!(excludes("EXCLUSIVE", one.name), "{}", one.name);
            assert!(!excludes("BACKUP_DDL", one.name), "{}", one.name);
        }
        assert!(!excludes("SHARED_WRITE", "SHARED_READ"));
        assert!(!excludes("INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE"));
        assert!(excludes("SHARED_UPGRADABLE", "SHARED_UPGRADABLE"));
        assert!(!excludes("SHARED_READ_ONLY", "SHARED_READ_ONLY"));
    }

    #[test]
    fn each_family_has_its_own_numbers() {
        for (number, mysql, mariadb) in [
            (4, "SHARED_WRITE", "SHARED_WRITE"),
            (5, "SHARED_WRITE_LOW_PRIO", "SHARED_UPGRADABLE"),
            (9, "SHARED_NO_READ_WRITE", "EXCLUSIVE"),
            (10, "EXCLUSIVE", ""),
            (11, "", ""),
        ] {
            assert_eq!(name(number, Numbering::MySql), mysql);
            assert_eq!(name(number, Numbering::MariaDb), mariadb);
        }
    }
}
