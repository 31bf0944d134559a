//! Are the tables there, in the version that this program writes?
//!
//! Creates what is missing and adds what is new, step by step; every step may be repeated, so a
//! kill in the middle costs nothing. Only SQL that ClickHouse 18.16 knows as well as current
//! versions: no TTL clause, no `ADD COLUMN IF NOT EXISTS`. Neighbour: `tables` says what there is.
//! Invariant: data is never rewritten, and a schema newer than this program is left as it is: it
//! has all the columns that this program writes.

use super::connection::{Connection, Failure};
use super::tables::{BATCH, Table, VERSION};

const VERSIONS: &str = "waggle_schema";

/// Brings the schema to [`VERSION`]; with `repair`, also where it says to have that version, since
/// a table or a column turned out to be missing.
pub(crate) fn migrate(connection: &Connection, repair: bool) -> Result<(), Failure> {
    let name = connection.database();
    connection.run_anywhere(&format!("CREATE DATABASE IF NOT EXISTS `{name}`"))?;
    connection.run(&format!(
        "CREATE TABLE IF NOT EXISTS {VERSIONS} (version UInt32, applied DateTime('UTC'), \
         program String) ENGINE = MergeTree() ORDER BY version"
    ))?;
    let found = connection.run(&format!("SELECT max(version) FROM {VERSIONS}"))?;
    let found: u32 = found.trim().parse().unwrap_or(0);
    let first = if repair { 1 } else { found + 1 };
    if first > VERSION {
        return Ok(());
    }
    let has_low_cardinality = has_low_cardinality(&connection.run("SELECT version()")?);
    for version in first..=VERSION {
        step(connection, version, has_low_cardinality)?;
        if version > found {
            connection.run(&format!(
                "INSERT INTO {VERSIONS} SELECT {version}, now(), 'waggle {}'",
                env!("CARGO_PKG_VERSION")
            ))?;
        }
    }
    Ok(())
}

/// From the version before to `version`.
fn step(connection: &Connection, version: u32, low: bool) -> Result<(), Failure> {
    for table in Table::ALL {
        if table.since() == version {
            connection.run(&create(table, version, low))?;
        } else if table.since() < version {
            for column in table.columns().iter().filter(|c| c.since == version) {
                let there = connection.run(&format!(
                    "SELECT count() FROM system.columns WHERE database = '{}' AND table = '{}' \
                     AND name = '{}'",
                    connection.database(),
                    table.name(),
                    column.name
                ))?;
                if there.trim() == "0" {
                    connection.run(&format!(
                        "ALTER TABLE {} ADD COLUMN {} {}",
                        table.name(),
                        column.name,
                        column.kind.sql(low)
                    ))?;
                }
            }
        }
    }
    Ok(())
}

/// The statement that creates `table` as it is in `version`.
pub(crate) fn create(table: Table, version: u32, low: bool) -> String {
    let batch = BATCH.map(|(name, kind)| format!("{name} {}", kind.sql(low)));
    let columns = table.columns();
    let columns = columns
        .iter()
        .filter(|column| column.since <= version)
        .map(|column| format!("{} {}", column.name, column.kind.sql(low)));
    let columns: Vec<String> = batch.into_iter().chain(columns).collect();
    let (version_column, partition, order) = if table.has_time() {
        let order = format!("{}, batch_run, batch_sequence, batch_row", table.order());
        ("", " PARTITION BY toYYYYMMDD(time)", order)
    } else {
        ("seen_us", "", table.order().to_owned())
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}) ENGINE = ReplacingMergeTree({version_column})\
         {partition} ORDER BY ({order})",
        table.name(),
        columns.join(", "),
    )
}

/// Dictionaries of few values are ready for use since 19.13.
fn has_low_cardinality(version: &str) -> bool {
    let mut parts = version.trim().split('.').map(|part| part.parse::<u32>());
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (19, 13)
}

/// Drops whole days that ended more than `days` days before `now_s`.
pub(crate) fn forget(connection: &Connection, days: u32, now_s: u64) -> Result<u64, Failure> {
    let first_kept = now_s.saturating_sub(u64::from(days) * 86_400);
    let mut dropped = 0;
    for table in Table::ALL.into_iter().filter(|table| table.has_time()) {
        let old = connection.run(&format!(
            "SELECT DISTINCT partition FROM system.parts WHERE database = '{}' AND table = '{}' \
             AND active \
             AND toUInt32OrZero(partition) < toYYYYMMDD(toDateTime({first_kept}, 'UTC'))",
            connection.database(),
            table.name(),
        ))?;
        for day in old.lines().filter(|day| day.parse::<u32>().is_ok()) {
            connection.run(&format!(
                "ALTER TABLE {} DROP PARTITION {day}",
                table.name()
            ))?;
            dropped += 1;
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_get_plain_strings() {
        assert!(!has_low_cardinality("18.16.1\n"));
        assert!(!has_low_cardinality("19.9.2.4"));
        assert!(has_low_cardinality("19.13.1.11"));
        assert!(has_low_cardinality("26.8.1.2041"));
        assert!(!has_low_cardinality("unknown"));
    }

    /// Stores made by the first version exist: what it created is what it will always have created.
    #[test]
    fn the_first_version_never_changes() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/clickhouse/schema_v1.sql"
        );
        let mut text = "CREATE DATABASE waggle;\n".to_owned();
        for table in Table::ALL.into_iter().filter(|table| table.since() == 1) {
            let create = create(table, 1, false);
            text.push_str(&create.replacen("waggle_", "waggle.waggle_", 1));
            text.push_str(";\n");
        }
        text.push_str(
            "CREATE TABLE waggle.waggle_schema (version UInt32, applied DateTime('UTC'), program \
             String) ENGINE = MergeTree() ORDER BY version;\n\
             INSERT INTO waggle.waggle_schema SELECT 1, now(), 'waggle';\n",
        );
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &text).expect("the file");
        }
        assert_eq!(std::fs::read_to_string(path).expect("the file"), text);
    }

    #[test]
    fn a_version_has_only_its_own_columns() {
        let first = create(Table::Samples, 1, false);
        assert!(!first.contains("trace_id"), "{first}");
        let second = create(Table::Samples, 2, true);
        assert!(second.contains("trace_id String"), "{second}");
        assert!(second.contains("host LowCardinality(String)"), "{second}");
        let second = create(Table::Servers, 2, false);
        assert!(!second.contains("own UInt64"), "{second}");
        let third = create(Table::Servers, 3, false);
        assert!(third.contains("ended String, own UInt64)"), "{third}");
        let fourth = create(Table::Servers, 4, false);
        assert!(
            fourth.contains("own UInt64, in_routines UInt64)"),
            "{fourth}"
        );
    }
}
