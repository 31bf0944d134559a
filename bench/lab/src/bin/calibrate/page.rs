//! The page that is filed.

use std::fmt::Write;

use waggle_bench_lab::filed::Facts;
use waggle_bench_lab::numbers::shown;

use crate::findings::{Findings, KnownCost};
use crate::plan::{Args, Kind};
use crate::processors::Processors;
use crate::state::Session;

/// The whole page.
pub(crate) fn page(
    facts: &Facts,
    args: &Args,
    sessions: &[Session],
    findings: &Findings,
) -> String {
    let mut out = facts.head("Is what the lab says true?");
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "Server: {}, `oltp_point_select`, connections: {}, windows of 0.15 s, {}. An experiment is \
         a stretch of a recorded run, and shares no window with another. A known cost is burned by \
         a probe at the end of every statement, and compared with an empty probe at the same \
         place; its truth is what the kernel's run-time counters say of it in windows of their own \
         (docs/design/0007-calibration.md). Shares have the 95% interval of Clopper \
         and Pearson.\n\n",
        args.sandbox,
        args.threads,
        match args.processors {
            Processors::One => "all on one processor",
            Processors::All => "on all processors",
        }
    );
    pieces(&mut out, sessions);
    out.push_str("| what has to hold | found | holds |\n|---|---|---|\n");
    for criterion in &findings.criteria {
        let holds = match criterion.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "too few trials",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {holds} |",
            criterion.what, criterion.found
        );
    }
    let _ = write!(
        out,
        "\nEqual things beside a competitor: {}.\n",
        match findings.same_competing.of {
            0 => "no trial".to_owned(),
            _ => findings.same_competing.to_string(),
        }
    );
    costs(&mut out, "Known costs", &findings.known);
    costs(
        &mut out,
        "Known costs beside a process whose load doubles and halves every 20 s",
        &findings.known_competing,
    );
    precision(&mut out, findings);
    if !findings.lost.is_empty() {
        out.push_str("\n## Lost pieces\n\n");
        for lost in &findings.lost {
            let _ = writeln!(out, "- {lost}");
        }
    }
    out
}

/// What the conclusions are drawn from, which may be of several calls.
fn pieces(out: &mut String, sessions: &[Session]) {
    let count = |kind: Kind| {
        let of_kind = sessions.iter().filter(|s| s.kind == kind);
        let seconds: u64 = of_kind.clone().map(|session| session.seconds).sum();
        format!("{} x {} ({seconds} s)", of_kind.count(), kind.name())
    };
    let mut programs: Vec<&str> = sessions.iter().map(|s| s.waggle.as_str()).collect();
    programs.sort_unstable();
    programs.dedup();
    let first = sessions.first().map_or("", |session| &session.begun);
    let _ = write!(
        out,
        "Drawn from, since {first}: {}. Measured was {}.\n\n",
        Kind::ALL.map(count).join(", "),
        programs.join("; ")
    );
}

fn costs(out: &mut String, title: &str, costs: &[KnownCost]) {
    let _ = write!(
        out,
        "\n## {title}\n\n| asked, us | truth, us | found, us (mean, 95%) | covered | half-width, \
         us | statement, us |\n|---|---|---|---|---|---|\n"
    );
    for cost in costs {
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            cost.asked_ns as f64 / 1e3,
            shown(cost.truth_us.as_ref(), 3),
            shown(cost.found_us.as_ref(), 2),
            match cost.covered.of {
                0 => "-".to_owned(),
                _ => cost.covered.to_string(),
            },
            number(cost.half_width_us, 2),
            number(cost.base_us, 1),
        );
    }
}

fn precision(out: &mut String, findings: &Findings) {
    out.push_str("\n## 1 us in five minutes\n\n");
    if findings.precision.is_empty() {
        out.push_str("No run.\n");
        return;
    }
    out.push_str("| found, us | half-width, us | statement, us |\n|---|---|---|\n");
    for run in &findings.precision {
        let _ = writeln!(
            out,
            "| {} | {:.2} | {:.1} |",
            shown(Some(&run.found_us), 2),
            run.found_us.half_width(),
            run.base_us
        );
    }
}
