//! PERFORMANCE_SCHEMA, polled: what do the server's own instruments say of its statements?
//!
//! `features` says what the server can do, `reader` asks it on a thread of its own, `digests` turns
//! sums that only grow into what came since the last time, `bars` does the same for histograms.
//! Invariants: nothing on the server is changed, its instruments least of all; the first reading is
//! taken before a source is there, and counts nothing; every reading after it is yielded, in order;
//! the agent's own statements are marked by a name in them and counted apart.

mod bars;
mod digests;
mod features;
mod reader;

use std::time::{Duration, Instant};

use waggle_wire::Dsn;

use super::{Abilities, Observation, Source, SourceKind, Summed};
use crate::sql::{Access, Background, Session};
use crate::statement::{Statement, Text, Work};
use digests::Figures;
use reader::{Answer, DigestText, Reader, Record};
use waggle_probes::clock::now_ns;

pub use features::PerfschemaError;
pub use reader::Running;

/// Least and longest time between two readings.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// One in so many parts of the time may be spent on reading: the server makes every row anew, with
/// thousands of digests in tens of milliseconds.
const SHARE: u32 = 100;
/// How long the end waits for the reading that is under way and for the last one, together.
const LAST_READINGS: Duration = Duration::from_secs(4);

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
    /// Connects, sees what this server's PERFORMANCE_SCHEMA can do, and takes the first reading:
    /// what ends after this returns is counted.
    ///
    /// # Errors
    /// [`PerfschemaError`]: it is off, may not be read, or does not answer.
    pub fn open(dsn: &Dsn) -> Result<Self, PerfschemaError> {
        let access = Access::from(dsn.clone());
        let task = access.task();
        let mut reader = Reader::open(Session::new(access))?;
        let features = reader.features();
        let (missing, counts_cpu) = (features.missing(), features.counts_cpu);
        let first = reader.read();
        let answers = Background::start("waggle-perfschema", task, move || reader.read());
        let answers = answers.map_err(PerfschemaError::Thread)?;
        let mut source = Self {
            answers,
            asked: Instant::now(),
            interval: INTERVAL.0,
            place: format!("performance_schema of {}", dsn.endpoint),
            missing,
            running: Vec::new(),
            trouble: None,
            counts_cpu,
            readings: 0,
        };
        source.take(first, &mut |_| ());
        match source.trouble.take() {
            Some(why) => Err(PerfschemaError::Server(why)),
            None => Ok(source),
        }
    }

    /// Statements that were being carried out at the last reading.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// How many readings there were, the first among them, which counts nothing.
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
                 tables are not seen; the agent's own are counted apart: those whose digests name \
                 waggle_own, and all that ask for the state of replication",
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
        let answer = self.answers.answer();
        let count = answer.map_or(0, |answer| self.take(answer, each));
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

    /// A last reading: what ran since the one before it is counted, too.
    fn finish(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        Ok(self.finish_within(LAST_READINGS, each))
    }
}

impl PerfschemaSource {
    /// Yields all readings that are to come. That the last is missing is told: what ran since the
    /// one before it is not counted.
    fn finish_within(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Observation<'_>),
    ) -> usize {
        let (answers, has_last) = self.answers.last_answers(patience);
        let mut count = 0;
        for answer in answers {
            count += self.take(answer, each);
        }
        if !has_last || self.trouble.is_some() {
            each(Observation::Degraded {
                cause: "last_reading_missing",
                count: 1,
            });
        }
        count
    }

    /// Yields what a reading brought; returns how many observations.
    fn take(&mut self, answer: Answer, each: &mut dyn FnMut(Observation<'_>)) -> usize {
        let (records, running, own, took) = match answer {
            Answer::Read {
                records,
                running,
                own,
                took,
            } => (records, running, own, took),
            Answer::Failed(why) => {
                self.running.clear();
                self.trouble = Some(why);
                return 0;
            }
        };
        self.interval = (took * SHARE).clamp(INTERVAL.0, INTERVAL.1);
        let end_ns = now_ns();
        for record in &records {
            each(Observation::Summed(summed(record, end_ns, self.counts_cpu)));
        }
        if own > 0 {
            each(Observation::Own(own));
        }
        self.running = running;
        self.trouble = None;
        self.readings += 1;
        records.len()
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
            work: Work::default(),
        },
        count,
        errors,
        latency_ns: ns(timer),
        bars: record.bars.clone(),
        max_ns: ns(record.max_ps),
        cpu_ns: counts_cpu.then(|| ns(cpu)),
        lock_ns: Some(ns(lock)),
        rows: [Some(sent), Some(examined), Some(affected)],
        warnings: Some(warnings),
        tmp_tables: Some((tmp, tmp_disk)),
        full_scans: Some((scans, joins)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::rights::Task;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A source whose readings each bring one more of the agent's own than the one before; it reads
    /// when it is let.
    fn source() -> (PerfschemaSource, Sender<bool>) {
        let (let_read, may_read): (_, Receiver<bool>) = channel();
        let mut own = 0;
        let answers = Background::start("test", Task::Deliver, move || {
            own += 1;
            match may_read.recv() {
                Ok(true) => Answer::Read {
                    records: Vec::new(),
                    running: Vec::new(),
                    own,
                    took: Duration::ZERO,
                },
                _ => Answer::Failed("gone".to_owned()),
            }
        });
        let source = PerfschemaSource {
            answers: answers.expect("a thread"),
            asked: Instant::now(),
            interval: INTERVAL.0,
            place: String::new(),
            missing: Vec::new(),
            running: Vec::new(),
            trouble: None,
            counts_cpu: false,
            readings: 1,
        };
        (source, let_read)
    }

    /// What the end yields: the agent's own of each reading, and how often the last was missing.
    fn end(source: &mut PerfschemaSource, patience: Duration) -> (Vec<u64>, u64) {
        let (mut own, mut missing) = (Vec::new(), 0);
        source.finish_within(patience, &mut |observation| match observation {
            Observation::Own(count) => own.push(count),
            Observation::Degraded { count, .. } => missing += count,
            other => panic!("{other:?}"),
        });
        (own, missing)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_reading_under_way_at_the_end_is_yielded_before_the_last() {
        let (mut source, let_read) = source();
        assert!(source.answers.ask());
        (0..2).for_each(|_| let_read.send(true).expect("it reads"));
        assert_eq!(end(&mut source, PATIENCE), (vec![1, 2], 0));
    }

    #[test]
    fn a_last_reading_that_does_not_come_or_fails_is_told() {
        let (mut source, let_read) = source();
        assert_eq!(end(&mut source, Duration::ZERO), (vec![], 1));
        // The one under way comes after all, the last fails.
        let_read.send(true).expect("it reads");
        let_read.send(false).expect("it fails");
        assert_eq!(end(&mut source, PATIENCE), (vec![1], 1));
    }
}
