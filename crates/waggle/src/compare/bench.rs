//! Two bench runs: throughput and response time, interval by interval.
//!
//! A bench run is one life of one server, so its intervals tell how steady it was, and not how
//! another start of the same server would have done; that is said beside every verdict.

use anyhow::bail;
use waggle_report::bench::{BenchInterval, BenchReport};
use waggle_stats::compare::{CONFIDENCE, DIFFERENCES_MIN, series_mean};

use super::around::Around;
use super::change::{Effect, Pair};
use super::lab::Compared;

/// One figure of an interval, if it was read.
type Reading = fn(&BenchInterval) -> Option<f64>;

/// What a bench run's intervals cannot tell.
const ONE_LIFE: &str = "Each run is one life of a server: the intervals are over the intervals of \
                        a run and leave out what another start, another layout of the data or \
                        another hour would change. Where a few percent matter, run a lab with \
                        interleaved arms.";

/// Two bench runs.
///
/// # Errors
/// When they do not measure the same thing, or one is too short to say how sure its figures are.
pub(super) fn benches(
    one: &BenchReport,
    two: &BenchReport,
    margin: f64,
) -> anyhow::Result<Compared> {
    if one.workload != two.workload {
        bail!(
            "the workloads are {} and {}, so a transaction of one is not a transaction of the \
             other",
            one.workload,
            two.workload
        );
    }
    if one.offered_rate.is_some() != two.offered_rate.is_some() {
        bail!("one ran in closed loop and the other at a rate; their latencies are not the same");
    }
    let mut compared = Compared {
        around: around(one, two),
        ..Compared::default()
    };
    let outcomes: [(&'static str, Reading); 4] = [
        ("transactions/s", |interval| interval.tps),
        ("p50", |interval| interval.p50_us),
        ("p95", |interval| interval.p95_us),
        ("p99", |interval| interval.p99_us),
    ];
    for (outcome, value) in outcomes {
        if outcome == "transactions/s" && one.offered_rate.is_some() {
            continue;
        }
        let unit = if outcome == "transactions/s" {
            "/s"
        } else {
            "µs"
        };
        if let (Some(first), Some(second)) = (mean(one, value), mean(two, value)) {
            compared.pairs.push(Pair {
                cell: None,
                arm: one.workload.clone(),
                outcome,
                unit,
                first,
                second,
                level: true,
                margin: margin * first.estimate,
                clean: true,
            });
        }
    }
    if compared.pairs.is_empty() {
        bail!(
            "the runs are too short to compare: {} and {} measured intervals, of which at least \
             three are needed in each",
            one.measured().count(),
            two.measured().count()
        );
    }
    compared.notes.push(ONE_LIFE.to_owned());
    if one.offered_rate.is_some() {
        compared
            .notes
            .push("At a rate, throughput is what was asked for, and is not compared.".to_owned());
    }
    Ok(compared)
}

fn around(one: &BenchReport, two: &BenchReport) -> Around {
    let mut around = Around::default();
    around.host(&one.environment, &two.environment);
    around.server(&one.server, &two.server);
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    around.fact("threads", number(one.threads), number(two.threads));
    around.maps("run setting", &one.settings, &two.settings);
    around.fact(
        "waggle",
        Some(one.waggle_version.clone()),
        Some(two.waggle_version.clone()),
    );
    around
}

/// The mean over a run's intervals, its interval widened by their autocorrelation. None is left
/// out: what stalls a server is part of what it gives.
fn mean(report: &BenchReport, value: Reading) -> Option<Effect> {
    let values: Vec<f64> = report.measured().filter_map(value).collect();
    if values.len() < DIFFERENCES_MIN {
        return None;
    }
    let estimate = series_mean(&values).ok()?;
    let interval = estimate.interval(CONFIDENCE);
    let effect = Effect::of(
        interval.estimate,
        interval.low,
        interval.high,
        values.len() as u64,
    )?;
    Some(effect.with_df(Some(estimate.df)))
}
