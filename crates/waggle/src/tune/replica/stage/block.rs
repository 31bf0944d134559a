//! What a block does with a primary and its replica.
//!
//! It has three parts, and each says another thing:
//!
//! 1. *live*: the load runs, the replica applies. Its rate is at most the primary's; what is told
//!    is whether it keeps up, and the lag.
//! 2. *record*: the applier stands, the load runs, until the replica holds a backlog of a size that
//!    is the same in all blocks.
//! 3. *drain*: the load stands, and the replica applies the backlog. This rate is what is ranked:
//!    the capacity of the replica, which nothing on this host takes from it.
//!
//! Neighbours: `meter` makes rates of the readings; [`Stage`] says how things stand before a block
//! and after it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde_json::json;
use waggle_load::LoadState;
use waggle_server::cpu;
use waggle_server::topology::{Link, Part, Position};

use super::{DRAIN_PATIENCE, PAUSE_PATIENCE, Stage, TooSlow, pause};
use crate::interrupt;
use crate::tune::replica::meter::{Track, lags_s};
use crate::tune::subject::BlockValue;

/// How long recording a backlog may take.
const RECORD_PATIENCE: Duration = Duration::from_secs(60);
/// How often positions are read while something is measured.
const READ_EVERY: Duration = Duration::from_millis(25);
/// Readings of a live part, at least.
const READINGS_LEAST: u32 = 3;
/// How often while a backlog is recorded: it is the same to within what is written meanwhile.
const RECORD_LOOK: Duration = Duration::from_millis(5);
/// Of a drain, the beginning (threads start) and the end (some are done) that do not count.
const EDGE_SHARE: f64 = 0.05;
/// The live part of a block, as a share of its length.
const LIVE_SHARE: f64 = 0.3;
/// What the first block records in this share of its length is the backlog of all; draining it is
/// most of the rest.
const RECORD_SHARE: f64 = 0.25;
/// Least backlog: below it, starting the workers would be what is measured.
const BACKLOG_LEAST: u64 = 200;

impl Stage {
    /// One block of about so many seconds, its three parts together.
    pub(in crate::tune::replica) fn block(&mut self, seconds: f64) -> anyhow::Result<BlockValue> {
        let errors_before = self.load()?.counters().errors;
        let begin = Instant::now();
        let live = self.live(seconds * LIVE_SHARE)?;
        let recorded = self.record(seconds * RECORD_SHARE)?;
        let loaded_s = begin.elapsed().as_secs_f64();
        let errors = self.load()?.counters().errors.saturating_sub(errors_before);
        let drained = self.drain(&recorded.target)?;
        self.discard_logs()?;
        let mut guards = BTreeMap::from([
            ("errors".to_owned(), errors as f64 / loaded_s),
            ("replica-lag".to_owned(), live.lag_s),
        ]);
        if let Some(p99_us) = live.p99_us {
            guards.insert("p99".to_owned(), p99_us);
        }
        let pid = self.replica()?.sandbox().pid();
        if let Ok(bytes) = cpu::process_rss_bytes(pid) {
            guards.insert("memory".to_owned(), bytes as f64);
        }
        Ok(BlockValue {
            objective: drained.per_s,
            unit: self.setup.objective.unit(),
            guards,
            seconds: drained.seconds,
            details: json!({
                "drain": {
                    "transactions": drained.transactions,
                    "seconds": drained.seconds,
                    "replica_cpu_us_per_transaction": drained.cpu_us_per_transaction,
                },
                "live": {
                    "seconds": live.seconds,
                    "primary_tps": live.primary_per_s,
                    "replica_tps": live.replica_per_s,
                    "replica_lag_s": live.lag_s,
                    "replica_lag_max_s": live.lag_max_s,
                    "transactions_behind": live.behind,
                    "p99_us": live.p99_us,
                },
                "record": {
                    "transactions": recorded.transactions,
                    "seconds": recorded.seconds,
                },
            }),
        })
    }

    /// The load runs and the replica applies.
    fn live(&mut self, seconds: f64) -> anyhow::Result<Live> {
        let warm_up = self.setup.warm_up;
        let (primary, replica, load) = self.parts()?;
        let zero = primary.written()?;
        let mut tracks = (Track::default(), Track::default());
        replica.start(Part::Applier)?;
        let begin = Instant::now();
        load.resume();
        let window = (warm_up, warm_up + Duration::from_secs_f64(seconds));
        let mut readings = 0;
        // On a host that is very busy two readings may take longer than the window.
        while begin.elapsed() < window.1 || readings < READINGS_LEAST {
            if begin.elapsed() >= window.0 {
                if readings == 0 {
                    drop(load.take_latency());
                }
                readings += 1;
            }
            read_both(primary, replica, &zero, begin, &mut tracks)?;
            thread::sleep(READ_EVERY);
        }
        let latency = load.take_latency();
        pause(load)?;
        let from_s = window.0.as_secs_f64();
        let slope = |track: &Track| {
            let slope = track.rate(from_s, u64::MAX);
            slope.ok_or_else(|| anyhow!("the live part of a block was too short to be measured"))
        };
        let (written, applied) = (slope(&tracks.0)?, slope(&tracks.1)?);
        let lags = lags_s(&tracks.0, &tracks.1);
        Ok(Live {
            seconds: written.seconds,
            primary_per_s: written.per_s(),
            replica_per_s: applied.per_s(),
            lag_s: lags.last().copied().unwrap_or(0.0),
            lag_max_s: lags.iter().copied().fold(0.0, f64::max),
            behind: tracks.0.last().saturating_sub(tracks.1.last()),
            p99_us: (!latency.is_empty()).then(|| latency.quantile_us(0.99)),
        })
    }

    /// The applier stands and the load runs, until there is enough to apply: what the first block
    /// recorded in `seconds` is the size for all.
    fn record(&mut self, seconds: f64) -> anyhow::Result<Recorded> {
        let wanted = self.backlog;
        let (primary, replica, load) = self.parts()?;
        replica.stop(Part::Applier)?;
        let applied = replica.applied()?;
        let begin = Instant::now();
        load.resume();
        let is_enough = |count: u64| match wanted {
            Some(wanted) => count >= wanted,
            None => begin.elapsed().as_secs_f64() >= seconds && count >= BACKLOG_LEAST,
        };
        let mut count = counted(&primary.written()?, &applied)?;
        while !is_enough(count) {
            if begin.elapsed() > RECORD_PATIENCE || load.state() != LoadState::Active {
                let _ = interrupt::hold(load, PAUSE_PATIENCE);
                let seconds = begin.elapsed().as_secs_f64();
                let words = format!("the load wrote only {count} transactions in {seconds:.1} s");
                return Err(TooSlow(words).into());
            }
            thread::sleep(RECORD_LOOK);
            count = counted(&primary.written()?, &applied)?;
        }
        pause(load)?;
        let seconds = begin.elapsed().as_secs_f64();
        let target = primary.written()?;
        replica.wait_received(&target, DRAIN_PATIENCE)?;
        let transactions = counted(&target, &applied)?;
        self.backlog.get_or_insert(transactions);
        Ok(Recorded {
            target,
            transactions,
            seconds,
        })
    }

    /// The load stands and the replica applies its backlog.
    fn drain(&mut self, target: &Position) -> anyhow::Result<Drained> {
        let pid = self.replica()?.sandbox().pid();
        let (_, replica, _) = self.parts()?;
        let before = replica.applied()?;
        let all = counted(target, &before)?;
        let cpu_before = cpu::process_cpu_ns(pid).context("reading the replica's CPU clock")?;
        let mut track = Track::default();
        let begin = Instant::now();
        replica.start(Part::Applier)?;
        loop {
            let sent = Instant::now();
            let now = replica.applied()?;
            let count = counted(&now, &before)?;
            track.push(middle_s(begin, sent), count);
            if count >= all {
                break;
            }
            if begin.elapsed() > DRAIN_PATIENCE {
                // Says what is missing, and why.
                replica.wait_applied(target, Duration::ZERO)?;
            }
            replica.check_applying()?;
            thread::sleep(READ_EVERY);
        }
        let whole_s = begin.elapsed().as_secs_f64();
        let cpu_ns = cpu::process_cpu_ns(pid)?.saturating_sub(cpu_before);
        replica.stop(Part::Applier)?;
        let edge = (all as f64 * EDGE_SHARE) as u64;
        // A backlog that was gone before it was looked at twice is judged by the whole of it.
        let slope = track.rate(whole_s * EDGE_SHARE, all - edge);
        let (seconds, transactions) = match slope {
            Some(slope) if slope.transactions > all / 2 => (slope.seconds, slope.transactions),
            _ => (whole_s, all),
        };
        Ok(Drained {
            per_s: transactions as f64 / seconds,
            seconds,
            transactions,
            cpu_us_per_transaction: cpu_ns as f64 / 1e3 / all.max(1) as f64,
        })
    }

    /// Removes the binary logs that the replica has read, or a study would fill the disk.
    fn discard_logs(&mut self) -> anyhow::Result<()> {
        let (primary, replica, _) = self.parts()?;
        for end in [primary, replica] {
            end.run("PURGE BINARY LOGS BEFORE NOW()", "remove old binary logs")?;
        }
        Ok(())
    }
}

struct Live {
    seconds: f64,
    primary_per_s: f64,
    replica_per_s: f64,
    /// At the end of the part.
    lag_s: f64,
    lag_max_s: f64,
    /// Transactions that the replica lacked at the end.
    behind: u64,
    /// Of the primary's transactions, as the load saw them.
    p99_us: Option<f64>,
}

struct Recorded {
    target: Position,
    transactions: u64,
    seconds: f64,
}

struct Drained {
    per_s: f64,
    seconds: f64,
    transactions: u64,
    cpu_us_per_transaction: f64,
}

fn counted(now: &Position, before: &Position) -> anyhow::Result<u64> {
    now.since(before)
        .ok_or_else(|| anyhow!("transactions cannot be counted from {before} to {now}"))
}

/// When a reading was made: in the middle of asking for it.
fn middle_s(begin: Instant, sent: Instant) -> f64 {
    (sent - begin).as_secs_f64() + sent.elapsed().as_secs_f64() / 2.0
}

fn read_both(
    primary: &mut Link,
    replica: &mut Link,
    zero: &Position,
    begin: Instant,
    tracks: &mut (Track, Track),
) -> anyhow::Result<()> {
    // The replica first: what it has applied then, the primary has written by its own reading.
    let sent = Instant::now();
    let applied = replica.applied()?;
    tracks
        .1
        .push(middle_s(begin, sent), counted(&applied, zero)?);
    let sent = Instant::now();
    let written = primary.written()?;
    tracks
        .0
        .push(middle_s(begin, sent), counted(&written, zero)?);
    replica.check_applying()?;
    Ok(())
}
