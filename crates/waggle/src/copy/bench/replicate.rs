//! How far behind is the target while the source is written to?
//!
//! First `waggle bench oltp_write_only` alone finds the most that the source can take on this
//! machine; then the tables are copied, the copier follows, and the same workload runs at a share
//! of that. A row with the time of day in it is written at the source all the while and read at
//! the target: its age there is the lag, of everything between the two and by one clock.
//!
//! Invariant: a target whose rows are not the source's at the end has no lag.

use std::fmt::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use waggle_report::quantity;
use waggle_server::cpu::process_cpu_ns;
use waggle_wire::Connection;

use super::contender::{copier, dsn, output};
use super::{BenchArgs, Stand, query};

const WORKLOAD: &str = "oltp_write_only";
const TABLES: u64 = 4;
/// Between two writes of the time, which a lag is too large by at most.
const BEAT: Duration = Duration::from_millis(50);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);
/// The target counts as up to date below this.
const CLOSE_MS: f64 = 500.0;
/// So long it may take to copy the tables, and to catch up.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Replicated {
    workload: &'static str,
    threads: u32,
    rows: u64,
    /// Transactions a second that the source took by itself.
    tps_max: f64,
    /// Transactions a second that were asked for afterwards, and that were done.
    tps_asked: f64,
    tps: f64,
    transactions: u64,
    lag_ms: Lag,
    /// The greatest lag of each second, in ms.
    lag_ms_by_second: Vec<f64>,
    /// From the end of the load until the target had all of it.
    caught_up_s: f64,
    /// CPU time for each of those transactions, in us.
    copier_us: f64,
    source_us: f64,
    target_us: f64,
}

/// Of the lag's samples, in ms.
#[derive(Debug, Serialize)]
struct Lag {
    samples: usize,
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

/// Measures the source, then the copier behind it.
pub(super) fn measure(stand: &Stand, args: &BenchArgs) -> anyhow::Result<Replicated> {
    let mut source = Connection::connect(&stand.source.dsn_socket())?;
    let mut target = Connection::connect(&stand.target.dsn_socket())?;
    for sql in [
        "DROP DATABASE IF EXISTS bench",
        "CREATE DATABASE bench",
        "CREATE TABLE bench.beat (id INT PRIMARY KEY, at_us BIGINT NOT NULL)",
        "INSERT INTO bench.beat VALUES (1, 0)",
    ] {
        query(&mut source, sql)?;
    }
    query(&mut target, "DROP DATABASE IF EXISTS waggle_copy")?;
    query(&mut target, "DROP DATABASE IF EXISTS bench")?;
    query(&mut target, "CREATE DATABASE bench")?;
    eprintln!("replicate: making {} rows", args.rows);
    output(&mut load(stand, args, &["prepare"])?)?;
    eprintln!("replicate: the source by itself, {} s", args.time);
    let alone = result(&mut load(stand, args, &["--warmup", "2"])?)?;
    let tps_max = number(&alone, "tps");
    eprintln!("replicate: copying");
    let mut copier = Copier::begin(stand, args)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let beat = scope.spawn(|| beats(stand, &is_over));
        let measured = (|| {
            let deadline = Instant::now() + PATIENCE;
            while !is_close(&mut target)? {
                copier.check(deadline)?;
                thread::sleep(LOOK);
            }
            behind(stand, args, tps_max, &mut copier, &mut target)
        })();
        drop(over);
        let beat = beat
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let measured = measured?;
        beat?;
        finish(stand, copier, &mut source, &mut target)?;
        Ok(measured)
    })
}

/// The load at a share of the most, and the lag meanwhile.
fn behind(
    stand: &Stand,
    args: &BenchArgs,
    tps_max: f64,
    copier: &mut Copier,
    target: &mut Connection,
) -> anyhow::Result<Replicated> {
    let tps_asked = tps_max * args.share;
    eprintln!("replicate: {tps_asked:.0} transactions/s, {} s", args.time);
    let rate = format!("{tps_asked:.1}");
    let cpu = |copier: &Copier| -> anyhow::Result<[u64; 3]> {
        let (source, target) = stand.cpu()?;
        Ok([process_cpu_ns(copier.child.id())?, source, target])
    };
    let before = cpu(copier)?;
    let began = Instant::now();
    let mut child = load(stand, args, &["--rate", &rate])?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the load")?;
    let mut samples: Vec<(f64, f64)> = Vec::new();
    while child.try_wait().context("the load")?.is_none() {
        copier.check(Instant::now() + PATIENCE)?;
        samples.extend(lag_ms(target)?.map(|lag| (began.elapsed().as_secs_f64(), lag)));
        thread::sleep(LOOK);
    }
    let ended = Instant::now();
    let written_us = now_us();
    let words = child.wait_with_output().context("the load")?;
    if !words.status.success() {
        bail!("the load ended with {}", words.status);
    }
    let document: Value = serde_json::from_slice(&words.stdout).context("the load's document")?;
    while beat_us(target)?.is_none_or(|at_us| at_us < written_us) {
        copier.check(ended + PATIENCE)?;
        thread::sleep(LOOK);
    }
    let caught_up_s = ended.elapsed().as_secs_f64();
    let after = cpu(copier)?;
    let transactions = number(&document, "transactions");
    let each_us = |at: usize| (after[at] - before[at]) as f64 / 1e3 / transactions.max(1.0);
    Ok(Replicated {
        workload: WORKLOAD,
        threads: args.threads,
        rows: args.rows,
        tps_max,
        tps_asked,
        tps: number(&document, "tps"),
        transactions: transactions as u64,
        lag_ms: Lag::of(samples.iter().map(|(_, lag)| *lag).collect()),
        lag_ms_by_second: by_second(&samples),
        caught_up_s,
        copier_us: each_us(0),
        source_us: each_us(1),
        target_us: each_us(2),
    })
}

/// Ends the copier once the target has everything, and compares.
fn finish(
    stand: &Stand,
    mut copier: Copier,
    source: &mut Connection,
    target: &mut Connection,
) -> anyhow::Result<()> {
    let last_us = now_us();
    query(source, &format!("UPDATE bench.beat SET at_us = {last_us}"))?;
    let deadline = Instant::now() + PATIENCE;
    while beat_us(target)? != Some(last_us) {
        copier.check(deadline)?;
        thread::sleep(LOOK);
    }
    copier.end()?;
    let names: Vec<String> = (1..=TABLES).map(|n| format!("bench.sbtest{n}")).collect();
    let sql = format!("CHECKSUM TABLE {}, bench.beat", names.join(", "));
    let (here, there) = (
        source.query_rows(sql.as_bytes())?,
        target.query_rows(sql.as_bytes())?,
    );
    if here != there {
        bail!(
            "the target's rows are not those of the source ({})",
            stand.target.log().display()
        );
    }
    Ok(())
}

/// `waggle bench` with the workload, at the source.
fn load(stand: &Stand, args: &BenchArgs, more: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    let rows = args.rows.div_ceil(TABLES).max(2).to_string();
    command
        .args(["bench", WORKLOAD])
        .args(more)
        .args(["--json", "--no-record", "--report-interval", "0"])
        .env("WAGGLE_DSN", dsn(&stand.source, "bench"))
        .args(["--threads", &args.threads.to_string()])
        .args(["--time", &args.time.to_string()])
        .args(["--tables", &TABLES.to_string(), "--table-size", &rows]);
    Ok(command)
}

fn result(command: &mut Command) -> anyhow::Result<Value> {
    serde_json::from_slice(&output(command)?).context("the load's document")
}

fn number(document: &Value, name: &str) -> f64 {
    document[name].as_f64().unwrap_or_default()
}

/// A copier that follows; killed when dropped.
struct Copier {
    child: Child,
}

impl Copier {
    fn begin(stand: &Stand, args: &BenchArgs) -> anyhow::Result<Copier> {
        let mut command = copier(stand, args.ranges, "stopped")?;
        let errors = waggle_files::create(&stand.directory.join("copier"))?;
        command.stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().context("starting the copier")?;
        Ok(Copier { child })
    }

    /// Fails when it has ended, or when it takes too long.
    fn check(&mut self, deadline: Instant) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context("the copier")? {
            bail!("the copier ended with {status}");
        }
        if Instant::now() > deadline {
            bail!(
                "the target is not up to date after {} s",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("the copier's process id")?;
        kill_process(pid, Signal::TERM).context("ending the copier")?;
        let status = self.child.wait().context("the copier")?;
        if !status.success() {
            bail!("the copier ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the thread that writes the time, also after an error.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes the time at the source until it is over.
fn beats(stand: &Stand, over: &AtomicBool) -> anyhow::Result<()> {
    let mut source = Connection::connect(&stand.source.dsn_socket())?;
    while !over.load(Ordering::Relaxed) {
        query(
            &mut source,
            &format!("UPDATE bench.beat SET at_us = {}", now_us()),
        )?;
        thread::sleep(BEAT);
    }
    Ok(())
}

/// The newest time that the target has; none before it has the row.
fn beat_us(target: &mut Connection) -> anyhow::Result<Option<u64>> {
    /// No such database or table yet.
    const ABSENT: [u16; 2] = [1049, 1146];
    match target.query_rows(b"SELECT at_us FROM bench.beat") {
        Ok(rows) => {
            let value = rows.first().and_then(|row| row.first()?.as_deref());
            Ok(value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()))
        }
        Err(error) if error.errno().is_some_and(|errno| ABSENT.contains(&errno)) => Ok(None),
        Err(error) => Err(error).context("reading the time at the target"),
    }
}

fn lag_ms(target: &mut Connection) -> anyhow::Result<Option<f64>> {
    let at_us = beat_us(target)?;
    Ok(at_us.map(|at_us| now_us().saturating_sub(at_us) as f64 / 1e3))
}

/// Whether everything was copied and the target follows closely.
fn is_close(target: &mut Connection) -> anyhow::Result<bool> {
    if !lag_ms(target)?.is_some_and(|lag| lag < CLOSE_MS) {
        return Ok(false);
    }
    let left = target.query_rows(b"SELECT 1 FROM waggle_copy.journal WHERE is_done = 0 LIMIT 1")?;
    Ok(left.is_empty())
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

fn by_second(samples: &[(f64, f64)]) -> Vec<f64> {
    let mut worst: Vec<f64> = Vec::new();
    for (at_s, lag) in samples {
        let second = *at_s as usize;
        worst.resize(worst.len().max(second + 1), 0.0);
        worst[second] = worst[second].max(*lag);
    }
    worst
}

impl Lag {
    fn of(mut lags: Vec<f64>) -> Lag {
        lags.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (lags.len() as f64 * share).ceil() as usize;
            lags.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
        };
        Lag {
            samples: lags.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl Replicated {
    /// As text.
    pub(super) fn render(&self) -> String {
        let mut out = format!(
            "{}, {} connections, {} rows: the source by itself {:.0} transactions/s\n",
            self.workload,
            self.threads,
            quantity::count(self.rows),
            self.tps_max
        );
        let _ = writeln!(
            out,
            "followed by a copier at {:.0}/s: {:.0}/s, {} transactions",
            self.tps_asked,
            self.tps,
            quantity::count(self.transactions)
        );
        let _ = writeln!(
            out,
            "lag, ms: p50 {:.0}, p95 {:.0}, p99 {:.0}, max {:.0} ({} samples); all of it there \
             {:.2} s after the load's end",
            self.lag_ms.p50,
            self.lag_ms.p95,
            self.lag_ms.p99,
            self.lag_ms.max,
            self.lag_ms.samples,
            self.caught_up_s
        );
        let _ = writeln!(
            out,
            "CPU for a transaction, us: copier {:.1}, source {:.1}, target {:.1}",
            self.copier_us, self.source_us, self.target_us
        );
        out
    }
}

#[cfg(test)]
mod tests;
