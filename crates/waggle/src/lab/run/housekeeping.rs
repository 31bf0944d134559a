//! The server's counters of its own housekeeping, read while the load stands still.
//!
//! They are read after every window alike, whatever its arm. Neighbour: `waggle-stats` tells
//! checkpoints and flush storms by them.

use std::collections::BTreeMap;

use waggle_stats::compare::WindowCounters;
use waggle_wire::Connection;

const SQL: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN (\
    'Innodb_buffer_pool_pages_flushed', 'Innodb_os_log_written', 'Innodb_checkpoint_age', \
    'Innodb_checkpoint_max_age', 'Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn', \
    'Innodb_redo_log_capacity_resized', 'Innodb_buffer_pool_pages_dirty')";

/// The counters at one moment; `None`: this server does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Housekeeping {
    pages_flushed: Option<u64>,
    log_bytes: Option<u64>,
    checkpoint_age: Option<u64>,
    log_capacity: Option<u64>,
    pages_dirty: Option<u64>,
}

impl Housekeeping {
    pub(super) fn read(admin: &mut Connection) -> anyhow::Result<Self> {
        let rows = admin.query_rows(SQL.as_bytes())?.into_iter();
        let pair = |row: Vec<Option<Vec<u8>>>| {
            let mut values = row.into_iter().flatten();
            let name = String::from_utf8(values.next()?).ok()?;
            let value = String::from_utf8(values.next()?).ok()?.parse().ok()?;
            Some((name.to_ascii_lowercase(), value))
        };
        Ok(Self::of(&rows.filter_map(pair).collect()))
    }

    fn of(values: &BTreeMap<String, u64>) -> Self {
        let value = |name: &str| values.get(name).copied();
        let lsn = |name: &str| value(&format!("innodb_redo_log_{name}_lsn"));
        let by_lsn = || Some(lsn("current")?.saturating_sub(lsn("checkpoint")?));
        Self {
            pages_flushed: value("innodb_buffer_pool_pages_flushed"),
            log_bytes: value("innodb_os_log_written"),
            checkpoint_age: value("innodb_checkpoint_age").or_else(by_lsn),
            log_capacity: value("innodb_checkpoint_max_age")
                .or(value("innodb_redo_log_capacity_resized")),
            pages_dirty: value("innodb_buffer_pool_pages_dirty"),
        }
    }

    /// What happened since `before`.
    pub(super) fn since(&self, before: &Self) -> WindowCounters {
        let difference = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        WindowCounters {
            pages_flushed: difference(self.pages_flushed, before.pages_flushed),
            log_bytes: difference(self.log_bytes, before.log_bytes),
            checkpoint_age_start: before.checkpoint_age,
            checkpoint_age_end: self.checkpoint_age,
            log_capacity: self.log_capacity,
            pages_dirty: self.pages_dirty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_tell_the_checkpoint_age_their_way() {
        let of = |pairs: &[(&str, u64)]| {
            let named = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value));
            Housekeeping::of(&named.collect())
        };
        let mysql = of(&[
            ("innodb_redo_log_current_lsn", 900),
            ("innodb_redo_log_checkpoint_lsn", 500),
        ]);
        assert_eq!(mysql.checkpoint_age, Some(400));
        let mariadb = of(&[
            ("innodb_checkpoint_age", 70),
            ("innodb_buffer_pool_pages_flushed", 9),
        ]);
        assert_eq!(mariadb.checkpoint_age, Some(70));
        let later = of(&[
            ("innodb_checkpoint_age", 20),
            ("innodb_buffer_pool_pages_flushed", 99),
        ]);
        let window = later.since(&mariadb);
        assert_eq!(
            (window.checkpoint_age_start, window.checkpoint_age_end),
            (Some(70), Some(20))
        );
        assert_eq!(window.pages_flushed, Some(90));
        assert_eq!(window.log_bytes, None);
    }
}
