//! The loop's body: read every source, follow servers as they come and go, hand out views.
//!
//! One thread calls [`Agent::turn`] some fifty times a second while statements come, and
//! [`Agent::wait`] between two turns; kernel halves never wake it. Neighbours: sources below, the
//! binary's `watch` above, which says when to stop. Invariants: no turn waits for a server, a sink
//! or a disk; a server that cannot be watched keeps no other from being watched.

mod clockwork;
mod cost;
mod delivery;
mod followed;
mod following;
mod handing;
mod keeper;
mod news;
mod pause;

use std::sync::Arc;
use std::time::{Duration, Instant};

use waggle_probes::statement::{Options, Program};
use waggle_server::discovery::{Discovery, Found};

use crate::aggregate::{self, Clocks, Tap};
use crate::budget::rights::{self, Task};
use crate::budget::{Limits, Shed};
use crate::host::HostSample;
use crate::hosts::HostSampler;
use crate::sink::Sink;
use crate::source::Source;
use crate::source::uprobe::UprobeSource;
use crate::sql::Access;
use crate::statement::ServerId;
use crate::view::{Counted, View};
use clockwork::Clockwork;
use cost::Cost;
use delivery::Delivery;
use followed::{Eye, Followed};
pub use following::found;
pub use handing::Totals;
use keeper::Keeper;
pub use news::News;

/// How often new servers are looked for and the host is sampled.
const SECOND: Duration = Duration::from_secs(1);

/// How the agent works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Watch every server of this host, also those that start later.
    pub follow: bool,
    /// Attach when a server is found; else only when told ([`Agent::attach`]).
    pub capture: bool,
    /// How the statement probe is loaded.
    pub probe: Options,
    /// Room between kernel and agent for each server but one, bytes: mapped memory counts twice.
    pub ring_bytes_further: u32,
    /// Bounds, and what is kept of single statements.
    pub aggregate: aggregate::Settings,
    /// Time between two views.
    pub interval: Duration,
    /// Sample host and processes.
    pub host: bool,
    /// Where the one server that is watched can be asked, if that is allowed.
    pub access: Option<Access>,
    /// What the agent may use.
    pub limits: Limits,
}

/// What a turn brought.
#[derive(Debug, Default)]
pub struct Turn {
    /// Observations read.
    pub events: usize,
    /// A view, if one was due.
    pub view: Option<Arc<View>>,
}

/// Watches servers.
pub struct Agent {
    settings: Settings,
    servers: Vec<Followed>,
    discovery: Discovery,
    next_id: u32,
    news: Vec<News>,
    delivery: Delivery,
    host_sampler: Option<HostSampler>,
    host: Option<HostSample>,
    host_name: Arc<str>,
    cost: Cost,
    clockwork: Clockwork,
    keeper: Keeper,
    forgotten: Counted,
    started_us: u64,
    next_view: Instant,
    next_second: Instant,
}

impl Agent {
    /// An agent that watches nothing yet.
    pub fn new(settings: Settings) -> Self {
        let now = Instant::now();
        let host_name = rustix::system::uname();
        let keeper = Keeper::new(settings.limits);
        Self {
            host_sampler: settings.host.then(HostSampler::new),
            host: None,
            host_name: host_name.nodename().to_string_lossy().into(),
            servers: Vec::new(),
            discovery: Discovery::new(),
            next_id: 0,
            news: Vec::new(),
            keeper,
            delivery: Delivery::default(),
            cost: Cost::default(),
            clockwork: Clockwork::default(),
            forgotten: Counted::default(),
            started_us: Clocks::now().realtime_ns / 1000,
            next_view: now + settings.interval,
            next_second: now,
            settings,
        }
    }

    /// Hands views, samples, waits and deadlocks to `sink` from now on, on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn add_sink(&mut self, sink: Box<dyn Sink>) -> std::io::Result<()> {
        self.delivery.add(sink)
    }

    /// Loads the probe of a server; [`begin`](Self::begin) attaches it.
    ///
    /// # Errors
    /// It cannot be watched. If all servers are followed, that is [`News`] instead.
    pub fn add(&mut self, found: Found) -> anyhow::Result<()> {
        let pid = found.process.pid;
        match self.load(found) {
            Err(error) if self.settings.follow => self.refuse(pid, &error),
            result => return result,
        }
        Ok(())
    }

    /// Watches a server through a source of another kind.
    ///
    /// # Errors
    /// The process is gone, or a thread cannot be started.
    pub fn add_source(&mut self, found: Found, source: Box<dyn Source>) -> anyhow::Result<()> {
        self.follow(found, Eye::Other(source))
    }

    fn load(&mut self, found: Found) -> anyhow::Result<()> {
        let is_further = self
            .servers
            .iter()
            .any(|s| s.has_first_ring && s.ended.is_none());
        let options = match is_further {
            true => Options {
                ring_bytes: self.settings.ring_bytes_further,
                ..self.settings.probe
            },
            false => self.settings.probe,
        };
        let probe = UprobeSource::load(&found.process, &options, self.clockwork.probe())?;
        self.follow(found, Eye::Probe(Box::new(probe)))?;
        if let Some(server) = self.servers.last_mut() {
            server.has_first_ring = !is_further;
        }
        Ok(())
    }

    fn follow(&mut self, found: Found, eye: Eye) -> anyhow::Result<()> {
        let id = ServerId(self.next_id);
        let followed = Followed::new(id, found, eye, &self.settings)?;
        self.next_id += 1;
        self.servers.push(followed);
        Ok(())
    }

    fn refuse(&mut self, pid: u32, error: &anyhow::Error) {
        self.news.push(News::Refused {
            pid,
            error: format!("{error:#}"),
        });
    }

    /// Attaches to every server added so far; the first view is due an interval from now.
    ///
    /// # Errors
    /// A probe cannot be attached.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        for index in 0..self.servers.len() {
            self.begin_one(index)?;
        }
        let now = Instant::now();
        self.next_view = now + self.settings.interval;
        Ok(())
    }

    fn begin_one(&mut self, index: usize) -> anyhow::Result<()> {
        let server = &mut self.servers[index];
        self.cost.measure_trap(server);
        self.keeper.begin(server);
        if server.probe().is_some() {
            self.clockwork.watch(server.process.pid);
            if self.settings.capture && !self.keeper.is_shed(Shed::Classes) {
                self.clockwork.attach(true);
            }
            server.no_times = self.clockwork.refused().map(str::to_owned);
        }
        if self.settings.capture {
            server.begin()?;
            if server.probe().is_some() {
                self.cost.begin(server, self.clockwork.probe());
            }
        }
        let news = News::Watching {
            pid: server.process.pid,
            name: server.name(),
            abilities: Box::new(server.abilities()),
        };
        self.news.push(news);
        Ok(())
    }

    /// The servers that run are attached to: from now on CPU time is limited, and rights that are
    /// not needed any more are given up, unless `keep_rights`. Call it after the first turn.
    pub fn settle(&mut self, keep_rights: bool) {
        let limited = self.keeper.settle();
        self.news.extend(limited);
        if keep_rights {
            return;
        }
        let task = if self.settings.follow {
            Task::Follow
        } else {
            Task::Watch
        };
        let news = match rights::keep(task, self.keeper.has_group()) {
            Ok(kept) if kept.is_empty() => "rights kept: none".to_owned(),
            Ok(kept) => format!("rights kept: {}", kept.join(", ")),
            Err(error) => {
                format!("rights: all are kept, as the kernel refuses to drop any: {error}")
            }
        };
        self.news.push(News::Rights(news));
    }

    /// Reads every source, and does what is due.
    pub fn turn(&mut self, mut tap: Option<&mut (dyn Tap + '_)>) -> Turn {
        let events = self.drain(reborrow(&mut tap));
        let now = Instant::now();
        if self.cost.is_sampling() {
            self.cost
                .turn(&mut self.servers, self.clockwork.probe(), now);
        }
        if now >= self.next_second {
            self.next_second = now + SECOND;
            self.each_second(now, reborrow(&mut tap));
        }
        let mut turn = Turn { events, view: None };
        if now >= self.next_view {
            self.next_view = now + self.settings.interval;
            turn.view = Some(self.hand_out());
        }
        turn
    }

    /// Reads what every source has. Returns the number of observations.
    pub fn drain(&mut self, mut tap: Option<&mut (dyn Tap + '_)>) -> usize {
        let clocks = Clocks::now();
        let mut events = 0;
        for index in 0..self.servers.len() {
            match self.servers[index].drain(clocks, reborrow(&mut tap)) {
                Ok(count) => events += count,
                Err(error) => self.end(index, &format!("{error:#}"), reborrow(&mut tap)),
            }
        }
        events
    }

    fn each_second(&mut self, now: Instant, tap: Option<&mut (dyn Tap + '_)>) {
        if let Some(sampler) = &mut self.host_sampler {
            self.host = sampler.sample().ok().or(self.host.take());
            let threads = self.clockwork.threads();
            for server in self.servers.iter_mut().filter(|s| s.ended.is_none()) {
                server.sample(&threads);
            }
        }
        self.count_cost();
        let server_ns = self.cost.take_server_ns();
        let news = self.keeper.second(&mut self.servers, server_ns, now);
        if news.is_some() && self.settings.capture {
            self.clockwork.attach(!self.keeper.is_shed(Shed::Classes));
        }
        self.news.extend(news);
        if self.settings.follow {
            self.discover(tap);
            self.forget(now);
        }
    }

    /// Takes in what the probes were hit since the last time.
    fn count_cost(&mut self) {
        let has_probe = self.servers.iter_mut().any(|s| s.probe().is_some());
        let scheduled = has_probe
            && self.settings.capture
            && self.clockwork.refused().is_none()
            && !self.keeper.is_shed(Shed::Classes);
        self.cost.count(&mut self.servers, scheduled);
    }

    fn end(&mut self, index: usize, why: &str, tap: Option<&mut (dyn Tap + '_)>) {
        let server = &mut self.servers[index];
        server.end(why, tap);
        self.clockwork.unwatch(server.process.pid);
        self.news.push(News::Ended {
            pid: server.process.pid,
            why: why.to_owned(),
        });
    }

    /// Takes what happened since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// True if no server is left to watch and none is waited for.
    pub fn is_over(&self) -> bool {
        !self.settings.follow
            && !self.servers.is_empty()
            && self.servers.iter().all(|s| s.ended.is_some())
    }

    /// Places `program` in every server.
    ///
    /// # Errors
    /// A probe cannot be attached.
    pub fn attach(&mut self, program: Program) -> anyhow::Result<()> {
        self.clockwork.attach(program == Program::Capture);
        let mut servers = self.servers.iter_mut().filter(|s| s.ended.is_none());
        servers.try_for_each(|server| server.attach(program))
    }

    /// Removes every probe and takes what is left.
    pub fn detach(&mut self, mut tap: Option<&mut (dyn Tap + '_)>) {
        for server in &mut self.servers {
            // What it yielded stands.
            let _ = server.detach(reborrow(&mut tap));
        }
        self.clockwork.attach(false);
    }
}

/// Lends the tap once more.
fn reborrow<'a>(tap: &'a mut Option<&mut (dyn Tap + '_)>) -> Option<&'a mut (dyn Tap + 'a)> {
    match tap {
        Some(tap) => Some(&mut **tap),
        None => None,
    }
}
