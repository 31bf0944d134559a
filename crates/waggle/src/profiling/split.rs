//! One recording as several profiles, by what was measured when.
//!
//! Invariant: a moment is in the profile of the span that it lies in, and in no other; what lies in
//! none (while arms were switched) is in none.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waggle_profile::model::{Builder, Profile};

/// A time in which something was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Whose time it was.
    pub(crate) name: String,
    /// When it began.
    pub(crate) from: Instant,
    /// How long it was.
    pub(crate) length: Duration,
}

/// The profile of each name; the timeline counts from `began`, and spans do not overlap.
pub(crate) fn by_name(
    profile: &Profile,
    began: Instant,
    spans: &[Span],
) -> BTreeMap<String, Profile> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut times: Vec<(u64, u64, &str)> = spans
        .iter()
        .map(|span| {
            let from = ns(span.from.saturating_duration_since(began));
            (
                from,
                from.saturating_add(ns(span.length)),
                span.name.as_str(),
            )
        })
        .collect();
    times.sort_unstable();
    let mut parts: BTreeMap<&str, Builder> = BTreeMap::new();
    for (from, to, name) in &times {
        let part = parts
            .entry(*name)
            .or_insert_with(|| Builder::of(without_time(profile)));
        part.profile.duration_ns += to - from;
    }
    for timed in &profile.timeline {
        let after = times.partition_point(|(from, _, _)| *from <= timed.at_ns);
        let Some((_, to, name)) = after.checked_sub(1).and_then(|at| times.get(at)) else {
            continue;
        };
        if timed.at_ns < *to
            && let Some(part) = parts.get_mut(name)
        {
            part.add(timed.who, timed.kind, timed.stack, 1, timed.ns);
        }
    }
    let named = parts.into_iter();
    named
        .map(|(name, part)| (name.to_owned(), part.finish()))
        .collect()
}

/// The tables of a profile; what was lost is known of the whole only, and said with each part.
fn without_time(profile: &Profile) -> Profile {
    Profile {
        duration_ns: 0,
        entries: Vec::new(),
        timeline: Vec::new(),
        // The kernel's accounts are of the whole, too.
        processes: Vec::new(),
        ..profile.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_profile::model::{Kind, Stack, Timed, Who};

    #[test]
    fn a_moment_belongs_to_its_span_and_what_is_between_to_none() {
        let mut all = Builder::default();
        let stack = all.stack(Stack {
            frames: [].into(),
            truncated: false,
        });
        let who = all.who(Who {
            process: "mysqld 7".into(),
            pid: 7,
            start_ns: None,
            role: "user thread".into(),
            thread: None,
            digest: None,
        });
        for at_ms in [5, 15, 25, 35, 45] {
            all.profile.timeline.push(Timed {
                at_ns: at_ms * 1_000_000,
                tid: 7,
                who,
                kind: Kind::OnCpu,
                stack,
                ns: 10_000_000,
            });
        }
        let began = Instant::now();
        let span = |name: &str, from_ms| Span {
            name: name.to_owned(),
            from: began + Duration::from_millis(from_ms),
            length: Duration::from_millis(10),
        };
        // 30 to 40 ms is between the spans.
        let spans = [
            span("watch", 20),
            span("none", 0),
            span("none", 10),
            span("watch", 40),
        ];
        let parts = by_name(&all.finish(), began, &spans);
        let of = |name: &str| {
            let part = &parts[name];
            (part.total_ns(Kind::OnCpu), part.duration_ns)
        };
        assert_eq!(of("none"), (20_000_000, 20_000_000));
        assert_eq!(of("watch"), (20_000_000, 20_000_000));
        assert_eq!(parts["none"].entries[0].samples, 2);
    }
}
