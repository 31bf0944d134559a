//! What each thread did, for viewers of time lines: the spans and wake-ups that `perfetto` and
//! Chrome's format both tell.
//!
//! Invariant: spans of a thread neither overlap nor go back in time.

use std::io::{self, Write};

use serde_json::json;

use super::Kind;
use crate::event::{StackId, Thread};
use crate::stack::{Stacks, names::Names};
use crate::timeline::{Span, State, Timeline};

/// A thread's spans with their names.
#[derive(Debug)]
pub struct Track {
    /// The thread.
    pub thread: Thread,
    /// How people know it.
    pub label: String,
    /// What it did; spans that are not known are left out.
    pub spans: Vec<Span>,
}

/// All threads that are kept, by number.
pub fn tracks(timeline: &Timeline, label: impl Fn(Thread) -> String) -> Vec<Track> {
    let mut tracks: Vec<Track> = timeline
        .threads()
        .map(|(thread, from_ns)| {
            let mut spans = timeline.spans(thread, from_ns, timeline.now_ns());
            spans.retain(|span| span.state != State::Unseen);
            Track {
                thread,
                label: label(thread),
                spans,
            }
        })
        .collect();
    tracks.sort_by_key(|track| track.thread);
    tracks
}

/// What a span is called.
pub fn span_name(state: State) -> &'static str {
    match state {
        State::OnCpu => "running",
        State::Runnable => "runnable",
        State::Blocked(why) => Kind::of(why).map_or("runnable", Kind::text),
        State::Elsewhere | State::Unseen => "unseen",
    }
}

/// The calls of a stack, innermost first, in one line.
pub fn calls(stacks: &Stacks, names: &mut Names, stack: Option<StackId>) -> Option<String> {
    let names = names.of_stack(stacks, stack?);
    let calls: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    Some(calls.join(" < "))
}

/// Writes the tracks in Chrome's trace format (JSON), times from `start_ns` on.
///
/// # Errors
/// The output cannot be written.
pub fn chrome(
    tracks: &[Track],
    (pid, start_ns): (u32, u64),
    stacks: &Stacks,
    names: &mut Names,
    mut out: impl Write,
) -> io::Result<()> {
    let us = |ns: u64| ns.saturating_sub(start_ns) as f64 / 1000.0;
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut put = |out: &mut dyn Write, value: serde_json::Value| {
        let comma = if first { "" } else { ",\n" };
        first = false;
        write!(out, "{comma}{value}")
    };
    let mut flow = 0_u64;
    for track in tracks {
        let tid = track.thread.tid;
        let name = json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid,
            "args": {"name": track.label}});
        put(&mut out, name)?;
        for span in &track.spans {
            let mut value = json!({"name": span_name(span.state), "ph": "X", "pid": pid,
                "tid": tid, "ts": us(span.from_ns),
                "dur": (span.to_ns - span.from_ns) as f64 / 1000.0});
            if let Some(calls) = calls(stacks, names, span.stack) {
                value["args"] = json!({"stack": calls});
            }
            put(&mut out, value)?;
            let Some(waker) = span.waker.filter(|w| !w.interrupt) else {
                continue;
            };
            flow += 1;
            let from = json!({"name": "wakes", "cat": "wake", "ph": "s", "id": flow, "pid": pid,
                "tid": waker.thread.tid, "ts": us(span.to_ns)});
            put(&mut out, from)?;
            let to = json!({"name": "wakes", "cat": "wake", "ph": "f", "bp": "e", "id": flow,
                "pid": pid, "tid": tid, "ts": us(span.to_ns)});
            put(&mut out, to)?;
        }
    }
    writeln!(out, "]}}")?;
    out.flush()
}
