//! Two profiles: in which functions, roles and statements the share of CPU time changed.
//!
//! Shares of samples are compared, so that a longer profile or more load is no difference. The
//! difference as a flame graph is in [`super::flame`].

use std::collections::BTreeMap;

use anyhow::bail;
use waggle_foreign::is_harmful;
use waggle_report::profile::{
    ProfileKind, ProfilePage, ProfilePart, ProfileReport, functions, groups, totals,
};

use super::around::Around;
use super::change::{Effect, Pair};
use super::lab::Compared;

/// Functions that are compared: those with the largest share in either run.
const FUNCTIONS_MAX: usize = 25;
/// Roles and statements that are compared.
const GROUPS_MAX: usize = 10;
/// Samples without which a share has no interval worth printing.
const SAMPLES_MIN: u64 = 30;
/// Of the standard normal distribution, two-sided 95%.
const NORMAL_95: f64 = 1.959_964;
/// Longest name in a table, characters.
const NAME_CHARS_MAX: usize = 120;

/// What intervals of samples cannot tell.
const ONE_RECORDING: &str = "Intervals are those of sampling: samples are taken as independent, \
                             and what another start of the server or another hour would change is \
                             not in them.";

/// Two profiles.
///
/// # Errors
/// When one of them has too few samples on CPU, or they hold several profiles each.
pub(super) fn profiles(
    one: &ProfilePage,
    two: &ProfilePage,
    margin: f64,
) -> anyhow::Result<Compared> {
    let (first, second) = (only(one)?, only(two)?);
    let sampled = [first, second].map(|report| {
        let totals = totals(report);
        totals.get(&ProfileKind::OnCpu).copied().unwrap_or_default()
    });
    if sampled.iter().any(|total| total.samples < SAMPLES_MIN) {
        bail!(
            "the runs have {} and {} samples on CPU, of which at least {SAMPLES_MIN} are needed \
             in each",
            sampled[0].samples,
            sampled[1].samples
        );
    }
    let mut compared = Compared {
        around: around(one, two),
        ..Compared::default()
    };
    let whole = sampled.map(|total| total.samples);
    let named = |report: &ProfileReport| -> Shares {
        let all = functions(report, ProfileKind::OnCpu).into_iter();
        all.map(|sum| (label(&sum.name, &sum.module), sum.self_samples))
            .collect()
    };
    let both = [named(first), named(second)];
    compared.add("itself on CPU", FUNCTIONS_MAX, &both, whole, margin);
    let by_role = |report: &ProfileReport| samples_of(report, |who| Some(&who.role), "role ");
    let both = [by_role(first), by_role(second)];
    compared.add("on CPU", GROUPS_MAX, &both, whole, margin);
    let by_digest = |report: &ProfileReport| {
        let names = samples_of(report, |who| who.digest.as_deref(), "");
        let shown = |(digest, samples): (String, u64)| {
            let known = report
                .digest(&digest)
                .filter(|known| !known.fingerprint.is_empty());
            let words = known.map_or(digest.clone(), |known| known.fingerprint.clone());
            (cut(&words), samples)
        };
        names.into_iter().map(shown).collect::<Shares>()
    };
    let both = [by_digest(first), by_digest(second)];
    compared.add("on CPU", GROUPS_MAX, &both, whole, margin);
    compared.notes.push(ONE_RECORDING.to_owned());
    Ok(compared)
}

/// Samples by name.
type Shares = BTreeMap<String, u64>;

fn samples_of<'a>(
    report: &'a ProfileReport,
    name: impl Fn(&'a waggle_report::profile::ProfileWho) -> Option<&'a str>,
    what: &str,
) -> Shares {
    let all = groups(report, name).into_iter();
    all.map(|group| {
        let samples = group.of(ProfileKind::OnCpu).samples;
        (format!("{what}{}", cut(&group.name)), samples)
    })
    .collect()
}

impl Compared {
    /// The names with the largest shares in either run.
    fn add(
        &mut self,
        outcome: &'static str,
        most: usize,
        both: &[Shares; 2],
        whole: [u64; 2],
        margin: f64,
    ) {
        let of = |at: usize, name: &String| both[at].get(name).copied().unwrap_or(0);
        let share = |at: usize, name: &String| of(at, name) as f64 / whole[at] as f64;
        let mut names: Vec<&String> = both[0].keys().chain(both[1].keys()).collect();
        names.sort();
        names.dedup();
        let weight = |name: &String| share(0, name).max(share(1, name));
        names.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        for name in names.into_iter().take(most) {
            let effects = [0, 1].map(|at| effect(of(at, name), whole[at]));
            if let [Some(first), Some(second)] = effects {
                self.pairs.push(Pair {
                    cell: None,
                    arm: name.clone(),
                    outcome,
                    unit: "% of all",
                    first,
                    second,
                    level: true,
                    margin: margin * 100.0,
                    clean: true,
                });
            }
        }
    }
}

/// A share of samples in percent, with the interval of Agresti and Coull, which holds for shares
/// near zero too.
fn effect(samples: u64, whole: u64) -> Option<Effect> {
    let square = NORMAL_95 * NORMAL_95;
    let n = whole as f64 + square;
    let centre = (samples as f64 + square / 2.0) / n;
    let half = NORMAL_95 * (centre * (1.0 - centre) / n).sqrt();
    let share = samples as f64 / whole as f64;
    let low = (centre - half).max(0.0).min(share);
    let high = (centre + half).min(1.0).max(share);
    Effect::of(share * 100.0, low * 100.0, high * 100.0, whole)
}

fn only(page: &ProfilePage) -> anyhow::Result<&ProfileReport> {
    match page.parts.as_slice() {
        [part] => Ok(&part.report),
        parts => {
            let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
            bail!(
                "a run holds {} profiles ({}); `waggle report RUN --format html` compares those \
                 of one run",
                parts.len(),
                names.join(", ")
            )
        }
    }
}

fn label(name: &str, module: &str) -> String {
    match module {
        "" => cut(name),
        module => format!("{} ({})", cut(name), cut(module)),
    }
}

fn cut(name: &str) -> String {
    let tame = name.chars().map(|c| if is_harmful(c) { ' ' } else { c });
    tame.take(NAME_CHARS_MAX).collect()
}

/// What a profile says of itself.
type Fact = fn(&ProfileReport) -> String;

fn around(one: &ProfilePage, two: &ProfilePage) -> Around {
    let mut around = Around::default();
    let fact = |page: &ProfilePage, value: Fact| page.parts.first().map(|part| value(&part.report));
    let facts: [(&str, Fact); 3] = [
        ("processes", |report| report.process_names().join(", ")),
        ("samples a second", |report| report.frequency_hz.to_string()),
        ("seconds", |report| format!("{:.1}", report.duration_s())),
    ];
    for (what, value) in facts {
        around.fact(what, fact(one, value), fact(two, value));
    }
    around.fact(
        "waggle",
        Some(one.waggle_version.clone()),
        Some(two.waggle_version.clone()),
    );
    around
}

/// Both profiles on one page, the second shown against the first.
pub(super) fn page(one: &ProfilePage, two: &ProfilePage, names: [String; 2]) -> ProfilePage {
    let part = |page: &ProfilePage, name: &str| {
        let report = page.parts.first().map(|part| part.report.clone());
        ProfilePart {
            name: name.to_owned(),
            report: report.unwrap_or_default(),
        }
    };
    let mut notes = Vec::new();
    for (page, name) in [(one, &names[0]), (two, &names[1])] {
        notes.extend(page.notes.iter().map(|note| format!("{name}: {note}")));
    }
    ProfilePage {
        parts: vec![part(one, &names[0]), part(two, &names[1])],
        verb: "compare".to_owned(),
        command: two.command.clone(),
        waggle_version: two.waggle_version.clone(),
        started: two.started.clone(),
        notes,
        answer: Some(format!(
            "Where the time of {} went, against {}: shares of the whole, red where it has more.",
            names[1], names[0]
        )),
        shown: (1, Some(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_report::profile::{ProfileEntry, ProfileFrame, ProfileStack, ProfileWho};

    fn page_of(samples: [u64; 2]) -> ProfilePage {
        let frame = |name: &str| ProfileFrame {
            name: name.to_owned(),
            ..ProfileFrame::default()
        };
        let entry = |stack: u32, samples: u64| ProfileEntry {
            stack,
            samples,
            ns: samples * 10_000_000,
            ..ProfileEntry::default()
        };
        let stack = |frame| ProfileStack {
            frames: vec![frame],
            truncated: false,
        };
        let report = ProfileReport {
            frames: vec![frame("hot"), frame("cold")],
            stacks: vec![stack(0), stack(1)],
            whos: vec![ProfileWho {
                role: "user thread".to_owned(),
                ..ProfileWho::default()
            }],
            entries: vec![entry(0, samples[0]), entry(1, samples[1])],
            ..ProfileReport::default()
        };
        ProfilePage {
            parts: vec![ProfilePart {
                name: String::new(),
                report,
            }],
            ..ProfilePage::default()
        }
    }

    #[test]
    fn a_share_that_grew_is_higher_and_more_load_is_no_difference() {
        let judge = |one: [u64; 2], two: [u64; 2]| {
            let compared = profiles(&page_of(one), &page_of(two), 0.01).expect("comparable");
            let changes = super::super::change::judge(compared.pairs);
            let hot = changes.iter().find(|change| change.arm == "hot");
            hot.expect("a function").verdict
        };
        use super::super::change::Verdict;
        assert_eq!(judge([500, 500], [800, 200]), Verdict::Higher);
        assert_eq!(judge([500, 500], [200, 800]), Verdict::Lower);
        assert_eq!(
            judge([50_000, 50_000], [200_000, 200_000]),
            Verdict::NoDifference
        );
        assert_eq!(judge([50, 50], [52, 48]), Verdict::NotEnoughEvidence);
        assert!(profiles(&page_of([1, 2]), &page_of([500, 500]), 0.01).is_err());
    }

    #[test]
    fn a_share_has_an_interval_at_its_ends_too() {
        let none = effect(0, 1_000).expect("an effect");
        assert!(
            none.estimate == 0.0 && none.low == 0.0 && none.high > 0.2,
            "{none:?}"
        );
        let all = effect(1_000, 1_000).expect("an effect");
        assert!(all.high == 100.0 && all.low < 99.8, "{all:?}");
    }
}
