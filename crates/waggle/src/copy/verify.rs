//! `waggle copy verify`: is the target what the source is, row for row, and if not, which rows?
//!
//! `waggle-copy` compares, here is what is asked and what is printed. Invariant: exit code 0 means
//! that every row was compared and is equal; what could not be compared is an error.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use waggle_copy::verify::{Comparison, Difference, RANGE_ROWS, TableReport, compare};
use waggle_copy::{Control, CopyError, Table, TableName, schema, session};

use super::args;
use crate::account::AccountArgs;
use crate::cli::{Failure, Output};
use crate::interrupt;

/// Compare source and target row by row while both are in use, and name the rows that differ
///
/// Every column is compared by an exact expression of its type, computed by the servers: the bits
/// of FLOAT and DOUBLE, the types inside of a JSON, NULL and the empty text, trailing spaces.
/// Tables are added up range by range; ranges that differ are narrowed down to their rows.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The server that is taken for right, with the database
    #[arg(
        long,
        value_name = "DSN",
        env = "WAGGLE_COPY_FROM",
        hide_env_values = true
    )]
    from: Option<String>,

    /// The server that is compared with it; its database, if given, is the one with the tables
    #[arg(
        long,
        value_name = "DSN",
        env = "WAGGLE_COPY_TO",
        hide_env_values = true
    )]
    to: Option<String>,

    #[command(flatten)]
    account: AccountArgs,

    /// Tables, `name` or `database.name`, separated by commas [default: all of the database]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tables: Vec<String>,

    /// Tables compared at once; each takes a session at either server
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,

    /// Rows that are added up at once
    #[arg(long, value_name = "ROWS", default_value_t = RANGE_ROWS)]
    range_rows: u64,

    /// How far the target may be behind: a row counts as different when it has been so for this
    /// long while the source's did not change
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    lag: f64,

    /// Write rows that differ anew, each proved before it is committed; not while a copy runs
    #[arg(long)]
    repair: bool,

    /// Differences that are named for each table; the others are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    names: usize,
}

/// What was asked for, checked.
struct Checked {
    comparison: Comparison,
    tables: Vec<TableName>,
}

impl VerifyArgs {
    fn check(self) -> anyhow::Result<Checked> {
        let source = args::dsn(self.from, "--from", &self.account)?;
        let target = args::dsn(self.to, "--to", &self.account)?;
        let tables = args::names(&self.tables, source.database.as_deref())?;
        if source.endpoint == target.endpoint && source.database == target.database {
            bail!("--from and --to name the same database, which is equal to itself");
        }
        if tables.is_empty() && source.database.is_none() {
            bail!("nothing says what to compare; name a database in --from, or --tables");
        }
        if !(1..=64).contains(&self.workers) || self.range_rows == 0 {
            bail!("--workers is 1 to 64, --range-rows above 0");
        }
        let lag = Duration::try_from_secs_f64(self.lag);
        let lag = lag.with_context(|| format!("--lag {}", self.lag))?;
        Ok(Checked {
            comparison: Comparison {
                source,
                target,
                workers: self.workers,
                range_rows: self.range_rows,
                lag,
                repairs: self.repair,
                named_max: self.names,
            },
            tables,
        })
    }
}

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct VerifyResult {
    /// Whether every row is the same on both sides now.
    verified: bool,
    /// Rows that are not.
    differences: u64,
    /// Rows that changed too often to be compared.
    moving: u64,
    /// Rows that were written anew.
    repaired: u64,
    /// Rows of the source that were compared.
    rows: u64,
    /// Wall time, in seconds.
    duration_s: f64,
    tables: Vec<TableReport>,
}

/// Runs the subject.
pub(super) fn run(args: VerifyArgs, out: &Output) -> Result<(), Failure> {
    let checked = args.check().map_err(Failure::Unusable)?;
    let ends = interrupt::catch()
        .context("catching signals")
        .map_err(Failure::Unusable)?;
    let tables = read(&checked).map_err(Failure::unusable)?;
    let control = Arc::new(Control::new());
    let began = Instant::now();
    let rows = AtomicU64::new(0);
    let expected: u64 = tables.iter().map(|table| table.rows_estimate).sum();
    let reports = thread::scope(|scope| {
        let compared = scope.spawn(|| {
            compare(&checked.comparison, &tables, &control, &|more| {
                rows.fetch_add(more, Ordering::Relaxed);
            })
        });
        let mut screen = Bar::new(expected);
        while !compared.is_finished() {
            thread::sleep(Duration::from_millis(50));
            if ends.requested() {
                control.stop();
            }
            screen.show(rows.load(Ordering::Relaxed), began.elapsed());
        }
        screen.done();
        compared
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let reports = reports.map_err(Failure::ran)?;
    let sum = |of: fn(&TableReport) -> u64| reports.iter().map(of).sum::<u64>();
    let (differences, moving) = (sum(|one| one.different), sum(|one| one.moving));
    let result = VerifyResult {
        verified: differences == 0 && moving == 0,
        differences,
        moving,
        repaired: sum(|one| one.repaired),
        rows: sum(|one| one.rows_source),
        duration_s: began.elapsed().as_secs_f64(),
        tables: reports,
    };
    result.print(out).map_err(Failure::ran)?;
    match (differences, moving) {
        (0, 0) => Ok(()),
        (0, moving) => Err(Failure::ran(anyhow!(
            "{moving} rows changed all the time and could not be compared; give --lag more"
        ))),
        (rows, _) => Err(Failure::ran(anyhow!(
            "{rows} rows differ between source and target"
        ))),
    }
}

fn read(checked: &Checked) -> Result<Vec<Table>, CopyError> {
    let comparison = &checked.comparison;
    let mut source = session::source(&comparison.source)?;
    // Said before anything is read: a target that is not there would be found table by table.
    session::target(&comparison.target)?;
    let database = comparison.source.database.as_deref();
    let target = comparison.target.database.as_deref();
    schema::read_named(&mut source, database, &checked.tables, target)
}

impl VerifyResult {
    fn print(&self, out: &Output) -> io::Result<()> {
        if out.json {
            return out.json(self);
        }
        let mut stdout = io::stdout().lock();
        for table in &self.tables {
            let verdict = match (table.different, table.moving, table.repaired) {
                (0, 0, 0) => "equal".to_owned(),
                (0, 0, repaired) => format!("equal now, {repaired} rows repaired"),
                (different, moving, repaired) => {
                    format!("{different} rows differ, {moving} unsettled, {repaired} repaired")
                }
            };
            writeln!(
                stdout,
                "{}: {verdict} ({} rows, {} at the target, by {})",
                table.table, table.rows_source, table.rows_target, table.by
            )?;
            for difference in &table.differences {
                match difference {
                    Difference::Missing { row } => writeln!(stdout, "  missing  {row}")?,
                    Difference::Extra { row } => writeln!(stdout, "  extra    {row}")?,
                    Difference::Differs { row, columns } => {
                        writeln!(stdout, "  differs  {row}  in {}", columns.join(", "))?;
                    }
                }
            }
            for note in &table.notes {
                writeln!(stdout, "  note: {note}")?;
            }
        }
        writeln!(
            stdout,
            "{} rows of {} tables compared in {:.1} s: {} differ, {} repaired",
            self.rows,
            self.tables.len(),
            self.duration_s,
            self.differences,
            self.repaired
        )
    }
}

/// How far a comparison is, on standard error.
struct Bar {
    bar: indicatif::ProgressBar,
}

impl Bar {
    fn new(expected: u64) -> Bar {
        let bar = indicatif::ProgressBar::new(expected);
        if let Ok(style) =
            indicatif::ProgressStyle::with_template("{bar:30} {pos}/~{len} rows {msg}")
        {
            bar.set_style(style);
        }
        Bar { bar }
    }

    fn show(&mut self, rows: u64, elapsed: Duration) {
        let rate = rows as f64 / elapsed.as_secs_f64().max(0.001);
        // The server's number of rows is an estimate.
        self.bar
            .set_length(self.bar.length().unwrap_or(0).max(rows));
        self.bar.set_message(format!("{rate:.0} rows/s"));
        self.bar.set_position(rows);
    }

    fn done(&self) {
        self.bar.finish_and_clear();
    }
}
