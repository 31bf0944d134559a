//! `waggle copy bench`: how fast is the copy, beside what the target can take and beside others?
//!
//! `case` makes rows and loads them into a throw-away source by LOAD DATA INFILE; `contender` is
//! one way of getting them to a throw-away target: this program, the floor (the target's own LOAD
//! DATA INFILE of the same rows, from one file or from several at once, keys built afterwards) and
//! other tools that are installed. Each
//! round runs them all, every round in another order, each into an empty database. `profiled` runs
//! one copy more, to see where its time goes; `replicate` measures the other half of a copy:
//! changes, at a share of what the source can take.
//!
//! Invariant: a way whose rows are not the source's afterwards has no time; with writes meanwhile
//! this program's are compared once it has caught up, and other tools' are not.

mod case;
mod contender;
mod profiled;
mod replicate;
mod text;
mod writes;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use serde::Serialize;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec, default_directory};
use waggle_wire::Connection;

use crate::cli::{Failure, Output};
use crate::profiling;
use case::Case;
use contender::{Contender, Run};
use profiled::Profiled;
use replicate::Replicated;
use writes::Writes;

/// Measure the copy beside the floor and beside other tools, between throw-away servers
///
/// With --replicate: how far behind is the target while the source is written to at a share of the
/// most that it can take?
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Which servers
    #[arg(long, value_name = "mysql|mariadb", default_value = "mysql")]
    sandbox: Flavour,

    /// What is copied; repeat for several
    #[arg(long = "case", value_enum, default_values_t = [Case::Sysbench])]
    cases: Vec<Case>,

    /// The ways of getting the rows across; repeat for several [default: all that are installed]
    #[arg(long = "way", value_enum)]
    ways: Vec<Contender>,

    /// Rows of a case, of all its tables
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,

    /// Rounds; every way runs once in each
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Updates a second at the source while it is copied
    #[arg(long, value_name = "N", default_value_t = 0)]
    writes: u32,

    /// Ranges copied at once, and threads of the other tools
    #[arg(long, value_name = "N", default_value_t = 2)]
    ranges: usize,

    /// Measure changes in place of copies: oltp_write_only as fast as the source goes, then at
    /// --share of that with a copier that follows
    #[arg(long)]
    replicate: bool,

    /// Of --replicate: seconds of each of the two measurements
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    time: u32,

    /// Of --replicate: the share of the source's most, above 0 and up to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    share: f64,

    /// Of --replicate: connections that write
    #[arg(long, value_name = "N", default_value_t = 8)]
    threads: u32,

    /// A setting of both servers; repeat for several
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// Copy each case once more and record where source, copier and target spend this phase: flame
    /// graphs and a page in the run directory. Needs root
    #[arg(long, value_enum, value_name = "PHASE")]
    profile: Option<Profiled>,

    /// Where the run directory of --profile is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    run_dir: PathBuf,
}

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct Document {
    server: String,
    rounds: usize,
    cases: Vec<Measured>,
    replicate: Option<Replicated>,
}

/// One case.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    case: Case,
    rows: u64,
    tables: u32,
    /// Of the file that the rows were loaded from.
    file_bytes: u64,
    writes_per_s: u32,
    ways: Vec<Way>,
    /// Ways that are not installed.
    skipped: Vec<(String, String)>,
}

/// One way and its rounds.
#[derive(Debug, Serialize)]
pub(super) struct Way {
    way: Contender,
    rounds: Vec<Run>,
    /// Rounds in which it lost rows or ended with an error, and why.
    failed: Vec<(usize, String)>,
}

impl Way {
    fn new(way: Contender) -> Way {
        Way {
            way,
            rounds: Vec::new(),
            failed: Vec::new(),
        }
    }
}

/// Runs the subject.
pub(super) fn run(args: BenchArgs, out: &Output) -> Result<(), Failure> {
    if args.rows == 0 || args.rounds == 0 || !(1..=64).contains(&args.ranges) {
        let error = anyhow::anyhow!("--rows and --rounds are above 0, --ranges is 1 to 64");
        return Err(Failure::unusable(error));
    }
    if args.profile.is_some() {
        profiling::check()?;
    }
    if !(args.share > 0.0 && args.share <= 1.0) || args.time == 0 || args.threads == 0 {
        let error = anyhow::anyhow!("--share is above 0 and up to 1, --time and --threads above 0");
        return Err(Failure::unusable(error));
    }
    let mut stand = Stand::new(&args).map_err(Failure::Unusable)?;
    let mut document = Document {
        server: format!("{} {}", args.sandbox.name(), stand.source.version()),
        rounds: args.rounds,
        cases: Vec::new(),
        replicate: None,
    };
    let mut profiles = Vec::new();
    if args.replicate {
        let replicated = replicate::measure(&stand, &args).map_err(Failure::Ran)?;
        if out.json {
            document.replicate = Some(replicated);
            return out.json(&document).map_err(Failure::ran);
        }
        print!("{}", replicated.render());
        return Ok(());
    }
    for case in &args.cases {
        let measured = stand.measure(*case, &args).map_err(Failure::Ran)?;
        if !out.json {
            print!("{}", text::render(&measured));
        }
        document.cases.push(measured);
        if let Some(phase) = args.profile {
            eprintln!("{case}: one copy more, profiled");
            let profile = profiled::record(&stand, *case, &args, phase);
            profiles.push((*case, profile.map_err(Failure::Ran)?));
        }
    }
    if let Some(phase) = args.profile {
        let page = profiled::keep(&args.run_dir, phase, &profiles, &document);
        eprintln!("profile: {}", page.map_err(Failure::Ran)?.display());
    }
    if out.json {
        out.json(&document).map_err(Failure::ran)?;
    }
    Ok(())
}

/// Two servers and a directory that both can read.
struct Stand {
    source: Sandbox,
    target: Sandbox,
    directory: PathBuf,
}

impl Stand {
    fn new(args: &BenchArgs) -> anyhow::Result<Stand> {
        let mut spec = SandboxSpec::new(args.sandbox)
            .set("log-bin", "binlog")
            .set("binlog-format", "ROW")
            .set("max-allowed-packet", "67108864");
        if args.sandbox == Flavour::MySql {
            spec = spec
                .set("gtid-mode", "ON")
                .set("enforce-gtid-consistency", "ON");
        }
        for setting in &args.settings {
            let Some((name, value)) = setting.split_once('=') else {
                bail!("--set {setting}: write NAME=VALUE");
            };
            spec = spec.set(name, value);
        }
        let directory =
            default_directory().join(format!("waggle-copy-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let stand = |source, target| Stand {
            source,
            target,
            directory: directory.clone(),
        };
        let source = Sandbox::start(&spec.clone().set("server-id", "1"))?;
        let target = Sandbox::start(&spec.set("server-id", "2"))?;
        Ok(stand(source, target))
    }

    fn measure(&mut self, case: Case, args: &BenchArgs) -> anyhow::Result<Measured> {
        let tables = case.tables();
        let file = self.directory.join("rows");
        let rows_each = args.rows.div_ceil(u64::from(tables));
        eprintln!("{case}: making {} rows", rows_each * u64::from(tables));
        case.write(&[&file], rows_each)?;
        if args.ways.is_empty() || args.ways.contains(&Contender::FloorParts) {
            case.write(&contender::parts(&file, args.ranges), rows_each)?;
        }
        let file_bytes = fs::metadata(&file).context("the rows' file")?.len();
        let mut source = Connection::connect(&self.source.dsn_socket())?;
        query(&mut source, "DROP DATABASE IF EXISTS bench")?;
        query(&mut source, "CREATE DATABASE bench")?;
        for table in 1..=tables {
            query(&mut source, &case.create(table, true))?;
            query(
                &mut source,
                &case.load(table, &self.seen(&self.source, &file)?),
            )?;
        }
        let mut measured = Measured {
            case,
            rows: rows_each * u64::from(tables),
            tables,
            file_bytes,
            writes_per_s: args.writes,
            ways: Vec::new(),
            skipped: Vec::new(),
        };
        let is_asked = |way: &Contender| args.ways.is_empty() || args.ways.contains(way);
        for way in Contender::ALL.into_iter().filter(is_asked) {
            match way.missing() {
                Some(why) => measured.skipped.push((way.to_string(), why)),
                None => measured.ways.push(Way::new(way)),
            }
        }
        for round in 1..=args.rounds {
            let count = measured.ways.len();
            for turn in 0..count {
                let Way {
                    way,
                    rounds,
                    failed,
                } = &mut measured.ways[(round + turn) % count];
                eprintln!("{case}: round {round} of {}: {way}", args.rounds);
                match self.turn(case, *way, args, &file) {
                    Ok(run) => rounds.push(Run { round, ..run }),
                    Err(error) => failed.push((round, format!("{error:#}"))),
                }
            }
        }
        Ok(measured)
    }

    /// One way once, into an empty database.
    fn turn(
        &self,
        case: Case,
        way: Contender,
        args: &BenchArgs,
        file: &std::path::Path,
    ) -> anyhow::Result<Run> {
        let mut target = Connection::connect(&self.target.dsn_socket())?;
        for database in ["bench", "waggle_copy"] {
            query(&mut target, &format!("DROP DATABASE IF EXISTS {database}"))?;
        }
        query(&mut target, "CREATE DATABASE bench")?;
        let writes = Writes::begin(&self.source, case, args)?;
        let before = self.cpu()?;
        let began = Instant::now();
        let mut run = way.run(self, case, args.ranges, args.writes > 0, file)?;
        run.wall_s = began.elapsed().as_secs_f64();
        let after = self.cpu()?;
        run.source_cpu_s = (after.0 - before.0) as f64 / 1e9;
        run.target_cpu_s = (after.1 - before.1) as f64 / 1e9;
        let is_written = writes.end()?;
        if is_written && way == Contender::Waggle {
            contender::catch_up(self, args.ranges)?;
        }
        // Another tool's target is where the source was at some moment.
        if !is_written || way == Contender::Waggle {
            self.compare(case, &mut target)?;
        }
        Ok(run)
    }

    fn spool(&self) -> PathBuf {
        self.directory.join("spool")
    }

    fn cpu(&self) -> anyhow::Result<(u64, u64)> {
        let of = |server: &Sandbox| waggle_server::cpu::process_cpu_ns(server.pid());
        Ok((of(&self.source)?, of(&self.target)?))
    }

    /// A way that lost or changed a row is an error.
    fn compare(&self, case: Case, target: &mut Connection) -> anyhow::Result<()> {
        let mut source = Connection::connect(&self.source.dsn_socket())?;
        for table in 1..=case.tables() {
            let sql = format!("CHECKSUM TABLE bench.t{table}");
            let here = source.query_rows(sql.as_bytes())?;
            let there = target.query_rows(sql.as_bytes())?;
            if here != there {
                bail!("its rows of t{table} are not those of the source");
            }
        }
        Ok(())
    }

    /// Lends a server the file; its path as the server calls it.
    fn seen(&self, server: &Sandbox, file: &std::path::Path) -> anyhow::Result<String> {
        let path = server
            .lend(file)
            .with_context(|| format!("lending {} to the server", file.display()))?;
        Ok(path.display().to_string())
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // What cannot be removed is of no use to anybody and named by its directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn query(connection: &mut Connection, sql: &str) -> anyhow::Result<()> {
    let done = connection.query(sql.as_bytes());
    done.map(drop)
        .with_context(|| sql.chars().take(120).collect::<String>())
}
