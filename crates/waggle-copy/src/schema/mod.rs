//! Tables, columns and keys: read at the source, made at the target, compared with what is there.
//!
//! * [`sql`]: names, literals and the pieces of `SHOW CREATE TABLE`;
//! * [`describe`]: tables as `information_schema` of both families tells them;
//! * [`mod@create`]: the statement for the target, translated between the families, or why not;
//! * [`deferral`]: which keys wait until the rows are there, and the steps that build them;
//! * [`journal`]: those steps at the target, so that a copy that died goes on with them;
//! * `stoppable`: a step that is ended when the copy is;
//! * [`fit`]: whether a table that is there can take the rows exactly.
//!
//! Neighbours: `table` is what is read; `progress` has the journal's table; `preflight` and
//! `verify` ask for [`Description`]s. Invariants: nothing here writes to a source, and every
//! change of schema is noted before it is made.

pub mod create;
pub mod deferral;
pub mod describe;
mod description;
pub mod fit;
pub mod journal;
pub mod sql;
mod stoppable;

use std::sync::atomic::{AtomicUsize, Ordering};

use waggle_server::Flavour;
use waggle_wire::Connection;

use crate::control::Control;
use crate::error::CopyError;
use crate::job::Plan;
use crate::session::{self, run};
use crate::table::{Table, TableName};

pub use description::{Description, ForeignKey, Index, IndexKind, IndexPart};

/// The family at the other end of a connection.
pub(crate) fn flavour(connection: &Connection) -> Flavour {
    match connection.is_mariadb() {
        true => Flavour::MariaDb,
        false => Flavour::MySql,
    }
}

/// The tables that the plan names, in the order of their names.
///
/// # Errors
/// What the source says; [`CopyError::Data`] for one that is not there, is no table of rows, or
/// has a column of a type that this program does not know.
pub fn read(source: &mut Connection, plan: &Plan) -> Result<Vec<Table>, CopyError> {
    let database = plan.source.database.as_deref();
    read_named(
        source,
        database,
        &plan.tables,
        plan.target_schema.as_deref(),
    )
}

/// The named tables, or all of a database, and where they go: to tables of the same name in
/// `target_schema`, or in the database of the same name.
///
/// # Errors
/// As [`read`].
pub fn read_named(
    source: &mut Connection,
    database: Option<&str>,
    names: &[TableName],
    target_schema: Option<&str>,
) -> Result<Vec<Table>, CopyError> {
    let described = described_named(source, database, names, describe::tables)?;
    let mut tables = Vec::with_capacity(described.len());
    for (number, description) in described.iter().enumerate() {
        if let Some(column) = description.unknown.first() {
            return Err(CopyError::Data {
                table: description.name.to_string(),
                what: format!("column {column} is of a type that this version does not know"),
            });
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        tables.push(description.table(number, moved(&description.name, target_schema)));
    }
    Ok(tables)
}

/// The plan's tables with everything that the source says of them.
///
/// # Errors
/// As [`read`].
pub fn described(source: &mut Connection, plan: &Plan) -> Result<Vec<Description>, CopyError> {
    let database = plan.source.database.as_deref();
    described_named(
        source,
        database,
        &plan.tables,
        describe::tables_with_children,
    )
}

fn described_named(
    source: &mut Connection,
    database: Option<&str>,
    names: &[TableName],
    ask: fn(&mut Connection, &[TableName]) -> Result<Vec<Description>, waggle_wire::Error>,
) -> Result<Vec<Description>, CopyError> {
    let doing = || CopyError::source("reading the tables");
    let mut names = names.to_vec();
    if names.is_empty() {
        names = describe::list(source, database.unwrap_or_default()).map_err(doing())?;
    }
    names.sort();
    names.dedup();
    let found = ask(source, &names).map_err(doing())?;
    let is_missing = |name: &&TableName| !found.iter().any(|table| table.name == **name);
    if let Some(name) = names.iter().find(is_missing) {
        return Err(CopyError::Data {
            table: name.to_string(),
            what: "there is no such table at the source".to_owned(),
        });
    }
    if let Some(table) = found.iter().find(|table| table.table_type != "BASE TABLE") {
        create::translate(table, table.flavour).map_err(refusal(&table.name))?;
    }
    Ok(found)
}

/// Where a table of the source goes.
pub fn target_name(plan: &Plan, source: &TableName) -> TableName {
    moved(source, plan.target_schema.as_deref())
}

fn moved(source: &TableName, schema: Option<&str>) -> TableName {
    TableName {
        schema: schema.unwrap_or(&source.schema).to_owned(),
        name: source.name.clone(),
    }
}

/// For `map_err` on what cannot be made.
fn refusal(table: &TableName) -> impl Fn(create::CreateError) -> CopyError {
    let table = table.to_string();
    move |error| CopyError::Data {
        table: table.clone(),
        what: error.to_string(),
    }
}

/// Makes the tables at the target that are not there, without the keys that are put off, and
/// notes in the journal what is left to build. A table that is there must fit.
///
/// # Errors
/// What the target says, and [`CopyError::Data`] for a table that cannot be made or does not fit.
pub fn create(target: &mut Connection, plan: &Plan, tables: &[Table]) -> Result<(), CopyError> {
    let family = flavour(target);
    let on_target = || CopyError::target("reading the tables");
    let names: Vec<TableName> = tables.iter().map(|table| table.target.clone()).collect();
    let mut schemas: Vec<&str> = names.iter().map(|name| name.schema.as_str()).collect();
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        let sql = format!("CREATE DATABASE IF NOT EXISTS {}", sql::name(schema));
        run(target, &sql, "making the database")?;
    }
    let there = describe::tables(target, &names).map_err(on_target())?;
    for table in tables {
        if there.iter().any(|found| found.name == table.target) {
            continue;
        }
        let source = described_again(table)?;
        let made = create::translate(&source, family).map_err(refusal(&table.source))?;
        let wanted = deferral::split(&source, &made.definition, plan.defers_keys, table);
        // The steps first: keys that nobody knows of would be lost with this process.
        journal::note(target, &plan.job, table, &wanted.steps)?;
        let sql = wanted.definition.statement(&table.target.quoted());
        run(target, &sql, &format!("making {}", table.target))?;
    }
    let there = describe::tables(target, &names).map_err(on_target())?;
    for table in tables {
        let found = there.iter().find(|found| found.name == table.target);
        let misfits = found.map_or_else(Vec::new, |found| fit::misfits(table, found));
        if let Some(what) = misfits.into_iter().next() {
            return Err(CopyError::Data {
                table: table.target.to_string(),
                what: format!(
                    "the target's table cannot take the source's rows as they are: {what}"
                ),
            });
        }
    }
    Ok(())
}

/// What the deferral needs of a table, from its definition at the source.
fn described_again(table: &Table) -> Result<Description, CopyError> {
    let flavour = match table.is_mariadb {
        true => Flavour::MariaDb,
        false => Flavour::MySql,
    };
    let definition =
        sql::Definition::parse(&table.definition).map_err(|error| CopyError::Data {
            table: table.source.to_string(),
            what: error.to_string(),
        })?;
    let counts = |piece: &&String| {
        sql::Piece::of(piece) == sql::Piece::Column
            && sql::Scan::new(piece).any(|(token, part)| {
                token == sql::Token::Word && part.eq_ignore_ascii_case("AUTO_INCREMENT")
            })
    };
    let auto_increment = definition.pieces.iter().find(counts);
    Ok(Description {
        name: table.source.clone(),
        flavour,
        columns: table.columns.clone(),
        unknown: Vec::new(),
        auto_increment: auto_increment.and_then(|piece| sql::first_name(piece)),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        children: Vec::new(),
        triggers: Vec::new(),
        engine: String::new(),
        table_type: "BASE TABLE".to_owned(),
        rows_estimate: table.rows_estimate,
        data_bytes: table.bytes_estimate,
        index_bytes: 0,
        create: table.definition.clone(),
    })
}

/// Builds the keys that were put off, of several tables at once, then the foreign keys, without
/// checking the rows that are there: they are the source's. Of no effect when none is left.
///
/// # Errors
/// What the target says: a duplicate value in a unique key, a full disk. [`CopyError::Stopped`].
pub fn build_keys(
    target: &mut Connection,
    plan: &Plan,
    tables: &[Table],
    control: &Control,
) -> Result<(), CopyError> {
    let next = AtomicUsize::new(0);
    let build = |target: &mut Connection| loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(table) = tables.get(at) else {
            return Ok(());
        };
        if control.is_stopping() {
            return Err(CopyError::Stopped);
        }
        if let Err(error) = journal::build(target, plan, table, journal::Build::Keys, control) {
            // The others end after the table that they are at.
            next.store(tables.len(), Ordering::Relaxed);
            return Err(error);
        }
    };
    std::thread::scope(|scope| {
        let more = 1..plan.workers.min(tables.len());
        let others: Vec<_> = more
            .map(|_| scope.spawn(|| build(&mut session::target(&plan.target)?)))
            .collect();
        let built = build(&mut *target);
        let joined = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        std::iter::once(built)
            .chain(joined)
            .collect::<Result<(), _>>()
    })?;
    for table in tables {
        journal::build(target, plan, table, journal::Build::ForeignKeys, control)?;
    }
    Ok(())
}
