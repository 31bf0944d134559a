//! Two recordings as one profile.
//!
//! Invariant: the time of two processes stays apart, also if the later one got the pid of one that
//! had ended.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Builder, FrameId, Process, Profile, Stack, StackId, Timed, Who, WhoId};

/// A process: its pid, and when it was started, if that is known.
type Known = (u32, Option<u64>);

/// Which process has which name.
#[derive(Debug)]
struct Names(HashMap<Arc<str>, Known>);

impl Names {
    fn of(profile: &Profile) -> Self {
        let whos = profile.whos.iter();
        let whos = whos.map(|who| (Arc::clone(&who.process), (who.pid, who.start_ns)));
        let processes = profile.processes.iter();
        let processes = processes.map(|p| (Arc::clone(&p.process), (p.pid, p.start_ns)));
        Self(whos.chain(processes).collect())
    }

    /// The name here of a process that is called `name` elsewhere: the same, if no other has it.
    fn give(&mut self, name: &str, process: Known) -> Arc<str> {
        let name = without_number(name);
        let mut own: Arc<str> = Arc::from(name);
        let mut count = 1u32;
        while *self.0.entry(Arc::clone(&own)).or_insert(process) != process {
            count += 1;
            own = Arc::from(format!("{name} ({count})"));
        }
        own
    }
}

/// `sh 7` of `sh 7 (2)`; the number counts processes of one profile.
fn without_number(name: &str) -> &str {
    let inner = name.strip_suffix(')');
    match inner.and_then(|inner| inner.rsplit_once(" (")) {
        Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => name,
    }
}

impl Profile {
    /// Adds a profile of the same kind that was recorded after this one. A process whose name and
    /// pid another one had gets a number behind them.
    pub fn merge(&mut self, other: &Profile) {
        let shift = self.duration_ns;
        let mut names = Names::of(self);
        let mut all = Builder::of(std::mem::take(self));
        let whos = other.whos.iter().map(|who| {
            all.who(Who {
                process: names.give(&who.process, (who.pid, who.start_ns)),
                ..who.clone()
            })
        });
        let whos: Vec<WhoId> = whos.collect();
        let frames: Vec<FrameId> = other.frames.iter().map(|f| all.frame(f.clone())).collect();
        let stack = |stack: &Stack| Stack {
            frames: stack
                .frames
                .iter()
                .map(|id| frames[id.0 as usize])
                .collect(),
            truncated: stack.truncated,
        };
        let stacks: Vec<StackId> = other.stacks.iter().map(|s| all.stack(stack(s))).collect();
        for entry in &other.entries {
            let (who, stack) = (whos[entry.who.0 as usize], stacks[entry.stack.0 as usize]);
            all.add(who, entry.kind, stack, entry.samples, entry.ns);
        }
        all.profile
            .timeline
            .extend(other.timeline.iter().map(|t| Timed {
                at_ns: t.at_ns.saturating_add(shift),
                who: whos[t.who.0 as usize],
                stack: stacks[t.stack.0 as usize],
                ..*t
            }));
        all.profile.threads.extend(other.threads.clone());
        all.add_facts(other, &mut names);
        *self = all.finish();
    }
}

impl Builder {
    /// Adds what another profile says beside its time: duration, statements, losses.
    fn add_facts(&mut self, other: &Profile, names: &mut Names) {
        let mine = &mut self.profile;
        if mine.started.is_empty() {
            mine.started.clone_from(&other.started);
        }
        mine.frequency_hz = mine.frequency_hz.max(other.frequency_hz);
        mine.duration_ns = mine.duration_ns.saturating_add(other.duration_ns);
        for digest in &other.digests {
            match mine.digests.iter_mut().find(|d| d.digest == digest.digest) {
                Some(found) => {
                    found.statements = found.statements.saturating_add(digest.statements);
                    found.cpu_ns = found.cpu_ns.saturating_add(digest.cpu_ns);
                }
                None => mine.digests.push(digest.clone()),
            }
        }
        for process in &other.processes {
            let known = (process.pid, process.start_ns);
            let mut process = process.clone();
            process.process = names.give(&process.process, known);
            // By its name, so that the kernel's account is of what has its samples.
            let same =
                |p: &&mut Process| p.process == process.process && (p.pid, p.start_ns) == known;
            match mine.processes.iter_mut().find(same) {
                Some(found) => {
                    let both = found.cpu_ns.zip(process.cpu_ns);
                    found.cpu_ns = both.map(|(a, b)| a.saturating_add(b));
                }
                None => mine.processes.push(process),
            }
        }
        for note in &other.notes {
            if !mine.notes.contains(note) {
                mine.notes.push(note.clone());
            }
        }
        mine.lost.add(&other.lost);
    }
}
