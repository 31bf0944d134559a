//! The loop: read, report, follow servers as they come and go, until it is time to stop.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::statement::{Program, trap_ns};
use waggle_report::run::{Outcome, RunDir, redact_argv};
use waggle_server::cpu;
use waggle_server::process::{self, ServerProcess};

use super::args::{Plan, Target};
use super::control::{self, Order, Orders};
use super::log::StatementLog;
use super::report::{self, OwnCost};
use super::watched::Watched;
use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};

/// Pause between two looks at the ring buffers: while statements come, and while none do.
const PAUSE_BUSY: Duration = Duration::from_millis(20);
const PAUSE_IDLE: Duration = Duration::from_millis(100);
/// How often new servers are looked for.
const DISCOVERY: Duration = Duration::from_secs(1);
/// How long the kernel's run-time counters are held, once, to learn the program's cost.
const COST_SAMPLE: Duration = Duration::from_millis(200);
/// Statements between two looks that make such a sample worth its while.
const COST_EVENTS_MIN: usize = 10;

/// The watching loop and all it watches.
pub(super) struct Agent {
    plan: Plan,
    out: Output,
    watched: Vec<Watched>,
    /// Servers that cannot be watched, so that each is complained of once.
    refused: BTreeSet<u32>,
    log: Option<StatementLog>,
    trap_ns: Option<f64>,
    program_ns: Option<f64>,
    interrupt: Interrupt,
    started: Instant,
}

impl Agent {
    pub(super) fn new(plan: Plan, out: Output) -> Result<Self, Failure> {
        let interrupt = interrupt::catch()
            .context("catching signals")
            .map_err(Failure::Unusable)?;
        let log = plan
            .log
            .as_ref()
            .map(|path| StatementLog::create(path, plan.slower));
        Ok(Self {
            log: log.transpose().map_err(Failure::Unusable)?,
            plan,
            out,
            watched: Vec::new(),
            refused: BTreeSet::new(),
            trap_ns: None,
            program_ns: None,
            interrupt,
            started: Instant::now(),
        })
    }

    /// Loads the probe of one server; it is attached by [`run`](Self::run).
    pub(super) fn add(&mut self, process: ServerProcess) -> Result<(), Failure> {
        let pid = process.pid;
        match Watched::load(process, &self.plan.probe) {
            Ok(watched) => self.watched.push(watched),
            // One server that cannot be watched must not keep the others from being watched.
            Err(error) if self.plan.target == Target::All => self.refuse(pid, &error),
            Err(error) => return Err(Failure::Unusable(error)),
        }
        Ok(())
    }

    fn refuse(&mut self, pid: u32, error: &anyhow::Error) {
        self.refused.insert(pid);
        eprintln!("{error:#}");
    }

    fn attach(&mut self, index: usize) -> anyhow::Result<()> {
        let watched = &mut self.watched[index];
        if self.trap_ns.is_none() {
            self.trap_ns = trap_ns(watched.probe()).ok();
        }
        if !self.plan.control {
            watched.attach(Program::Capture)?;
        }
        self.announce(&self.watched[index]);
        Ok(())
    }

    fn announce(&self, watched: &Watched) {
        let process = &watched.process;
        let site = watched.fit.site.as_ref().map(|s| {
            let name = &s.function;
            format!(
                "{name}+{:#x}, {} {}",
                s.function_offset, s.instruction, s.trap
            )
        });
        eprintln!(
            "watching {} {}, process {}: {}",
            process.flavour.name(),
            process.version.as_deref().unwrap_or("of unknown version"),
            process.pid,
            site.unwrap_or_default(),
        );
        for (field, why) in watched.missing() {
            eprintln!("  not available: {} ({why})", field.as_str());
        }
    }

    /// Attaches, watches until told to stop, then reports.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        // Before anything is attached: a disk that is full is found while nothing is touched.
        let mut record = self.open_record()?;
        for index in 0..self.watched.len() {
            self.attach(index).map_err(Failure::Unusable)?;
        }
        self.started = Instant::now();
        let result = if self.plan.control {
            self.obey()
        } else {
            self.watch(&mut record)
        };
        for watched in &mut self.watched {
            watched.detach(self.log.as_mut());
        }
        let logged = self.log.as_mut().map_or(Ok(()), |log| {
            log.flush();
            log.check()
        });
        let result = result.and(logged);
        let document = self.document();
        // Whatever failed: what there is, is told first.
        if self.out.json {
            self.out
                .json(&document)
                .context("writing to stdout")
                .map_err(Failure::Ran)?;
        } else if !self.plan.control {
            print!("{}", self.text(None));
        }
        let recorded = record.map_or(Ok(()), |run| finish_record(run, &document, &result));
        result.and(recorded).map_err(Failure::Ran)
    }

    fn open_record(&self) -> Result<Option<RunDir>, Failure> {
        let Some(root) = &self.plan.record else {
            return Ok(None);
        };
        let mut run = RunDir::create(root, "watch", "statements").map_err(Failure::unusable)?;
        let argv: Vec<String> = std::env::args().collect();
        run.record(|facts| facts.command = redact_argv(&argv))
            .map_err(Failure::unusable)?;
        Ok(Some(run))
    }

    fn watch(&mut self, record: &mut Option<RunDir>) -> anyhow::Result<()> {
        let live = std::io::stdout().is_terminal() && !self.out.json;
        let mut next_report = self.started + self.plan.interval;
        let mut next_discovery = self.started + DISCOVERY;
        while !self.is_over() {
            let events: usize = self.drain();
            let now = Instant::now();
            if self.program_ns.is_none() && events >= COST_EVENTS_MIN {
                self.sample_program_cost();
            }
            if now >= next_report {
                self.report(live, record)?;
                next_report = now + self.plan.interval;
            }
            if self.plan.target == Target::All && now >= next_discovery {
                self.discover();
                next_discovery = now + DISCOVERY;
            }
            let pause = if events > 0 { PAUSE_BUSY } else { PAUSE_IDLE };
            let until = self
                .plan
                .duration
                .map(|d| (self.started + d).saturating_duration_since(now));
            self.wait(
                pause
                    .min(until.unwrap_or(pause))
                    .max(Duration::from_millis(1)),
            );
        }
        Ok(())
    }

    /// Reads what every server sent. Returns the number of events.
    fn drain(&mut self) -> usize {
        let Self { watched, log, .. } = self;
        let events = watched.iter_mut().map(|w| w.drain(log.as_mut())).sum();
        if let Some(log) = log {
            log.flush();
        }
        events
    }

    fn is_over(&self) -> bool {
        let over = self
            .plan
            .duration
            .is_some_and(|d| self.started.elapsed() >= d);
        let gone =
            self.plan.target != Target::All && self.watched.iter().all(|w| w.ended.is_some());
        over || gone || self.interrupt.requested()
    }

    /// Waits for `pause`, or until a server ends or a signal comes.
    fn wait(&mut self, pause: Duration) {
        let alive: Vec<usize> = (0..self.watched.len())
            .filter(|i| self.watched[*i].ended.is_none())
            .collect();
        let mut fds: Vec<PollFd<'_>> = alive
            .iter()
            .map(|i| PollFd::new(&self.watched[*i].pidfd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: pause.as_secs().cast_signed(),
            tv_nsec: pause.subsec_nanos().into(),
        };
        if !matches!(poll(&mut fds, Some(&timeout)), Ok(count) if count > 0) {
            return;
        }
        let ended: Vec<usize> = alive
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(i, _)| *i)
            .collect();
        for index in ended {
            let watched = &mut self.watched[index];
            watched.end("the server ended", self.log.as_mut());
            eprintln!(
                "process {}: the server ended; its probe is gone",
                watched.process.pid
            );
        }
    }

    /// Attaches to servers that have come up.
    fn discover(&mut self) {
        let found = process::find_servers();
        self.refused
            .retain(|pid| found.iter().any(|process| process.pid == *pid));
        for process in found {
            let pid = process.pid;
            let known = self
                .watched
                .iter()
                .any(|w| w.process.pid == pid && w.ended.is_none());
            if known || self.refused.contains(&pid) {
                continue;
            }
            let added = Watched::load(process, &self.plan.probe).and_then(|watched| {
                self.watched.push(watched);
                let attached = self.attach(self.watched.len() - 1);
                attached.inspect_err(|_| _ = self.watched.pop())
            });
            if let Err(error) = added {
                self.refuse(pid, &error);
            }
        }
    }

    /// Learns the mean run time of the kernel half from a short sample. The ring buffers are read
    /// meanwhile: they fill as ever.
    fn sample_program_cost(&mut self) {
        let Some(index) = self.watched.iter().position(|w| w.ended.is_none()) else {
            return;
        };
        let Ok(stats) = RunTimeStats::hold() else {
            self.program_ns = Some(0.0);
            return;
        };
        let before = self.watched[index].probe().run_time();
        let until = Instant::now() + COST_SAMPLE;
        while Instant::now() < until && !self.interrupt.requested() {
            self.wait(PAUSE_BUSY);
            self.drain();
        }
        let after = self.watched[index].probe().run_time();
        drop(stats);
        if let (Some((runs0, ns0)), Some((runs1, ns1))) = (before, after)
            && runs1 > runs0 + 50
        {
            self.program_ns = Some((ns1 - ns0) as f64 / (runs1 - runs0) as f64);
        }
    }

    fn cost(&self) -> OwnCost {
        let own = std::process::id();
        OwnCost {
            trap_ns: self.trap_ns,
            program_ns: self.program_ns,
            agent_cpu_ns: cpu::process_cpu_ns(own).unwrap_or(0),
            agent_rss_bytes: cpu::process_rss_bytes(own).unwrap_or(0),
        }
    }

    fn document(&self) -> serde_json::Value {
        report::document(&self.watched, self.started.elapsed(), &self.cost())
    }

    fn text(&self, interval: Option<Duration>) -> String {
        let elapsed = self.started.elapsed();
        report::text(
            &self.watched,
            self.plan.top,
            elapsed,
            interval,
            &self.cost(),
        )
    }

    fn report(&mut self, live: bool, record: &mut Option<RunDir>) -> anyhow::Result<()> {
        if live {
            let text = self.text(Some(self.plan.interval));
            let mut out = std::io::stdout().lock();
            write!(out, "\x1b[H\x1b[2J{text}").and_then(|()| out.flush())?;
        } else {
            for watched in &self.watched {
                eprintln!(
                    "{:8.1} s  process {}: {} captured, {} lost",
                    self.started.elapsed().as_secs_f64(),
                    watched.process.pid,
                    watched.tally.captured,
                    watched.counters().ring_full,
                );
            }
        }
        if let Some(run) = record {
            run.append(&self.document())
                .context("recording; what was recorded so far stays readable")?;
        }
        for watched in &mut self.watched {
            watched.digests.end_interval();
        }
        Ok(())
    }

    /// Carries out orders until `quit`, the end of standard input, or a signal.
    fn obey(&mut self) -> anyhow::Result<()> {
        let mut orders = Orders::default();
        while !self.is_over() && !orders.is_closed() {
            let events: usize = self.drain();
            let pause = if events > 0 { PAUSE_BUSY } else { PAUSE_IDLE };
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: pause.subsec_nanos().into(),
            };
            let mut fds = [PollFd::from_borrowed_fd(orders.fd(), PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&timeout)), Ok(count) if count > 0) {
                self.wait(Duration::from_millis(0));
                continue;
            }
            for order in orders.read().context("reading orders")? {
                if order == Order::Quit {
                    return Ok(());
                }
                let result = self.carry_out(order);
                let mut answer = self.status();
                answer["ok"] = result.is_ok().into();
                answer["error"] = result.err().map(|e| format!("{e:#}")).into();
                control::answer(&answer)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> anyhow::Result<()> {
        for watched in &mut self.watched {
            match order {
                Order::Attach => watched.attach(Program::Capture)?,
                Order::Empty => watched.attach(Program::Empty)?,
                Order::Detach => watched.detach(self.log.as_mut()),
                Order::Status => {
                    watched.drain(self.log.as_mut());
                }
                Order::Quit | Order::Unknown => {
                    return Err(anyhow!("orders are attach, empty, detach, status, quit"));
                }
            }
        }
        Ok(())
    }

    fn status(&self) -> serde_json::Value {
        let cost = self.cost();
        json!({
            "captured": self.watched.iter().map(|w| w.tally.captured).sum::<u64>(),
            "other_commands": self.watched.iter().map(|w| w.tally.other_commands).sum::<u64>(),
            "hits": self.watched.iter().map(|w| w.counters().hits).sum::<u64>(),
            "ring_full": self.watched.iter().map(|w| w.counters().ring_full).sum::<u64>(),
            "agent_cpu_ns": cost.agent_cpu_ns,
            "agent_rss_bytes": cost.agent_rss_bytes,
        })
    }
}

/// Writes the result into the run directory and ends it; what failed before is part of it.
fn finish_record(
    run: RunDir,
    document: &serde_json::Value,
    result: &anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = run.path().to_path_buf();
    let error = result.as_ref().err().map(|error| format!("{error:#}"));
    let outcome = if error.is_none() {
        Outcome::Done
    } else {
        Outcome::Failed
    };
    let written = run.write_result(document).map(drop);
    let finished = run.finish(outcome, error).map(drop);
    written.and(finished)?;
    eprintln!("recorded in {}", path.display());
    Ok(())
}
