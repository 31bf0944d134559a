//! What did the kernel see, in the words that every part of a trace speaks?
//!
//! The probes of `waggle-probes` hand out records; a source turns them into these, in the order of
//! their time. Pipelines, latches, functions and wait-for graphs are computed from them
//! alone, so that the arithmetic is tested without a kernel.
//!
//! Invariant: times are the kernel's monotonic clock, ns, taken first thing in the probe; times of
//! two clocks never meet. What was lost is itself an event, with the span in which it was lost.

/// A thread: its number and when it began, since numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// The kernel's number (tid in the initial namespace).
    pub tid: u32,
    /// When the thread began, ns of the boot clock; 0: not known.
    pub began_ns: u64,
}

/// A stack in the table of stacks, by which several events share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// A point of a plan: the place a probe was attached at, by its number in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId(pub u16);

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, ns of the monotonic clock.
    pub ns: u64,
    /// Whose doing it was; of a switch, the thread that left or came.
    pub thread: Thread,
    /// On which processor.
    pub cpu: u16,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The thread passed a point of the plan.
    Point {
        /// Which.
        point: PointId,
        /// The value the plan asked for there (an LSN, an address, a progress).
        value: u64,
        /// A second value, 0 if the plan asks for none (a line, a flag, an owner).
        second: u64,
        /// Where the thread was, if the plan asked for stacks.
        stack: Option<StackId>,
    },
    /// The thread left its processor.
    Left {
        /// Why.
        why: Departure,
        /// Where it was, if asked for.
        stack: Option<StackId>,
    },
    /// The thread took a processor.
    Came,
    /// The thread wakes another: recorded in the waker's context.
    Wakes {
        /// Who is woken.
        woken: Thread,
        /// Where the waker was, if asked for.
        stack: Option<StackId>,
        /// True if an interrupt woke it, whatever thread was on the processor.
        interrupt: bool,
    },
    /// The thread began.
    Began,
    /// The thread ended.
    Ended,
    /// Events of this processor were lost since the one before, `count` of them: between
    /// `since_ns` and this event's time.
    Lost {
        /// The event before, ns.
        since_ns: u64,
        /// How many.
        count: u64,
    },
}

/// Why a thread left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Departure {
    /// It was preempted or gave way: it could run on.
    Runnable,
    /// It waits on a futex at this address.
    Futex(u64),
    /// It waits for a disk: a read, a write or a sync.
    Disk,
    /// It waits for the network or a pipe.
    Network,
    /// It sleeps for a set time.
    Sleep,
    /// It waits for something else.
    Other,
}
