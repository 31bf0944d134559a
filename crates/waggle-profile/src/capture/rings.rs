//! From the rings to the sums: samples at once, the scheduler's records in the order of their time,
//! statements last.
//!
//! Neighbours: `offcpu` makes times away of the scheduler's events, `join` gives moments their
//! statements.

use waggle_probes::clock::now_ns;
use waggle_probes::sample;
use waggle_probes::timeline::{self, addresses};
use waggle_trace::{Departure, Event, Thread, What};

use super::Capture;
use crate::model::Kind;
use crate::offcpu::Away;
use crate::sums::{Inner, Key, Moment, Sums};

/// A processor of a virtual machine may stand still between the time stamp and the record.
const LATE_NS: u64 = 20_000_000;

impl Capture {
    /// Takes everything that the rings hold.
    pub(crate) fn poll(&mut self) {
        let until_ns = now_ns().saturating_sub(LATE_NS);
        self.read();
        self.hand_out(until_ns);
        self.statements(until_ns);
    }

    pub(super) fn read(&mut self) {
        self.read_samples();
        let Self {
            scheduler,
            records,
            stacks,
            sums,
            pending,
            unsorted,
            handed_out_ns,
            late,
            ..
        } = self;
        let Some(scheduler) = scheduler else { return };
        scheduler.read(|head, record| {
            let name = match record {
                timeline::Record::Left { name, .. } | timeline::Record::Ended { name } => {
                    Some(*name)
                }
                _ => None,
            };
            // The head of a wake-up is the waker's, which may be another process's.
            let is_own = !matches!(
                record,
                timeline::Record::Wakes { .. } | timeline::Record::Stack(_)
            );
            if is_own {
                sums.thread(thread_of(head), head.tgid, name);
            }
            records.events(head, record, stacks, |mut event| {
                if event.ns < *handed_out_ns {
                    *late += 1;
                    event.ns = *handed_out_ns;
                }
                *unsorted |= pending.back().is_some_and(|last| last.ns > event.ns);
                pending.push_back(event);
            });
        });
    }

    fn read_samples(&mut self) {
        let Self {
            sampler,
            stacks,
            sums,
            ..
        } = self;
        let ns = sampler.period_ns();
        sampler.read(|head, record| match record {
            sample::Record::Stack(stack) => {
                stacks.add(stack.number, head.tgid, stack.end, addresses(stack.frames));
            }
            sample::Record::Sample(sample) => {
                let thread = sums.thread(thread_of(head), head.tgid, Some(sample.name));
                let inner = match sample.in_kernel {
                    false => Inner::Own,
                    true if sample.kernel.is_empty() => Inner::InKernel,
                    true => Inner::Kernel(sums.kernel_stack(addresses(sample.kernel))),
                };
                sums.put(Moment {
                    key: Key {
                        thread,
                        kind: Kind::OnCpu,
                        stack: stacks.id(sample.stack),
                        inner,
                    },
                    at_ns: head.ns,
                    ns,
                });
            }
        });
    }

    pub(super) fn hand_out(&mut self, until_ns: u64) {
        if self.unsorted {
            // Stable: of one processor, records of one time stay in order.
            self.pending.make_contiguous().sort_by_key(|event| event.ns);
            self.unsorted = false;
        }
        let Self {
            pending,
            handed_out_ns,
            off,
            sums,
            ..
        } = self;
        while let Some(event) = pending.front().copied()
            && event.ns <= until_ns
        {
            pending.pop_front();
            *handed_out_ns = event.ns;
            off.event(&event, |away| put_away(sums, &away));
        }
        self.tell_losses();
    }

    /// A record tells of a loss only when its processor writes the next, which may be much later.
    fn tell_losses(&mut self) {
        let Some(scheduler) = &self.scheduler else {
            return;
        };
        let lost = scheduler.counters().lost;
        if lost > self.lost_told.max(self.records.lost()) {
            let what = What::Lost {
                since_ns: self.handed_out_ns.saturating_sub(1),
                count: lost - self.lost_told,
            };
            let nobody = Thread {
                tid: 0,
                began_ns: 0,
            };
            let event = Event {
                ns: self.handed_out_ns,
                thread: nobody,
                cpu: 0,
                what,
            };
            let Self { off, sums, .. } = self;
            off.event(&event, |away| put_away(sums, &away));
        }
        self.lost_told = self.lost_told.max(lost);
    }

    pub(super) fn statements(&mut self, until_ns: u64) {
        let Self {
            statements, sums, ..
        } = self;
        if let Some(statements) = statements {
            statements.poll();
            statements.take(until_ns, |statement| sums.ended(statement));
        }
    }
}

fn thread_of(head: &timeline::Head) -> Thread {
    Thread {
        tid: head.tid,
        began_ns: head.began_ns,
    }
}

pub(super) fn put_away(sums: &mut Sums, away: &Away) {
    // Only threads of watched processes leave.
    let Some(thread) = sums.known(away.thread) else {
        return;
    };
    let inner = match (away.kind, away.why) {
        (Kind::Runnable, why) if why != Departure::Runnable => Inner::Processor,
        // Addresses are as many as there are locks.
        (_, Departure::Futex(_)) => Inner::Wait(Departure::Futex(0)),
        (_, why) => Inner::Wait(why),
    };
    sums.put(Moment {
        key: Key {
            thread,
            kind: away.kind,
            stack: away.stack,
            inner,
        },
        at_ns: away.from_ns,
        ns: away.ns,
    });
}
