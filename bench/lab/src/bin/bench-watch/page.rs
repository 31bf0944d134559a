//! The page that is filed.

use std::fmt::Write;

use waggle_bench_lab::filed::Facts;
use waggle_bench_lab::numbers::{mean, ratio, shown};

use crate::Results;
use crate::plan::{LEVELS, Plan};
use crate::price::{Priced, Range};
use crate::standing::{Look, Standing};
use crate::starved::Run;

/// What DBdoctor's own study of its agent says, for every 10,000 statements a second: cores in
/// mysqld and in the agent. 0.2 and 0.22 of a core are 20 and 22 us a statement.
const DBDOCTOR_US: (f64, f64) = (20.0, 22.0);
/// Its agent's memory with everything on, and with the host's figures alone, MiB.
const DBDOCTOR_MIB: (f64, f64) = (0.168 * 1024.0, 0.028 * 1024.0);

/// What waggle promises of itself.
const PROMISED_US: (f64, f64) = (1.5, 0.3);
const PROMISED_BUSY_MIB: f64 = 64.0;
const PROMISED_FURTHER_MIB: f64 = 8.0;
const PROMISED_IDLE_SHARE: f64 = 0.002;

/// The whole page.
pub(crate) fn page(facts: &Facts, plan: &Plan, results: &Results) -> String {
    let mut out = facts.head("What `waggle watch` costs");
    // Writing to a String does not fail.
    let server = results.server.as_deref().unwrap_or("none could be started");
    let _ = writeln!(out, "Server: {server}. Intervals are at 95%.");
    price(&mut out, plan, &results.price);
    standing(&mut out, results.standing.as_ref());
    starved(&mut out, plan, &results.starved);
    if !results.failed.is_empty() {
        out.push_str("\n## Failed\n\n");
        for failed in &results.failed {
            let _ = writeln!(out, "- {failed}");
        }
    }
    out
}

fn price(out: &mut String, plan: &Plan, priced: &[Priced]) {
    let _ = write!(
        out,
        "\n## CPU time a statement\n\nBy `waggle lab run`, {} s a condition, 8 connections; \
         PERFORMANCE_SCHEMA, with its default instruments, in the same run. Promised: at most {} \
         us in the server, {} us in the agent. DBdoctor's agent by its makers' study (kernel \
         4.18, 16 cores): {} us in the server, {} us in the agent.\n\n",
        plan.cell_s, PROMISED_US.0, PROMISED_US.1, DBDOCTOR_US.0, DBDOCTOR_US.1
    );
    out.push_str(
        "| condition | arm | statement without, us | in the server, us more | in the observer, us \
         | throughput, ratio | captured of executed | lost |\n|---|---|---|---|---|---|---|---|\n",
    );
    for cell in priced {
        for arm in &cell.arms {
            let captured = arm.captured.map_or("-".to_owned(), |captured| {
                format!("{captured} of {}", arm.executed)
            });
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {captured} | {} |",
                cell.cell.title,
                arm.arm,
                number(arm.base_us, 2),
                range(arm.server_us, 2),
                number(arm.observer_us, 2),
                range(arm.qps_ratio, 3),
                arm.lost,
            );
        }
    }
    let noted = priced.iter().filter(|cell| !cell.notes.is_empty());
    for cell in noted {
        let _ = writeln!(out, "\n{}: {}", cell.cell.title, cell.notes.join(" "));
    }
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn range(value: Option<Range>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |r| {
        format!(
            "{:.decimals$} ({:.decimals$} to {:.decimals$})",
            r.estimate, r.low, r.high
        )
    })
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn standing(out: &mut String, standing: Option<&Standing>) {
    let Some(standing) = standing else {
        return;
    };
    let _ = write!(
        out,
        "\n## Idle, and in memory\n\nPromised: {PROMISED_BUSY_MIB} MiB with one busy server, \
         {PROMISED_FURTHER_MIB} MiB for each further one, {}% of a core when idle. DBdoctor's \
         agent: {:.0} MiB with everything on, {:.0} MiB with the host's figures alone.\n\n\
         | | servers watched | of a core | resident, MiB | largest, MiB |\n|---|---|---|---|---|\n",
        100.0 * PROMISED_IDLE_SHARE,
        DBDOCTOR_MIB.0,
        DBDOCTOR_MIB.1
    );
    let mut row = |what: &str, look: &Look| {
        let _ = writeln!(
            out,
            "| {what} | {} | {:.2}% | {:.1} | {:.1} |",
            look.servers,
            100.0 * look.core_share,
            mib(look.rss_bytes as f64),
            mib(look.rss_peak_bytes as f64)
        );
    };
    row("one idle server", &standing.idle);
    let busy = format!("one server at {:.0} statements a second", standing.busy_qps);
    row(&busy, &standing.busy);
    row("the host alone (`--host-only`)", &standing.host_only);
    for look in &standing.several {
        row(
            &format!("`--all`, {} servers of ours", look.own_servers),
            look,
        );
    }
    let further = standing.further_bytes().map(mib);
    let _ = writeln!(out, "\nEach further server: {} MiB.", number(further, 1));
}

fn starved(out: &mut String, plan: &Plan, runs: &[Run]) {
    if runs.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "\n## Starved of CPU\n\nPoint selects at the server's full speed for {} s, 8 connections; \
         in each of {} rounds every limit once and no agent once, in random order. Throughput and \
         CPU are over those without an agent in the same round.\n\n\
         | limit, of a core | used | captured | lost, by cause | left out at the end | throughput, \
         ratio | server CPU a statement, ratio | all accounted for |\n\
         |---|---|---|---|---|---|---|---|\n",
        plan.starved_s, plan.rounds
    );
    for level in LEVELS {
        let of_level: Vec<&Run> = runs.iter().filter(|run| run.level == Some(level)).collect();
        let over = |value: fn(&Run) -> f64| {
            let without = |run: &&Run| {
                let bare = |other: &&Run| other.round == run.round && other.level.is_none();
                runs.iter().find(bare).map(|bare| value(run) / value(bare))
            };
            ratio(&of_level.iter().filter_map(without).collect::<Vec<f64>>())
        };
        let agents = || of_level.iter().filter_map(|run| run.agent.as_ref());
        let shares: Vec<f64> = of_level
            .iter()
            .filter_map(|run| run.captured_share())
            .collect();
        let used: Vec<f64> = agents().map(|agent| 100.0 * agent.core_share).collect();
        let mut lost = std::collections::BTreeMap::<&str, u64>::new();
        for (cause, count) in agents().flat_map(|agent| &agent.lost) {
            *lost.entry(cause).or_default() += count;
        }
        let lost: Vec<String> = lost
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(cause, count)| format!("{cause} {count}"))
            .collect();
        let mut shed: Vec<&str> = agents().flat_map(|a| &a.shed).map(String::as_str).collect();
        shed.sort_unstable();
        shed.dedup();
        let whole = of_level.iter().all(|run| run.is_accounted_for());
        let _ = writeln!(
            out,
            "| {level}% | {}% | {}% | {} | {} | {} | {} | {} |",
            shown(mean(&used).as_ref(), 1),
            shown(
                mean(&shares).map(|share| share.map(|s| 100.0 * s)).as_ref(),
                1
            ),
            or_none(&lost.join(", ")),
            or_none(&shed.join(", ")),
            shown(over(|run| run.qps).as_ref(), 3),
            shown(over(|run| run.server_us).as_ref(), 3),
            if whole { "yes" } else { "NO" },
        );
    }
}

fn or_none(text: &str) -> &str {
    match text {
        "" => "none",
        some => some,
    }
}
