//! From a server's search for a deadlock to waits for metadata locks.
//!
//! A session searches before each part of its wait: what the search found is who blocks it, and
//! others whom the search came by. Neighbours: [`search`](crate::locks::search) keeps one search.

use waggle_probes::lock::{LockEvent, LockReport, Thread};

use super::{Analysis, note};
use crate::lock::LockKind;
use crate::locks::deadlocks::Pending;
use crate::locks::search::{Search, metadata_object};
use crate::sessions::Sessions;

/// Most searches that go on at a time.
const SEARCHES_MAX: usize = 256;

impl Analysis {
    pub(super) fn observe_metadata(&mut self, event: &LockEvent<'_>, sessions: &mut Sessions) {
        let time_ns = event.time_ns;
        match event.report {
            LockReport::RowEdge { .. }
            | LockReport::RowBegin { .. }
            | LockReport::RowEnd { .. }
            | LockReport::RowDeadlock { .. }
            | LockReport::RowPair { .. } => {}
            LockReport::MetadataFrom {
                waiter,
                context,
                depth,
                mode,
                key,
            } => {
                let modes = self.modes;
                if let Some(search) = self.search(event.tid, time_ns) {
                    if depth == 0 {
                        *search = Search::default();
                        search.time_ns = time_ns;
                    }
                    search.from(waiter, context, depth);
                    let object = metadata_object(key, mode, modes);
                    search.objects.insert(context, object);
                }
            }
            LockReport::MetadataBy {
                blocker,
                context,
                depth,
            } => {
                if let Some(search) = self.search(event.tid, time_ns) {
                    search.by(blocker, context, depth);
                }
            }
            LockReport::MetadataVictim { victim, context } => {
                self.metadata_victim(event.tid, victim, context, time_ns, sessions);
            }
            LockReport::MetadataBegin {
                waiter, context, ..
            } => {
                note(sessions, &[waiter]);
                self.begin_metadata(event.tid, waiter, context, time_ns, sessions);
            }
            LockReport::MetadataEnd {
                waiter, is_decided, ..
            } => self.end_metadata(waiter, is_decided, time_ns),
        }
    }

    fn search(&mut self, tid: u32, time_ns: u64) -> Option<&mut Search> {
        if self.searches.len() >= SEARCHES_MAX && !self.searches.contains_key(&tid) {
            // A search is followed by a wait or a verdict at once; what is this old is over.
            let newest = self.searches.values().map(|s| s.time_ns).max();
            self.searches.retain(|_, s| Some(s.time_ns) == newest);
        }
        let search = self.searches.entry(tid).or_default();
        search.time_ns = time_ns;
        Some(search)
    }

    fn begin_metadata(
        &mut self,
        tid: u32,
        waiter: Thread,
        context: u64,
        time_ns: u64,
        sessions: &mut Sessions,
    ) {
        let search = self.searches.remove(&tid).unwrap_or_default();
        let distance = context.wrapping_sub(waiter.thd);
        let thread = |context: u64| {
            let seen = search.threads.get(&context).copied().unwrap_or_default();
            Thread {
                thd: context.wrapping_sub(distance),
                ..seen
            }
        };
        let goes_on = self
            .open
            .get_mut(&waiter.thd)
            .filter(|o| o.kind == LockKind::Metadata && o.has_begun && o.paused_ns.is_some());
        if let Some(open) = goes_on {
            open.paused_ns = None;
        } else {
            if self.open.get(&waiter.thd).is_some_and(|o| o.has_begun) {
                self.end(waiter.thd, time_ns);
            }
            self.open.remove(&waiter.thd);
            if let Some(open) = self.open_of(waiter, LockKind::Metadata, time_ns) {
                open.has_begun = true;
                open.context = context;
            }
        }
        // The search passed through the other waiters in its way, too.
        for open in self.open.values_mut().filter(|o| o.context != 0) {
            let source = open.context;
            if open.seen.is_none() {
                open.seen = search.objects.get(&source).cloned();
            }
            let mut found = search.edges.iter().filter(|(from, _)| *from == source);
            if let Some((_, first)) = found.next() {
                open.blocked_by(thread(*first), true);
                for (_, context) in found {
                    open.blocked_by(thread(*context), false);
                }
            }
        }
        let seen = search.threads.keys().map(|context| thread(*context));
        note(sessions, &seen.collect::<Vec<_>>());
    }

    fn end_metadata(&mut self, waiter: Thread, is_decided: bool, time_ns: u64) {
        if is_decided {
            return self.end(waiter.thd, time_ns);
        }
        if let Some(open) = self.open.get_mut(&waiter.thd) {
            open.paused_ns = Some(time_ns);
        }
    }

    fn metadata_victim(
        &mut self,
        tid: u32,
        victim: Thread,
        context: u64,
        time_ns: u64,
        sessions: &mut Sessions,
    ) {
        let Some(search) = self.searches.remove(&tid) else {
            return;
        };
        // Only the victim's statement tells whether it failed or was carried out anew.
        let members: Vec<Thread> = search
            .path
            .iter()
            .map(|c| search.threads.get(c).copied().unwrap_or_default())
            .collect();
        note(sessions, &members);
        let is_member = search.path.contains(&context);
        if !is_member {
            return;
        }
        self.deadlocks.push(Pending {
            time_ns,
            tid,
            members,
            victim: Some(victim),
            kind: LockKind::Metadata,
        });
    }
}
