//! One server under watch: its probe, its ring buffer, and what was read from it.

use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use waggle_probes::statement::{
    Counters, Events, Fit, Options, Program, StatementEvent, StatementProbe,
};
use waggle_server::process::ServerProcess;
use waggle_symbols::FieldName;

use super::digests::{Digests, Statement};
use super::log::StatementLog;
use super::trust::{Clocks, Trust};

/// Protocol commands that servers do not count as statements (`Questions`).
const NOT_STATEMENTS: [u32; 7] = [
    1,  // COM_QUIT
    9,  // COM_STATISTICS
    14, // COM_PING
    22, // COM_STMT_PREPARE
    24, // COM_STMT_SEND_LONG_DATA
    25, // COM_STMT_CLOSE
    26, // COM_STMT_RESET
];

/// Most events taken from the ring buffer before the clocks are read again.
const BATCH: usize = 4096;

/// What was counted of one server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Statements captured.
    pub(super) captured: u64,
    /// Ends of other commands (prepare, close, ping, quit): seen, not statements.
    pub(super) other_commands: u64,
    /// Captured, but text cut at the limit.
    pub(super) text_truncated: u64,
    /// Captured, but some field's memory could not be read.
    pub(super) fields_unread: u64,
    /// Captured, but its latency could not be told.
    pub(super) latency_unknown: u64,
}

/// A server and its probe.
pub(super) struct Watched {
    pub(super) process: ServerProcess,
    pub(super) fit: Fit,
    pub(super) trust: Trust,
    pub(super) digests: Digests,
    pub(super) tally: Tally,
    pub(super) pidfd: OwnedFd,
    /// Why it is watched no more.
    pub(super) ended: Option<&'static str>,
    probe: StatementProbe,
    events: Events,
    counters_at_end: Option<Counters>,
}

impl Watched {
    /// Loads the probe for `process`; it is attached by [`attach`](Self::attach).
    pub(super) fn load(process: ServerProcess, options: &Options) -> anyhow::Result<Self> {
        let name = format!("{} (process {})", process.exe.display(), process.pid);
        let pid = Pid::from_raw(process.pid.cast_signed()).context("process id 0")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .with_context(|| format!("cannot follow {name}"))?;
        let fit = Fit::of(&process.exe_file()).with_context(|| format!("cannot watch {name}"))?;
        let site = match &fit.site {
            Ok(site) => site,
            Err(reason) => anyhow::bail!(
                "cannot watch {name}: {reason}; `waggle doctor` shows what this build offers"
            ),
        };
        let probe = StatementProbe::load(&fit.layout, site, options)
            .with_context(|| format!("cannot watch {name}"))?;
        let events = probe
            .events()
            .with_context(|| format!("cannot watch {name}"))?;
        Ok(Self {
            trust: Trust::new(fit.layout.start_clock),
            digests: Digests::default(),
            tally: Tally::default(),
            ended: None,
            counters_at_end: None,
            process,
            fit,
            pidfd,
            probe,
            events,
        })
    }

    /// Places `program` in the server.
    pub(super) fn attach(&mut self, program: Program) -> anyhow::Result<()> {
        let pid = self.process.pid.cast_signed();
        self.probe
            .attach(pid, &self.process.exe_file(), program)
            .with_context(|| format!("attaching to process {pid}"))
    }

    /// Removes the probe and reads what is left in the ring buffer.
    pub(super) fn detach(&mut self, log: Option<&mut StatementLog>) {
        self.probe.detach();
        self.drain(log);
    }

    /// The server is gone: what it sent is read, the probe removed.
    pub(super) fn end(&mut self, why: &'static str, log: Option<&mut StatementLog>) {
        self.detach(log);
        self.counters_at_end = self.probe.counters().ok();
        self.ended = Some(why);
    }

    /// Reads every event there is. Returns how many.
    pub(super) fn drain(&mut self, mut log: Option<&mut StatementLog>) -> usize {
        let mut total = 0;
        let pid = self.process.pid;
        loop {
            let clocks = Clocks::now();
            let Self {
                events,
                trust,
                digests,
                tally,
                ..
            } = self;
            let count = events.consume(BATCH, |event| {
                let log = log.as_deref_mut().map(|log| (log, pid));
                understand(&event, trust, digests, tally, clocks, log);
            });
            total += count;
            if count < BATCH {
                return total;
            }
        }
    }

    /// Hits and losses in the kernel half.
    pub(super) fn counters(&self) -> Counters {
        self.counters_at_end
            .or_else(|| self.probe.counters().ok())
            .unwrap_or_default()
    }

    pub(super) fn probe(&mut self) -> &mut StatementProbe {
        &mut self.probe
    }

    /// Fields that are not reported, each with its reason.
    pub(super) fn missing(&self) -> Vec<(FieldName, String)> {
        let unknown = self
            .fit
            .layout
            .missing()
            .map(|(field, why)| (field, why.to_owned()));
        unknown.chain(self.trust.withdrawn()).collect()
    }
}

/// Counts one event.
fn understand(
    event: &StatementEvent<'_>,
    trust: &mut Trust,
    digests: &mut Digests,
    tally: &mut Tally,
    clocks: Clocks,
    log: Option<(&mut StatementLog, u32)>,
) {
    trust.check(event, clocks);
    let other = NOT_STATEMENTS.contains(&event.command()) && trust.holds(FieldName::Command);
    if other {
        tally.other_commands += 1;
        return;
    }
    tally.captured += 1;
    tally.text_truncated += u64::from(event.is_truncated() && !event.is_unread(FieldName::Query));
    tally.fields_unread += u64::from(event.has_unread());
    let latency_ns = trust.latency_ns(event, clocks);
    tally.latency_unknown += u64::from(latency_ns.is_none());
    let held = |field, value: u64| if trust.holds(field) { value } else { 0 };
    let statement = Statement {
        text: event.text(),
        truncated: event.is_truncated(),
        user: event.user(),
        database: event.database(),
        connection_id: event.connection_id(),
        latency_ns,
        rows_sent: held(FieldName::RowsSent, event.rows_sent()),
        rows_examined: held(FieldName::RowsExamined, event.rows_examined()),
        error_number: u32::try_from(held(FieldName::ErrorNumber, event.error_number().into()))
            .unwrap_or(u32::MAX),
    };
    let digest = digests.record(&statement);
    if let (Some((log, pid)), Some(digest)) = (log, digest) {
        let time_us = clocks.realtime_us(event.time_ns());
        log.write(pid, time_us, digest.id, &digest.fingerprint, &statement);
    }
}
