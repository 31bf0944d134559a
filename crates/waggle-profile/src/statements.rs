//! Which statements ended, on which thread, from when to when, and what did they cost?
//!
//! The agent's probe at the end of every statement, with its accounting of each one's CPU time.
//! Neighbour: `join` puts what threads did and what they ran together.
//!
//! Invariant: a statement that was lost, or came without its beginning, is counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use waggle_agent::aggregate::{Aggregate, Clocks, Hearers, SampleSettings, Seen, Settings, Tap};
use waggle_agent::source::uprobe::UprobeSource;
use waggle_agent::source::{Observation, Source};
use waggle_agent::statement::{Origin, ServerId, Text};
use waggle_digest::Fingerprinter;
use waggle_foreign::is_harmful;
use waggle_probes::sched::{self, Doing, SchedProbe};
use waggle_probes::statement::{Options, Program};
use waggle_server::process;

use crate::join::Ended;
use crate::model::Digest;

/// Digests kept apart.
const DIGESTS_MAX: usize = 5000;
/// Longest fingerprint that is shown, bytes.
const FINGERPRINT_BYTES_MAX: usize = 4096;
/// Statements of a routine that are kept apart, of each thread.
const WITHIN_MAX: usize = 1 << 14;
/// Most polls in a row; each takes some 16,000 statements.
const POLLS_MAX: usize = 64;

/// What a thread of a server does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// It waits for a client's statement.
    pub(crate) idle: bool,
    /// Since when it does what it does for its statement, ns; 0 if that is not known.
    pub(crate) since_ns: u64,
}

/// The statements of all servers that are watched.
pub(crate) struct Statements {
    // Dropped in this order: the probes of statements share a map of the scheduler's.
    servers: Vec<Server>,
    sched: SchedProbe,
    heard: Heard,
}

struct Server {
    source: UprobeSource,
    aggregate: Aggregate,
}

impl Statements {
    /// Loads the probes of the servers among these processes; `None` if there is none. What cannot
    /// be had is told to `note`.
    pub(crate) fn load(pids: &[u32], mut note: impl FnMut(String)) -> Option<Self> {
        let servers = pids.iter().filter_map(|pid| process::from_pid(*pid).ok());
        let found: Vec<_> = servers.collect();
        if found.is_empty() {
            note("no digests: none of the processes is a MySQL or MariaDB server".to_owned());
            return None;
        }
        let mut sched = match SchedProbe::load(sched::THREADS_MAX) {
            Ok(sched) => sched,
            Err(error) => {
                note(format!("no digests: {error}"));
                return None;
            }
        };
        let settings = Settings {
            digests_max: DIGESTS_MAX,
            samples: SampleSettings {
                slower: None,
                one_in: 0,
                literals: false,
            },
            ..Settings::default()
        };
        let mut servers = Vec::new();
        for (id, process) in (0..).zip(&found) {
            let loaded = UprobeSource::load(process, &Options::default(), Some(&sched));
            let source = match loaded {
                Ok(source) => source,
                Err(error) => {
                    note(format!("no digests of process {}: {error:#}", process.pid));
                    continue;
                }
            };
            if let Err(error) = sched.watch(process.pid) {
                note(format!("no CPU time of statements: {error}"));
            }
            let aggregate = Aggregate::new((ServerId(id), process.pid), &settings, 1, &[]);
            servers.push(Server { source, aggregate });
        }
        (!servers.is_empty()).then(|| Self {
            servers,
            sched,
            heard: Heard::default(),
        })
    }

    /// Attaches everywhere.
    ///
    /// # Errors
    /// The kernel refuses, or a binary changed.
    pub(crate) fn attach(&mut self) -> anyhow::Result<()> {
        self.sched.attach()?;
        for server in &mut self.servers {
            server.source.attach(Program::Capture)?;
        }
        Ok(())
    }

    /// Detaches everywhere; what is left comes with the next poll.
    pub(crate) fn detach(&mut self) {
        for server in &mut self.servers {
            server.source.detach();
        }
        self.sched.detach();
    }

    /// Takes what has ended since the last call.
    pub(crate) fn poll(&mut self) {
        let Self { servers, heard, .. } = self;
        for server in servers {
            let clocks = Clocks::now();
            for _ in 0..POLLS_MAX {
                let Server { source, aggregate } = server;
                let polled = source.poll(&mut |observation| {
                    heard.note(&observation);
                    let mut hearers = Hearers {
                        tap: Some(&mut *heard),
                        locks: None,
                    };
                    aggregate.observe(observation, clocks, &mut hearers);
                });
                if !matches!(polled, Ok(1..)) {
                    break;
                }
            }
        }
    }

    /// Hands out statements that ended until `until_ns`, in the order they came.
    pub(crate) fn take(&mut self, until_ns: u64, mut each: impl FnMut(&Ended)) {
        // Those of one thread are in order; of several processors' nearly.
        let mut kept = Vec::new();
        for ended in self.heard.ended.drain(..) {
            if ended.end_ns <= until_ns {
                each(&ended);
            } else {
                kept.push(ended);
            }
        }
        self.heard.ended = kept;
    }

    /// What each thread of the servers does now.
    pub(crate) fn threads(&self) -> HashMap<u32, Now> {
        let mut threads = HashMap::new();
        self.sched.each_thread(|thread| {
            let now = Now {
                idle: thread.doing == Doing::Idle,
                since_ns: thread.counted_since_ns(),
            };
            threads.insert(thread.tid, now);
        });
        threads
    }

    /// The digests, by their numbers.
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.heard.digests
    }

    /// What was lost, by cause.
    pub(crate) fn lost(&self) -> &BTreeMap<String, u64> {
        &self.heard.lost
    }
}

/// Statements of a thread that ended within a routine that goes on: when each began, and its CPU
/// time with that of all that it called. Those that another holds are not there any more.
#[derive(Debug, Default)]
struct Within(Vec<(u64, u64)>);

impl Within {
    /// Takes the end of a statement; returns its CPU time without that of the statements that it
    /// called, which have digests of their own.
    fn ended(&mut self, start_ns: u64, cpu_ns: u64) -> u64 {
        let mut called_ns = 0u64;
        while let Some((_, ns)) = self.0.pop_if(|(began_ns, _)| *began_ns >= start_ns) {
            called_ns = called_ns.saturating_add(ns);
        }
        if self.0.len() >= WITHIN_MAX {
            // As if they were one: what began between two of them is told apart no more.
            let older = WITHIN_MAX / 2;
            let sum = self.0.drain(1..older).map(|(_, ns)| ns).sum::<u64>();
            self.0[0].1 = self.0[0].1.saturating_add(sum);
        }
        self.0.push((start_ns, cpu_ns));
        cpu_ns.saturating_sub(called_ns)
    }
}

/// What was heard of statements.
#[derive(Default)]
struct Heard {
    fingerprinter: Fingerprinter,
    numbers: HashMap<u64, u32>,
    digests: Vec<Digest>,
    ended: Vec<Ended>,
    /// By thread: statements within the routine that it is in.
    within: HashMap<u32, Within>,
    lost: BTreeMap<String, u64>,
}

impl Heard {
    fn count(&mut self, cause: String, many: u64) {
        if many > 0 {
            *self.lost.entry(cause).or_default() += many;
        }
    }

    fn note(&mut self, observation: &Observation<'_>) {
        match observation {
            Observation::Lost { cause, count } => {
                self.count(format!("statements lost: {cause}"), *count);
            }
            Observation::Degraded { cause, count } => {
                self.count(format!("statements with less than all: {cause}"), *count);
            }
            _ => {}
        }
    }

    fn number(&mut self, seen: &Seen<'_>) -> u32 {
        if let Some(number) = self.numbers.get(&seen.digest.0) {
            return *number;
        }
        let text = seen.text.as_bytes();
        let fingerprint = match seen.statement.text {
            // It is the fingerprint already.
            _ if seen.redacted => text,
            Text::Whole {
                truncated: true, ..
            } => self.fingerprinter.fingerprint_truncated(text).text,
            _ => self.fingerprinter.fingerprint(text),
        };
        let shown = &fingerprint[..fingerprint.len().min(FINGERPRINT_BYTES_MAX)];
        let shown = String::from_utf8_lossy(shown);
        let plain = |c: char| if is_harmful(c) { ' ' } else { c };
        let number = u32::try_from(self.digests.len()).unwrap_or(u32::MAX);
        self.digests.push(Digest {
            digest: Arc::from(seen.digest.to_string()),
            fingerprint: Arc::from(shown.chars().map(plain).collect::<String>()),
            statements: 0,
            cpu_ns: 0,
        });
        self.numbers.insert(seen.digest.0, number);
        number
    }
}

impl Tap for Heard {
    fn statement(&mut self, seen: &Seen<'_>) {
        let number = self.number(seen);
        let statement = seen.statement;
        let Some(tid) = statement.thread.map(|thread| thread.tid) else {
            return self.count("statements without a thread".to_owned(), 1);
        };
        let within = statement.origin == Some(Origin::Routine);
        let mut cpu_ns = statement.times.map_or(0, |times| times.cpu_ns);
        let latency_ns = statement.latency_ns.unwrap_or(0);
        let start_ns = statement.end_ns.saturating_sub(latency_ns);
        if within {
            cpu_ns = self.within.entry(tid).or_default().ended(start_ns, cpu_ns);
        } else if let Some(mut within) = self.within.remove(&tid) {
            // Nothing is around it: all that is there is within it.
            cpu_ns = within.ended(0, cpu_ns);
        }
        let digest = &mut self.digests[number as usize];
        digest.statements += 1;
        digest.cpu_ns += cpu_ns;
        if statement.latency_ns.is_none() {
            return self.count("statements without a beginning".to_owned(), 1);
        }
        self.ended.push(Ended {
            tid,
            start_ns,
            end_ns: statement.end_ns,
            digest: number,
            within,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_within_routines_counts_once() {
        // A call of 100 ns: a statement of 10, and a call of 60 with two statements of 20 and 30.
        let mut within = Within::default();
        let mut own = Vec::new();
        for (start_ns, cpu_ns) in [(10, 10), (35, 20), (60, 30), (30, 60)] {
            own.push(within.ended(start_ns, cpu_ns));
        }
        own.push(within.ended(0, 100));
        assert_eq!(own, [10, 20, 30, 10, 30]);
        assert_eq!(own.iter().sum::<u64>(), 100);
    }

    #[test]
    fn a_loop_in_a_routine_takes_bounded_memory_and_nothing_is_lost() {
        let mut within = Within::default();
        let many = 3 * WITHIN_MAX as u64;
        for start_ns in 1..=many {
            assert_eq!(within.ended(start_ns, 1), 1);
            assert!(within.0.len() <= WITHIN_MAX);
        }
        assert_eq!(within.ended(0, many + 5), 5);
    }
}
