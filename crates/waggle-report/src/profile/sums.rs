//! The tables of a profile: functions by their own and their whole time, and whose time it is.
//!
//! Invariants: a function's own times add up to the whole over all functions; a function that calls
//! itself is counted once a stack.

use std::collections::{BTreeMap, HashMap};

use super::{ProfileKind, ProfileReport};

/// What a call without a name is shown as.
const UNNAMED: &str = "[unknown]";

/// The whole of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Samples, or waits.
    pub samples: u64,
    /// The time that they stand for, ns.
    pub ns: u64,
}

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionSum {
    /// Its name.
    pub name: String,
    /// The file that it is of.
    pub module: String,
    /// Samples in it itself.
    pub self_samples: u64,
    /// Time in it itself, ns.
    pub self_ns: u64,
    /// Samples in it and in what it calls.
    pub total_samples: u64,
    /// Time in it and in what it calls, ns.
    pub total_ns: u64,
}

/// Whose time it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSum {
    /// The role, or the digest.
    pub name: String,
    /// By kind.
    pub kinds: BTreeMap<ProfileKind, Totals>,
}

impl Totals {
    fn add(&mut self, samples: u64, ns: u64) {
        self.samples = self.samples.saturating_add(samples);
        self.ns = self.ns.saturating_add(ns);
    }
}

impl GroupSum {
    /// Of one kind.
    pub fn of(&self, kind: ProfileKind) -> Totals {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }
}

/// The whole of each kind that there is.
pub fn totals(report: &ProfileReport) -> BTreeMap<ProfileKind, Totals> {
    let mut totals: BTreeMap<ProfileKind, Totals> = BTreeMap::new();
    for entry in &report.entries {
        let of_kind = totals.entry(entry.kind).or_default();
        of_kind.add(entry.samples, entry.ns);
    }
    totals
}

/// Functions of a kind, most time of their own first.
pub fn functions(report: &ProfileReport, kind: ProfileKind) -> Vec<FunctionSum> {
    let mut stacks: BTreeMap<u32, Totals> = BTreeMap::new();
    for entry in report.entries.iter().filter(|entry| entry.kind == kind) {
        let stack = stacks.entry(entry.stack).or_default();
        stack.add(entry.samples, entry.ns);
    }
    let (of_frame, mut sums) = named(report);
    // The last stack that counted a function, so that one which calls itself counts once.
    let mut counted: Vec<Option<u32>> = vec![None; sums.len()];
    let mut unknown = FunctionSum {
        name: "[no stack]".to_owned(),
        ..FunctionSum::default()
    };
    for (stack, of) in stacks {
        let mut last = None;
        for (frame, _) in report.frames_of(stack) {
            let at = of_frame[frame as usize];
            last = Some(at);
            if counted[at] != Some(stack) {
                counted[at] = Some(stack);
                let sum = &mut sums[at];
                sum.total_samples = sum.total_samples.saturating_add(of.samples);
                sum.total_ns = sum.total_ns.saturating_add(of.ns);
            }
        }
        let own = last.map_or(&mut unknown, |at| &mut sums[at]);
        own.self_samples = own.self_samples.saturating_add(of.samples);
        own.self_ns = own.self_ns.saturating_add(of.ns);
        if last.is_none() {
            own.total_samples = own.self_samples;
            own.total_ns = own.self_ns;
        }
    }
    sums.push(unknown);
    sums.retain(|sum| sum.total_samples > 0 || sum.total_ns > 0);
    sums.sort_by(|a, b| {
        let weight = |sum: &FunctionSum| (sum.self_ns, sum.total_ns);
        weight(b).cmp(&weight(a)).then_with(|| a.name.cmp(&b.name))
    });
    sums
}

/// The function of each frame, and the functions.
fn named(report: &ProfileReport) -> (Vec<usize>, Vec<FunctionSum>) {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    let mut sums: Vec<FunctionSum> = Vec::new();
    let of_frame = report.frames.iter().map(|frame| {
        *known
            .entry((&frame.name, &frame.module))
            .or_insert_with(|| {
                let name = match frame.name.trim() {
                    "" => UNNAMED,
                    name => name,
                };
                sums.push(FunctionSum {
                    name: name.to_owned(),
                    module: frame.module.clone(),
                    ..FunctionSum::default()
                });
                sums.len() - 1
            })
    });
    let of_frame = of_frame.collect();
    (of_frame, sums)
}

/// Time by whose it is, most time on CPU first; what `name` does not name is left out.
pub fn groups<'a>(
    report: &'a ProfileReport,
    name: impl Fn(&'a super::ProfileWho) -> Option<&'a str>,
) -> Vec<GroupSum> {
    let mut groups: BTreeMap<&str, GroupSum> = BTreeMap::new();
    for entry in &report.entries {
        let Some(name) = report.who(entry.who).and_then(&name) else {
            continue;
        };
        let group = groups.entry(name).or_insert_with(|| GroupSum {
            name: name.to_owned(),
            ..GroupSum::default()
        });
        let of_kind = group.kinds.entry(entry.kind).or_default();
        of_kind.add(entry.samples, entry.ns);
    }
    let mut groups: Vec<GroupSum> = groups.into_values().collect();
    let weight = |group: &GroupSum| ProfileKind::ALL.map(|kind| group.of(kind).ns);
    groups.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.name.cmp(&b.name)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ProfileEntry, ProfileFrame, ProfileStack, ProfileWho};

    fn report() -> ProfileReport {
        let frame = |name: &str| ProfileFrame {
            name: name.to_owned(),
            module: "mysqld".to_owned(),
            ..ProfileFrame::default()
        };
        let stack = |frames: &[u32]| ProfileStack {
            frames: frames.to_vec(),
            truncated: false,
        };
        let entry = |who, stack, ns| ProfileEntry {
            who,
            stack,
            samples: 1,
            ns,
            ..ProfileEntry::default()
        };
        let who = |role: &str| ProfileWho {
            role: role.to_owned(),
            ..ProfileWho::default()
        };
        ProfileReport {
            frames: vec![frame("main"), frame("walk"), frame("read")],
            // walk calls itself; the last leads nowhere.
            stacks: vec![stack(&[0, 1, 1, 1]), stack(&[0, 1, 2]), stack(&[99])],
            whos: vec![who("user"), who("purge")],
            entries: vec![
                entry(0, 0, 50),
                entry(1, 1, 30),
                entry(0, 2, 20),
                entry(9, 9, 5),
            ],
            ..ProfileReport::default()
        }
    }

    #[test]
    fn a_function_that_calls_itself_counts_once_and_own_times_add_up() {
        let sums = functions(&report(), ProfileKind::OnCpu);
        let of = |name: &str| {
            let sum = sums
                .iter()
                .find(|sum| sum.name == name)
                .expect("a function");
            (sum.self_ns, sum.total_ns)
        };
        assert_eq!(of("walk"), (50, 80));
        assert_eq!(of("main"), (0, 80));
        assert_eq!(of("read"), (30, 30));
        assert_eq!(of("[no stack]"), (25, 25));
        let own: u64 = sums.iter().map(|sum| sum.self_ns).sum();
        assert_eq!(own, totals(&report())[&ProfileKind::OnCpu].ns);
        assert!(functions(&report(), ProfileKind::OffCpu).is_empty());
    }

    #[test]
    fn groups_are_by_time_and_what_is_nobodys_is_in_none() {
        let report = report();
        let groups = groups(&report, |who| Some(&who.role));
        let shown: Vec<(&str, u64)> = groups
            .iter()
            .map(|group| (group.name.as_str(), group.of(ProfileKind::OnCpu).ns))
            .collect();
        assert_eq!(shown, [("user", 70), ("purge", 30)]);
    }
}
