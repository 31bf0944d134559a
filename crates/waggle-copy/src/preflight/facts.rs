//! What both servers say of themselves and of the tables: asked once, looked at by every check.
//!
//! Invariant: what a server does not have is absent, never a default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use waggle_server::Flavour;
use waggle_wire::{Connection, Endpoint};

use super::grants::Grants;
use crate::error::{CopyError, Side};
use crate::job::{Plan, Until};
use crate::schema::{self, Description, describe, sql};
use crate::table::{Table, TableName};

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) flavour: Flavour,
    /// Such as 9.7 or 10.11.
    pub(super) version: (u32, u32),
    /// Global variables by their lower-case names.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) grants: Grants,
    /// Collations it knows.
    pub(super) collations: BTreeSet<String>,
    /// What its default time zone is ahead of UTC, in seconds.
    pub(super) zone_offset_s: Option<i64>,
    /// Its data directory, when it is on this machine.
    pub(super) datadir: Option<PathBuf>,
}

/// Everything that is looked at.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) tables: &'a [Table],
    pub(super) source: Server,
    pub(super) target: Server,
    /// The tables as the source describes them.
    pub(super) described: Vec<Description>,
    /// Those of them that the target has already, with whether they hold rows.
    pub(super) there: Vec<(Description, bool)>,
    /// Parents of foreign keys that the target has, of those that are not copied.
    pub(super) parents_there: BTreeSet<TableName>,
    /// Whether the target knows the job: then its rows are the job's.
    pub(super) is_resumed: bool,
}

impl Facts<'_> {
    /// Whether changes are to be applied.
    pub(super) fn follows(&self) -> bool {
        self.plan.until != Until::Copied
    }

    pub(super) fn gather<'a>(
        source: &mut Connection,
        target: &mut Connection,
        plan: &'a Plan,
        tables: &'a [Table],
    ) -> Result<Facts<'a>, CopyError> {
        let described = schema::described(source, plan)?;
        let names: Vec<TableName> = tables.iter().map(|table| table.target.clone()).collect();
        let found = describe::tables(target, &names);
        let found = found.map_err(CopyError::target("reading the tables"))?;
        let mut there = Vec::new();
        for table in found {
            let sql = format!("SELECT 1 FROM {} LIMIT 1", table.name.quoted());
            // What cannot be read cannot be written either; the privileges say so.
            let holds = target
                .query_rows(sql.as_bytes())
                .is_ok_and(|rows| !rows.is_empty());
            there.push((table, holds));
        }
        let mut facts = Facts {
            plan,
            tables,
            source: Server::ask(source, Side::Source, &plan.source.endpoint)?,
            target: Server::ask(target, Side::Target, &plan.target.endpoint)?,
            described,
            there,
            parents_there: BTreeSet::new(),
            is_resumed: is_known(target, plan),
        };
        for parent in facts.parents() {
            let found = describe::tables(target, std::slice::from_ref(&parent));
            if found.is_ok_and(|found| !found.is_empty()) {
                facts.parents_there.insert(parent);
            }
        }
        Ok(facts)
    }

    /// The names that parents of foreign keys have at the target, of those that are not copied.
    fn parents(&self) -> BTreeSet<TableName> {
        let keys = self.described.iter().flat_map(|table| &table.foreign_keys);
        let copied = |name: &TableName| self.tables.iter().any(|table| table.source == *name);
        keys.filter(|key| !copied(&key.parent))
            .map(|key| schema::target_name(self.plan, &key.parent))
            .collect()
    }
}

/// Whether the target has rows of this job.
fn is_known(target: &mut Connection, plan: &Plan) -> bool {
    let sql = format!(
        "SELECT 1 FROM waggle_copy.jobs WHERE job = '{}' AND position IS NOT NULL",
        plan.job.name()
    );
    target
        .query_rows(sql.as_bytes())
        .is_ok_and(|rows| !rows.is_empty())
}

impl Server {
    fn ask(
        connection: &mut Connection,
        side: Side,
        endpoint: &Endpoint,
    ) -> Result<Server, CopyError> {
        let pairs = texts(connection, side, "SHOW GLOBAL VARIABLES")?;
        let variables: BTreeMap<String, String> = (pairs.into_iter())
            .map(|row| (column(&row, 0).to_lowercase(), column(&row, 1)))
            .collect();
        let grants = texts(connection, side, "SHOW GRANTS")?;
        let collations = texts(
            connection,
            side,
            "SELECT COLLATION_NAME FROM information_schema.COLLATIONS",
        )?;
        let mut collations: BTreeSet<String> =
            collations.iter().map(|row| column(row, 0)).collect();
        if connection.is_mariadb() {
            // There the Unicode collations are listed once, and named with each character set.
            let full = "SELECT FULL_COLLATION_NAME \
                        FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY";
            if let Ok(rows) = texts(connection, side, full) {
                collations.extend(rows.iter().map(|row| column(row, 0)));
            }
        }
        let zone = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), \
                    CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@global.time_zone))";
        let zone = texts(connection, side, zone)?;
        let zone_offset_s = zone.first().and_then(|row| column(row, 0).parse().ok());
        let datadir = variables
            .get("datadir")
            .and_then(|path| local(endpoint, path));
        Ok(Server {
            flavour: schema::flavour(connection),
            version: version(connection.server_version()),
            grants: Grants::parse(grants.iter().map(|row| column(row, 0))),
            collations,
            zone_offset_s,
            datadir,
            variables,
        })
    }

    /// A variable as it is.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A variable that is ON or OFF.
    pub(super) fn is_on(&self, name: &str) -> bool {
        let value = self.variable(name).unwrap_or_default();
        matches!(value.to_ascii_uppercase().as_str(), "ON" | "1" | "YES")
    }

    /// A variable that is a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.variable(name)?.parse().ok()
    }
}

/// The directory, when the server is on this machine and the path is a server's directory here.
fn local(endpoint: &Endpoint, path: &str) -> Option<PathBuf> {
    let is_local = match endpoint {
        Endpoint::Socket(_) => true,
        Endpoint::Tcp { host, .. } => matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1"),
    };
    let path = Path::new(path);
    (is_local && path.join("ibdata1").exists()).then(|| path.to_owned())
}

/// Major and minor of `5.5.5-10.11.2-MariaDB`, `9.7.4-2` and the like.
fn version(text: &str) -> (u32, u32) {
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn texts(
    connection: &mut Connection,
    side: Side,
    sql: &str,
) -> Result<Vec<waggle_wire::Row>, CopyError> {
    let rows = connection.query_rows(sql.as_bytes());
    rows.map_err(CopyError::on(side, "asking the server about itself"))
}

fn column(row: &waggle_wire::Row, at: usize) -> String {
    let value = row.get(at).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Quoted names for a statement in a remedy.
pub(super) fn account_place(schema: &str) -> String {
    format!("{}.*", sql::name(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_families_are_read() {
        assert_eq!(version("9.7.4-2"), (9, 7));
        assert_eq!(version("5.5.5-10.11.2-MariaDB-log"), (10, 11));
        assert_eq!(version("11.4.2-MariaDB-ubu2404-log"), (11, 4));
        assert_eq!(version("26.7.0"), (26, 7));
        assert_eq!(version("nonsense"), (0, 0));
    }
}
