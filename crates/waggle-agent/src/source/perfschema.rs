//! PERFORMANCE_SCHEMA, polled: what do the server's own instruments say of its statements?
//!
//! `features` says what the server can do, `reader` asks it on a thread of its own, `digests` turns
//! sums that only grow into what came since the last time, `bars` does the same for histograms.
//! Invariants: nothing on the server is changed, its instruments least of all; the first reading
//! counts nothing; the agent's own statements are marked by a name in them and left out.

mod bars;
mod digests;
mod features;
mod reader;

use std::time::{Duration, Instant};

use waggle_wire::Dsn;

use super::{Abilities, Observation, Source, SourceKind, Summed};
use crate::clock::monotonic_ns;
use crate::sql::{Background, Session};
use crate::statement::{Statement, Text, Work};
use digests::Figures;
use reader::{Answer, DigestText, Reader, Record};

pub use features::PerfschemaError;
pub use reader::Running;

/// Least and longest time between two readings.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// One in so many parts of the time may be spent on reading: the server makes every row anew, with
/// thousands of digests in tens of milliseconds.
const SHARE: u32 = 100;

/// The server's digests, polled.
pub struct PerfschemaSource {
    answers: Background<Answer>,
    asked: Instant,
    interval: Duration,
    place: String,
    missing: Vec<(String, String)>,
    running: Vec<Running>,
    trouble: Option<String>,
    counts_cpu: bool,
    readings: u64,
}

impl PerfschemaSource {
    /// Connects and sees what this server's PERFORMANCE_SCHEMA can do.
    ///
    /// # Errors
    /// [`PerfschemaError`]: it is off, may not be read, or does not answer.
    pub fn open(dsn: &Dsn) -> Result<Self, PerfschemaError> {
        let mut reader = Reader::open(Session::new(dsn.clone()))?;
        let features = reader.features();
        let (missing, counts_cpu) = (features.missing(), features.counts_cpu);
        let answers = Background::start("waggle-perfschema", move || reader.read());
        let mut source = Self {
            answers: answers.map_err(PerfschemaError::Thread)?,
            asked: Instant::now(),
            interval: INTERVAL.0,
            place: format!("performance_schema of {}", dsn.endpoint),
            missing,
            running: Vec::new(),
            trouble: None,
            counts_cpu,
            readings: 0,
        };
        source.answers.ask();
        Ok(source)
    }

    /// Statements that were being carried out at the last reading.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// How many readings there were; counting begins with the first.
    pub fn readings(&self) -> u64 {
        self.readings
    }

    /// Why the last reading failed; it is tried again.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl Source for PerfschemaSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Perfschema
    }

    fn abilities(&self) -> Abilities {
        let mut missing: Vec<(String, String)> = [
            ("user", "sums are by digest and database"),
            ("host", "sums are by digest and database"),
            ("connection_id", "sums are by digest and database"),
            ("times", "only CPU time is counted, and only if asked for"),
            ("switches", "not counted"),
            ("storage_bytes", "not counted"),
            ("network_bytes", "not counted"),
            ("in_transaction", "not counted"),
            (
                "statements",
                "those between the last reading and a restart of the server or a TRUNCATE of its \
                 tables are not seen; the agent's own are left out (their digests name waggle_own)",
            ),
        ]
        .map(|(field, why)| (field.to_owned(), why.to_owned()))
        .into();
        missing.extend(self.missing.iter().cloned());
        Abilities {
            missing,
            place: self.place.clone(),
            ..Abilities::default()
        }
    }

    fn poll(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let mut count = 0;
        match self.answers.answer() {
            Some(Answer::Read {
                records,
                running,
                took,
            }) => {
                self.interval = (took * SHARE).clamp(INTERVAL.0, INTERVAL.1);
                let end_ns = monotonic_ns();
                for record in &records {
                    each(Observation::Summed(summed(record, end_ns, self.counts_cpu)));
                    count += 1;
                }
                self.running = running;
                self.trouble = None;
                self.readings += 1;
            }
            Some(Answer::Failed(why)) => {
                self.running.clear();
                self.trouble = Some(why);
            }
            None => {}
        }
        if !self.answers.is_asked() && self.asked.elapsed() >= self.interval {
            self.asked = Instant::now();
            anyhow::ensure!(
                self.answers.ask(),
                "the thread that reads {} is gone",
                self.place
            );
        }
        Ok(count)
    }
}

/// What came since the last reading, as an observation.
fn summed(record: &Record, end_ns: u64, counts_cpu: bool) -> Summed<'_> {
    let Figures(figures) = record.delta;
    let [
        count,
        timer,
        lock,
        errors,
        warnings,
        sent,
        examined,
        affected,
        rest @ ..,
    ] = figures;
    let [tmp, tmp_disk, scans, joins, cpu] = rest;
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    // The server counts in picoseconds.
    let ns = |ps: u64| ps / 1000;
    Summed {
        statement: Statement {
            end_ns,
            latency_ns: None,
            connection_id: None,
            thread: None,
            user: b"",
            host: b"",
            database: &record.database,
            text: match &record.text {
                DigestText::Sample { sql, truncated } => Text::Whole {
                    sql,
                    truncated: *truncated,
                },
                DigestText::Normalised(text) => Text::Normalised(text),
                DigestText::Unknown => Text::Unknown,
            },
            command: None,
            origin: None,
            times: None,
            work: Work {
                warnings: Some(small(warnings)),
                tmp_tables: Some((small(tmp), small(tmp_disk))),
                full_scans: Some((small(scans), small(joins))),
                ..Work::default()
            },
        },
        count,
        errors,
        latency_ns: ns(timer),
        bars: record.bars.clone(),
        max_ns: ns(record.max_ps),
        cpu_ns: counts_cpu.then(|| ns(cpu)),
        lock_ns: Some(ns(lock)),
        rows: [Some(sent), Some(examined), Some(affected)],
    }
}
