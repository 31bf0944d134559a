//! Servers as they come, go, restart and are upgraded.

use std::time::{Duration, Instant};

use waggle_server::discovery::{Change, Discovery, Found};

use super::followed::Followed;
use super::{Agent, News, reborrow};
use crate::aggregate::Tap;

/// How long a server that ended stays in views, and how many of them at most.
const ENDED_SHOWN: Duration = Duration::from_secs(300);
const ENDED_MAX: usize = 32;

/// What is known of the server with process id `pid`, if it is one.
pub fn found(pid: u32) -> Option<Found> {
    let mut discovery = Discovery::new();
    discovery.poll();
    discovery
        .servers()
        .find(|found| found.process.pid == pid)
        .cloned()
}

impl Agent {
    /// Attaches to servers that have come up, and lets go of those that are something else now.
    pub(super) fn discover(&mut self, mut tap: Option<&mut (dyn Tap + '_)>) {
        for change in self.discovery.poll() {
            match change {
                Change::Came(found) => self.came(*found),
                Change::Upgraded { pid } => self.news.push(News::Upgraded { pid }),
                Change::Named { pid, instance } => {
                    let known = |s: &&mut Followed| s.process.pid == pid && s.ended.is_none();
                    if let Some(server) = self.servers.iter_mut().find(known) {
                        server.rename(instance.name.into());
                    }
                }
                Change::Went { pid, .. } => {
                    let gone = |s: &Followed| s.process.pid == pid && s.ended.is_none();
                    if let Some(index) = self.servers.iter().position(gone) {
                        self.end(index, "the server ended", reborrow(&mut tap));
                    }
                }
                Change::Refused { pid, why } => self.news.push(News::Refused { pid, error: why }),
            }
        }
    }

    fn came(&mut self, found: Found) {
        let pid = found.process.pid;
        let known = |s: &Followed| s.process.pid == pid && s.ended.is_none();
        if self.servers.iter().any(known) {
            return;
        }
        let added = self.load(found).and_then(|()| {
            let last = self.servers.len() - 1;
            self.begin_one(last).inspect_err(|_| {
                self.servers.pop();
                self.clockwork.unwatch(pid);
            })
        });
        if let Err(error) = added {
            self.refuse(pid, &error);
        }
    }

    /// Drops servers that ended long ago; what was counted of them is kept as a sum.
    pub(super) fn forget(&mut self, now: Instant) {
        let ended = self.servers.iter().filter(|s| s.ended.is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        let forgotten = &mut self.forgotten;
        self.servers.retain(|server| {
            let Some((_, at)) = &server.ended else {
                return true;
            };
            let old = now.duration_since(*at) > ENDED_SHOWN;
            let drop = old || surplus > 0;
            if drop {
                surplus = surplus.saturating_sub(1);
                forgotten.add(&server.aggregate.counted());
            }
            !drop
        });
    }
}
