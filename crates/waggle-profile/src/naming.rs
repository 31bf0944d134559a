//! From sums to a profile: addresses get their names, threads their roles.
//!
//! Neighbours: `capture` has the sums, `waggle_trace::stack` the names, `roles` knows what threads
//! are for. Invariant: time that was summed is in the profile, whatever its stack lacks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use waggle_foreign::is_harmful;
use waggle_probes::timeline::StackEnd;
use waggle_trace::stack::names::{Detail, Places};
use waggle_trace::{Departure, StackId as Walked};

use crate::capture::Capture;
use crate::join::Ran;
use crate::kallsyms::Kallsyms;
use crate::model::{
    BETWEEN, Builder, Frame, FrameId, Kind, Profile, Stack, StackId, Timed, UNFINISHED, Who, WhoId,
};
use crate::processes::{of_thread, tell_apart};
use crate::roles::{self, Known};
use crate::sums::{Inner, Key, Met};

/// What the kernel's frames have for a module.
const KERNEL: &str = "[kernel]";
/// How the names of its modules begin.
const KERNEL_MODULES: &str = "[kernel";

/// A stack with its names.
#[derive(Debug, Clone)]
struct Named {
    id: StackId,
    /// Frames that nothing has a name for.
    unknown: u64,
    truncated: bool,
    missing: bool,
}

/// What has been named so far.
struct Naming<'a> {
    capture: &'a mut Capture,
    places: Places,
    kernel: Kallsyms,
    builder: Builder,
    stacks: HashMap<(Option<Walked>, Inner, Kind), Named>,
    /// By thread: the outermost of its program's calls, once one has a name.
    roots: HashMap<u32, Arc<str>>,
    roles: HashMap<(u32, Option<Walked>), Arc<str>>,
}

/// Makes the profile.
pub(crate) fn profile(capture: &mut Capture, started: String) -> Profile {
    let detail = Detail {
        lines: capture.options.lines,
        inlined: capture.options.inlined,
    };
    let sums: Vec<_> = capture.sums.sums.iter().map(|(k, s)| (*k, *s)).collect();
    let timed = capture.sums.timed.take().unwrap_or_default();
    tell_apart(&mut capture.processes);
    let mut naming = Naming {
        places: Places::new(detail),
        kernel: match capture.options.kernel {
            true => Kallsyms::read(),
            false => Kallsyms::default(),
        },
        builder: Builder::default(),
        stacks: HashMap::new(),
        roots: HashMap::new(),
        roles: HashMap::new(),
        capture,
    };
    naming.find_roots(sums.iter().map(|((key, _), _)| key));
    let mut lost = naming.capture.losses();
    for ((key, ran), sum) in &sums {
        let stack = naming.stack(key);
        let who = naming.who(key, *ran);
        naming
            .builder
            .add(who, key.kind, stack.id, sum.samples, sum.ns);
        let times = |is: bool| if is { sum.samples } else { 0 };
        lost.truncated += times(stack.truncated);
        lost.stacks += times(stack.missing);
        lost.unknown_frames += stack.unknown * sum.samples;
    }
    lost.count("samples whose stack is cut", lost.truncated);
    lost.count("samples without a stack", lost.stacks);
    lost.count("frames without a name", lost.unknown_frames);
    let first_ns = naming.capture.first_ns;
    for (moment, ran) in &timed {
        let stack = naming.stack(&moment.key).id;
        let who = naming.who(&moment.key, *ran);
        let tid = naming.capture.sums.threads[moment.key.thread as usize]
            .thread
            .tid;
        naming.builder.profile.timeline.push(Timed {
            at_ns: moment.at_ns.saturating_sub(first_ns),
            tid,
            who,
            kind: moment.key.kind,
            stack,
            ns: moment.ns,
        });
    }
    naming.facts(started);
    naming.builder.profile.lost = lost;
    naming.builder.finish()
}

impl Naming<'_> {
    /// Threads without names of their own are known by any of their stacks.
    fn find_roots<'k>(&mut self, keys: impl Iterator<Item = &'k Key>) {
        for key in keys {
            let Some(stack) = key.stack else { continue };
            let known = self.roots.get(&key.thread);
            if known.is_some_and(|root| !root.starts_with(['~', '['])) {
                continue;
            }
            let capture = &mut *self.capture;
            if let Some(root) = capture.names.root(&capture.stacks, stack) {
                self.roots.insert(key.thread, root);
            }
        }
    }

    fn met(&self, thread: u32) -> &Met {
        &self.capture.sums.threads[thread as usize]
    }

    fn who(&mut self, key: &Key, ran: Ran) -> WhoId {
        let role = self.role(key);
        let met = self.met(key.thread);
        let process = of_thread(&self.capture.processes, met.pid, met.thread.began_ns);
        let start_ns = process.map(|process| process.start_ns);
        let label = process.map_or_else(|| Arc::from(format!("{}", met.pid)), |p| p.label.clone());
        let heard = self.capture.heard();
        let digest = match ran {
            Ran::Digest(number) => heard
                .and_then(|heard| heard.digests().get(number as usize))
                .map(|digest| Arc::clone(&digest.digest)),
            Ran::Between => Some(Arc::from(BETWEEN)),
            Ran::Unfinished => Some(Arc::from(UNFINISHED)),
            // It has ended none while it was recorded.
            Ran::None if heard.is_some() && *role == *roles::USER => match met.idle {
                Some(false) => Some(Arc::from(UNFINISHED)),
                _ => Some(Arc::from(BETWEEN)),
            },
            Ran::None => None,
        };
        let thread = self.capture.options.by_thread.then(|| {
            let name = met
                .name
                .map_or_else(|| "thread".to_owned(), |name| plain(&name.text()));
            Arc::from(format!("{name} {}", met.thread.tid))
        });
        let who = Who {
            process: label,
            pid: met.pid,
            start_ns,
            role,
            thread,
            digest,
        };
        self.builder.who(who)
    }

    fn role(&mut self, key: &Key) -> Arc<str> {
        if let Some(role) = self.roles.get(&(key.thread, key.stack)) {
            return Arc::clone(role);
        }
        let stack = self.stack(key).id;
        let met = self.met(key.thread);
        let process = of_thread(&self.capture.processes, met.pid, met.thread.began_ns);
        let name = met.name.map(|name| name.text());
        let known = Known {
            name: name.as_deref(),
            program: process.map_or("", |p| &p.program),
            root: self.roots.get(&key.thread).map(|root| &**root),
        };
        let calls = self.builder.profile.frames_of(stack).map(|f| &*f.name);
        let role: Arc<str> = roles::of(known, calls).into();
        self.roles
            .insert((key.thread, key.stack), Arc::clone(&role));
        role
    }

    fn stack(&mut self, key: &Key) -> Named {
        let of = (key.stack, key.inner, key.kind);
        if let Some(named) = self.stacks.get(&of) {
            return named.clone();
        }
        let mut frames = Vec::new();
        let mut unknown = 0;
        let mut truncated = false;
        let walked = key
            .stack
            .and_then(|id| self.capture.stacks.get(id))
            .cloned();
        let missing = walked.is_none() && !is_of_the_kernel(key);
        if let Some(walked) = walked {
            truncated = walked.end != StackEnd::Whole;
            for (at, address) in walked.addresses.iter().enumerate().rev() {
                // A caller's address is that of the instruction behind the call.
                let address = address.saturating_sub(u64::from(at > 0));
                if self.is_vdso(walked.pid, address) {
                    frames.push(self.frame("[vdso]", "[vdso]"));
                    continue;
                }
                let names = &mut self.capture.names;
                for place in self.places.at(names, walked.pid, address).iter() {
                    unknown += u64::from(place.name.starts_with('['));
                    frames.push(self.builder.frame(Frame {
                        name: Arc::clone(&place.name),
                        module: Arc::clone(&place.module),
                        file: place.file.clone(),
                        line: place.line,
                        inlined: place.inlined,
                        kernel: false,
                    }));
                }
            }
        } else if missing {
            frames.push(self.frame("[no stack]", ""));
        }
        unknown += self.push_inner(key, &mut frames);
        let named = Named {
            id: self.builder.stack(Stack {
                frames: frames.into(),
                truncated,
            }),
            unknown,
            truncated,
            missing,
        };
        self.stacks.insert(of, named.clone());
        named
    }

    /// True in code that the kernel has put into the process, such as reading clocks.
    fn is_vdso(&self, pid: u32, address: u64) -> bool {
        let mut processes = self.capture.processes.iter();
        processes.any(|process| process.pid == pid && process.vdso.contains(&address))
    }

    /// Pushes what comes behind the thread's own calls; returns how many have no name.
    fn push_inner(&mut self, key: &Key, frames: &mut Vec<FrameId>) -> u64 {
        let what = match key.inner {
            Inner::Own => return 0,
            Inner::Kernel(number) => return self.push_kernel(number, frames),
            Inner::InKernel => KERNEL,
            Inner::Processor => "[waits for a processor]",
            Inner::Wait(why) => waits(why),
        };
        frames.push(self.frame(what, KERNEL));
        0
    }

    fn push_kernel(&mut self, number: u32, frames: &mut Vec<FrameId>) -> u64 {
        let addresses = self.capture.sums.kernel_stacks[number as usize].clone();
        let mut unknown = 0;
        for (at, address) in addresses.iter().enumerate().rev() {
            let found = self.kernel.name(address.saturating_sub(u64::from(at > 0)));
            let (name, module) = found.unwrap_or_else(|| {
                unknown += 1;
                (Arc::from(format!("[{address:#x}]")), None)
            });
            let module = module.map_or_else(|| KERNEL.to_owned(), |m| format!("[kernel: {m}]"));
            frames.push(self.frame(&name, &module));
        }
        unknown
    }

    fn frame(&mut self, name: &str, module: &str) -> FrameId {
        self.builder.frame(Frame {
            name: Arc::from(name),
            module: Arc::from(module),
            file: None,
            line: None,
            inlined: false,
            kernel: module.starts_with(KERNEL_MODULES),
        })
    }

    fn facts(&mut self, started: String) {
        let capture = &*self.capture;
        let threads = capture.sums.threads.iter().map(|met| {
            let name = met.name.map(|name| plain(&name.text()));
            (met.thread.tid, name.unwrap_or_default())
        });
        let threads: BTreeMap<u32, String> = threads.collect();
        let mut notes = capture.notes.clone();
        let chained = capture.by_frame_pointers();
        if !chained.is_empty() {
            notes.push(format!(
                "stacks in these files are walked by frame pointers alone: {}",
                chained.join(", ")
            ));
        }
        if capture.options.kernel && self.kernel.is_empty() {
            notes.push("the kernel does not tell its functions' addresses".to_owned());
        }
        let profile = &mut self.builder.profile;
        profile.threads = threads;
        profile.notes = notes;
        profile.started = started;
        profile.duration_ns = capture.duration_ns;
        profile.frequency_hz = match capture.options.on_cpu {
            true => capture.options.frequency_hz,
            false => 0,
        };
        profile.processes = capture.processes.iter().map(|p| p.facts()).collect();
        let digests = capture.heard().map_or(&[][..], |heard| heard.digests());
        profile.digests = digests.to_vec();
    }
}

/// A thread that has no calls of its own: it works for the kernel, or has only just begun.
fn is_of_the_kernel(key: &Key) -> bool {
    matches!(key.inner, Inner::Kernel(_)) && key.stack.is_none()
}

fn waits(why: Departure) -> &'static str {
    match why {
        Departure::Runnable => "[preempted]",
        Departure::Futex(_) => "[waits: futex]",
        Departure::Disk => "[waits: disk]",
        Departure::Network => "[waits: network]",
        Departure::Sleep => "[sleeps]",
        Departure::Other => "[waits]",
    }
}

/// The kernel allows every byte in a name, and it goes to a terminal.
fn plain(name: &str) -> String {
    let plain = |c: char| if is_harmful(c) { '?' } else { c };
    name.chars().map(plain).collect()
}
