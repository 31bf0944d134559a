//! The one sentence that answers the question of a lab run.
//!
//! Pure: a function of the report alone, and the only place where the answer is put into words.
//! Invariant: nothing is claimed unless the base compared with itself was clean.

use super::{Arm, Difference, LabReport, LabVerdict, Primary, Ratio};
use crate::quantity::{count, decimals, plain, signed};

/// Answers the report's question in a sentence (or two, when statements were missed).
pub fn headline(report: &LabReport) -> String {
    if !report.aa_clean {
        return not_clean(report);
    }
    let Some(arm) = report.subject_arm() else {
        return format!(
            "Nothing was measured: this run has no arm named {}.",
            report.subject
        );
    };
    if report.primary != Primary::ServerCpu {
        return other_outcome(report, arm);
    }
    let subject = capitalised(&subject_name(report, arm));
    let Some(cpu) = &arm.cpu() else {
        let why = arm
            .note
            .as_deref()
            .map(|note| format!(": {note}"))
            .unwrap_or_default();
        return format!(
            "The cost of {} was not measured{why}.",
            subject_name(report, arm)
        );
    };
    let answer = match arm.verdict {
        LabVerdict::Costs => change(&subject, "cost", cpu),
        LabVerdict::Saves => change(&subject, "saved", cpu),
        LabVerdict::NoDifference => no_difference(report, arm, &subject, cpu),
        LabVerdict::NotEnoughEvidence => not_enough(&subject, cpu),
    };
    format!("{answer}{}.{}", rival(report), missed(report, arm))
}

fn not_clean(report: &LabReport) -> String {
    let start = "Nothing is claimed: ";
    match &report.aa_arm().and_then(Arm::cpu) {
        Some(cpu) => format!(
            "{start}the same arm measured twice differed by {} of server CPU per statement \
             ({}), so this run cannot tell an arm from the drift of the machine.",
            with_unit(signed(cpu.delta, digits(cpu))),
            interval(cpu, false),
        ),
        None => format!("{start}the same arm was not measured twice, so the method is unchecked."),
    }
}

/// The answer where the question is about throughput or latency.
fn other_outcome(report: &LabReport, arm: &Arm) -> String {
    let subject = subject_name(report, arm);
    let (what, ratio) = match report.primary {
        Primary::LatencyP99 => {
            let p99 = arm.latency_us.p99.filter(|p99| p99.base > 0.0);
            let part = |p99: Difference, value: f64| 1.0 + value / p99.base;
            let ratio = p99.map(|p99| Ratio {
                estimate: part(p99, p99.delta),
                low: part(p99, p99.low),
                high: part(p99, p99.high),
            });
            ("p99 latency", ratio)
        }
        _ => ("throughput", arm.qps_ratio),
    };
    let Some(ratio) = ratio.filter(Ratio::is_finite) else {
        return format!("What {subject} does to {what} was not measured.");
    };
    let percent = |ratio: f64| signed((ratio - 1.0) * 100.0, 1);
    let figures = format!(
        "{}% (95% CI {} to {})",
        percent(ratio.estimate),
        percent(ratio.low),
        percent(ratio.high)
    );
    let subject = capitalised(&subject);
    let answer = match arm.verdict {
        LabVerdict::Costs | LabVerdict::Saves => format!("{subject} changed {what} by {figures}"),
        LabVerdict::NoDifference => format!(
            "{subject} made no difference to {what} within ±{}%: {figures}",
            trimmed(report.margin * 100.0)
        ),
        LabVerdict::NotEnoughEvidence => {
            format!(
                "{subject}: not enough evidence of what it does to {what}; the estimate is \
                 {figures}"
            )
        }
    };
    format!("{answer}.{}", missed(report, arm))
}

fn change(subject: &str, verb: &str, cpu: &Difference) -> String {
    let shown = if verb == "saved" { flipped(cpu) } else { *cpu };
    format!(
        "{subject} {verb} {} of server CPU per statement ({}{})",
        with_unit(plain(shown.delta, digits(cpu))),
        interval(&shown, false),
        share(&shown),
    )
}

fn no_difference(report: &LabReport, arm: &Arm, subject: &str, cpu: &Difference) -> String {
    let detectable = arm
        .detectable_us
        .filter(|effect| effect.is_finite())
        .map(|effect| {
            format!(
                "; {} would have been seen",
                with_unit(plain(effect, digits(cpu)))
            )
        })
        .unwrap_or_default();
    format!(
        "{subject} made no difference to server CPU per statement within ±{}% of {} \
         ({}, {}{detectable})",
        trimmed(report.margin * 100.0),
        with_unit(plain(cpu.base, 1)),
        with_unit(signed(cpu.delta, digits(cpu))),
        interval(cpu, true),
    )
}

fn not_enough(subject: &str, cpu: &Difference) -> String {
    format!(
        "{subject}: not enough evidence to say what it costs; the estimate is {} of server CPU \
         per statement ({} of {})",
        with_unit(signed(cpu.delta, digits(cpu))),
        interval(cpu, true),
        with_unit(plain(cpu.base, 1)),
    )
}

/// What PERFORMANCE_SCHEMA does on the same load, since that is what one would use instead.
fn rival(report: &LabReport) -> String {
    if report.subject == "perfschema" {
        return String::new();
    }
    let Some(arm) = report.arms.iter().find(|arm| arm.name == "perfschema") else {
        return String::new();
    };
    let Some(cpu) = &arm.cpu() else {
        return String::new();
    };
    let name = "PERFORMANCE_SCHEMA";
    match arm.verdict {
        LabVerdict::Costs => {
            format!(
                "; {name} cost {}",
                with_unit(plain(cpu.delta, digits(cpu).max(1)))
            )
        }
        LabVerdict::Saves => {
            format!(
                "; {name} saved {}",
                with_unit(plain(-cpu.delta, digits(cpu).max(1)))
            )
        }
        LabVerdict::NoDifference => format!("; {name} made no difference"),
        LabVerdict::NotEnoughEvidence => format!(
            "; for {name} there is not enough evidence ({}, {})",
            with_unit(signed(cpu.delta, digits(cpu))),
            interval(cpu, true),
        ),
    }
}

fn missed(report: &LabReport, arm: &Arm) -> String {
    let Some(captured) = arm.captured else {
        return String::new();
    };
    let executed = arm.executed;
    if captured < executed {
        let missing = executed - captured;
        let percent = missing as f64 / executed as f64 * 100.0;
        let percent = if percent < 0.01 {
            "less than 0.01".to_owned()
        } else {
            format!("{percent:.2}")
        };
        format!(
            " It missed {} of {} statements ({percent}%).",
            count(missing),
            count(executed)
        )
    } else if captured > executed {
        format!(
            " It captured {} statements where {} counted {}.",
            count(captured),
            report.server_name(),
            count(executed)
        )
    } else {
        String::new()
    }
}

fn subject_name(report: &LabReport, arm: &Arm) -> String {
    let server = report.server_name();
    match arm.name.as_str() {
        "watch" if arm.captured.is_some_and(|captured| captured < arm.executed) => {
            format!("watching {server} with waggle")
        }
        "watch" => format!("watching every statement of {server} with waggle"),
        "probe-empty" => format!("an attached probe that does nothing, on {server},"),
        "perfschema" => format!("PERFORMANCE_SCHEMA on {server}"),
        "general-log" => format!("the general log of {server}"),
        "slow-log-all" => format!("the slow log of {server} with every statement in it"),
        _ => format!("{} on {server}", arm.label),
    }
}

fn digits(cpu: &Difference) -> usize {
    decimals(cpu.half_width(), 0).max(1)
}

fn interval(cpu: &Difference, sign: bool) -> String {
    let digits = digits(cpu);
    let print = if sign { signed } else { plain };
    format!(
        "95% CI {} to {}",
        print(cpu.low, digits),
        print(cpu.high, digits)
    )
}

fn share(cpu: &Difference) -> String {
    let percent = cpu.delta / cpu.base * 100.0;
    if percent.is_finite() {
        format!(
            ", {}% of {}",
            plain(percent, 1),
            with_unit(plain(cpu.base, 1))
        )
    } else {
        String::new()
    }
}

fn flipped(cpu: &Difference) -> Difference {
    Difference {
        base: cpu.base,
        delta: -cpu.delta,
        low: -cpu.high,
        high: -cpu.low,
    }
}

fn with_unit(number: String) -> String {
    format!("{number} µs")
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
