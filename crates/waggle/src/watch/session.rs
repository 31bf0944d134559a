//! One run of the verb: the agent's turns, what is shown and recorded meanwhile, and the end.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use waggle_agent::agent::Agent;
use waggle_agent::aggregate::Tap;
use waggle_agent::view::View;
use waggle_probes::statement::Program;

use super::args::{Plan, Target};
use super::burn::Burner;
use super::control::{self, Order, Orders};
use super::log::StatementLog;
use super::present::{Lines, Presenter};
use super::record::Record;
use super::report;
use super::screen::Screen;
use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};

/// A look at the ring buffers that brought fewer events has emptied them.
const DRAIN_ON: usize = 4096;
/// How long sinks may take to deliver what is left.
const CLOSE: Duration = Duration::from_secs(5);
/// The same after a signal; what is left then stays in the spool.
const CLOSE_AT_ONCE: Duration = Duration::from_millis(700);

/// A run.
pub(super) struct Session {
    plan: Plan,
    out: Output,
    agent: Agent,
    log: Option<StatementLog>,
    record: Option<Record>,
    burner: Option<Burner>,
    interrupt: Interrupt,
    started: Instant,
    latest: Arc<View>,
}

impl Session {
    /// Opens what is written to; nothing is attached yet.
    pub(super) fn new(plan: Plan, out: Output, mut agent: Agent) -> Result<Self, Failure> {
        let interrupt = interrupt::catch()
            .context("catching signals")
            .map_err(Failure::Unusable)?;
        let log = plan
            .log
            .as_ref()
            .map(|path| StatementLog::create(path, plan.slower))
            .transpose()
            .map_err(Failure::Unusable)?;
        // Before anything is attached: a disk that is full is found while nothing is touched.
        let record = plan.record.as_ref().map(|root| Record::open(root));
        let record = record.transpose().map_err(Failure::Unusable)?;
        if let Some(record) = &record {
            let sink = record.sink().map_err(Failure::Unusable)?;
            let added = agent.add_sink(Box::new(sink));
            added.map_err(Failure::unusable)?;
        }
        Ok(Self {
            record,
            burner: None,
            log,
            plan,
            out,
            agent,
            interrupt,
            started: Instant::now(),
            latest: Arc::default(),
        })
    }

    /// Attaches, watches until told to stop, then reports.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        let begun = self.agent.begin();
        self.tell();
        begun.map_err(Failure::Unusable)?;
        self.started = Instant::now();
        let result = if self.plan.control {
            self.obey()
        } else {
            self.watch()
        };
        let elapsed = self.started.elapsed();
        let within = match self.interrupt.requested() {
            true => CLOSE_AT_ONCE,
            false => CLOSE,
        };
        let view = self.agent.close(within, tap(&mut self.log));
        self.tell();
        let logged = self.log.as_mut().map_or(Ok(()), |log| {
            log.flush();
            log.check()
        });
        let result = result.and(logged);
        let document = report::document(&view, elapsed);
        // Whatever failed: what there is, is told first.
        if self.out.json {
            self.out
                .json(&document)
                .context("writing to stdout")
                .map_err(Failure::Ran)?;
        } else if !self.plan.control {
            print!("{}", report::text(&view, None, self.plan.top, elapsed));
        }
        let recorded = self
            .record
            .map_or(Ok(()), |record| record.finish(&document, &result));
        result.and(recorded).map_err(Failure::Ran)
    }

    /// Says on standard error what happened.
    fn tell(&mut self) {
        for news in self.agent.take_news() {
            eprintln!("{news}");
        }
    }

    fn watch(&mut self) -> anyhow::Result<()> {
        let live = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        let mut presenter: Box<dyn Presenter> = if live && !self.out.json {
            Box::new(Screen::open(self.plan.interval)?)
        } else {
            Box::new(Lines)
        };
        let keys = presenter.takes_keys().then(rustix::stdio::stdin);
        let mut is_first = true;
        while !self.is_over() {
            let turn = self.agent.turn(tap(&mut self.log));
            // The servers that run are attached to now. What was started here has to be cleaned up.
            let keep_rights = matches!(self.plan.target, Target::Sandbox(_));
            if std::mem::take(&mut is_first) {
                self.agent.settle(keep_rights);
            }
            for news in self.agent.take_news() {
                presenter.news(&news.to_string());
            }
            if let Some(log) = &mut self.log {
                log.flush();
            }
            if let Some(view) = turn.view {
                self.show(view, &mut *presenter)?;
            }
            let pause = Agent::pause(turn.events).min(self.left());
            let pause = pause.max(Duration::from_millis(1));
            let pressed = self.agent.wait(pause, keys, tap(&mut self.log));
            if pressed && !presenter.keys()? {
                break;
            }
        }
        Ok(())
    }

    fn show(&mut self, view: Arc<View>, presenter: &mut dyn Presenter) -> anyhow::Result<()> {
        let elapsed = self.started.elapsed();
        presenter.show(&view, &self.latest, elapsed)?;
        if let Some(record) = &mut self.record {
            record.append(&report::document(&view, elapsed))?;
        }
        self.latest = view;
        Ok(())
    }

    /// Time left of `--duration`.
    fn left(&self) -> Duration {
        let elapsed = self.started.elapsed();
        let duration = self.plan.duration.unwrap_or(Duration::MAX);
        duration.saturating_sub(elapsed)
    }

    fn is_over(&self) -> bool {
        self.left().is_zero() || self.agent.is_over() || self.interrupt.requested()
    }

    /// Carries out orders until `quit`, the end of standard input, or a signal.
    fn obey(&mut self) -> anyhow::Result<()> {
        let mut orders = Orders::default();
        while !self.is_over() && !orders.is_closed() {
            let events = self.agent.drain(tap(&mut self.log));
            let pause = Agent::pause(events);
            let ordered = self
                .agent
                .wait(pause, Some(orders.fd()), tap(&mut self.log));
            self.tell();
            if !ordered {
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
        match order {
            Order::Attach => self.agent.attach(Program::Capture)?,
            Order::Empty => self.agent.attach(Program::Empty)?,
            Order::Burn(burn) => self.burner()?.attach(burn)?,
            Order::CountRuns(on) => self.burner()?.count_runs(on)?,
            Order::Detach => {
                self.agent.detach(tap(&mut self.log));
                if let Some(burner) = &mut self.burner {
                    burner.detach();
                }
            }
            Order::Status => {}
            Order::Quit | Order::Unknown => anyhow::bail!(
                "orders are attach, empty, burn NS, burn nothing, runs on, runs off, detach, \
                 status, quit"
            ),
        }
        // The counters in the answer are those of this moment.
        while self.agent.drain(tap(&mut self.log)) >= DRAIN_ON {}
        Ok(())
    }

    fn burner(&mut self) -> anyhow::Result<&mut Burner> {
        if self.burner.is_none() {
            self.burner = Some(Burner::load(&self.plan.target)?);
        }
        Ok(self.burner.as_mut().expect("just loaded"))
    }

    fn status(&self) -> serde_json::Value {
        let own = self.agent.own();
        let totals = self.agent.totals();
        json!({
            "captured": totals.captured,
            "own": totals.own,
            "other_commands": totals.other_commands,
            "hits": totals.hits,
            "lost": self.agent.lost(),
            "agent_cpu_ns": (own.cpu_s * 1e9) as u64,
            "agent_rss_bytes": own.rss_bytes,
            "burn": self.burner.as_ref().map(Burner::status),
        })
    }
}

fn tap(log: &mut Option<StatementLog>) -> Option<&mut dyn Tap> {
    log.as_mut().map(|log| log as &mut dyn Tap)
}
