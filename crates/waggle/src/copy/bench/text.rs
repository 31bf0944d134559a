//! The table of a case.

use std::fmt::Write;

use waggle_report::quantity;

use super::contender::{Contender, Run};
use super::{Measured, Way};

const GIB: f64 = (1u64 << 30) as f64;

/// Medians of the rounds, ratios to the floor of the same round, and what failed.
pub(super) fn render(measured: &Measured) -> String {
    let mut out = format!(
        "{}: {} rows in {} tables, {} as a file, {} writes/s\n",
        measured.case,
        quantity::count(measured.rows),
        measured.tables,
        quantity::bytes(measured.file_bytes),
        measured.writes_per_s,
    );
    let _ = writeln!(
        out,
        "{:<20}{:>6}{:>10}{:>24}{:>14}{:>14}{:>14}",
        "way", "runs", "wall, s", "/ floor", "source CPU, s", "target CPU, s", "client CPU, s"
    );
    let floor = measured.ways.iter().find(|way| way.way == Contender::Floor);
    for way in measured.ways.iter().filter(|way| !way.rounds.is_empty()) {
        let value = |read: fn(&Run) -> f64| median(way.rounds.iter().map(read).collect());
        let ratio = floor.map_or(String::new(), |floor| ratio(way, floor));
        let _ = writeln!(
            out,
            "{:<20}{:>6}{:>10.2}{ratio:>24}{:>14.2}{:>14.2}{:>14.2}",
            way.way.to_string(),
            way.rounds.len(),
            value(|run| run.wall_s),
            value(|run| run.source_cpu_s),
            value(|run| run.target_cpu_s),
            value(|run| run.client_cpu_s),
        );
        let copied: Vec<f64> = way
            .rounds
            .iter()
            .filter_map(|run| run.copy.as_ref())
            .map(|copy| copy.copier_cpu_s / (copy.bytes / GIB))
            .collect();
        if !copied.is_empty() {
            let cpu = median(copied);
            let _ = writeln!(
                out,
                "  copier {cpu:.2} s of CPU for a GiB of rows; {}",
                phases(way)
            );
        }
    }
    for way in &measured.ways {
        for (round, why) in &way.failed {
            let _ = writeln!(out, "round {round}: {} failed: {why}", way.way);
        }
    }
    for (way, why) in &measured.skipped {
        let _ = writeln!(out, "not measured: {way}: {why}");
    }
    out
}

/// Wall time as a share of another way's in the same round: the median, and the extremes.
fn ratio(way: &Way, floor: &Way) -> String {
    let of_round = |run: &Run| {
        let floor = floor.rounds.iter().find(|floor| floor.round == run.round)?;
        Some(run.wall_s / floor.wall_s)
    };
    let mut ratios: Vec<f64> = way.rounds.iter().filter_map(of_round).collect();
    ratios.sort_by(f64::total_cmp);
    match ratios.as_slice() {
        [] => String::new(),
        [one] => format!("{one:.2}"),
        [least, .., most] => {
            let (least, most) = (*least, *most);
            format!("{:.2} ({least:.2} to {most:.2})", median(ratios))
        }
    }
}

/// Medians of the phases' wall times.
fn phases(way: &Way) -> String {
    let mut times: Vec<(&str, Vec<f64>)> = Vec::new();
    for copy in way.rounds.iter().filter_map(|run| run.copy.as_ref()) {
        for phase in copy.phases.as_array().into_iter().flatten() {
            let name = phase["phase"].as_str().unwrap_or_default();
            let seconds = phase["seconds"].as_f64().unwrap_or(f64::NAN);
            match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(seconds),
                None => times.push((name, vec![seconds])),
            }
        }
    }
    let shown = |(name, all): (&str, Vec<f64>)| format!("{name} {:.2} s", median(all));
    let shown: Vec<String> = times.into_iter().map(shown).collect();
    shown.join(", ")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (_, _) if values.is_empty() => f64::NAN,
        (middle, 1) => values[middle],
        (middle, _) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_compared_within_a_round() {
        let way = |walls: &[(usize, f64)]| Way {
            rounds: walls
                .iter()
                .map(|&(round, wall_s)| Run {
                    round,
                    wall_s,
                    ..Run::default()
                })
                .collect(),
            ..Way::new(Contender::Floor)
        };
        let floor = way(&[(1, 2.0), (2, 4.0), (3, 8.0)]);
        assert_eq!(
            ratio(&way(&[(2, 4.0), (3, 4.0)]), &floor),
            "0.75 (0.50 to 1.00)"
        );
        assert_eq!(ratio(&way(&[(3, 4.0)]), &floor), "0.50");
        assert_eq!(ratio(&way(&[(4, 4.0)]), &floor), "");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
