//! Made-up studies: a large one with the shape of a real one, for looking at the page, and a small
//! one that uses every variant. Both come out the same every time.

use std::collections::BTreeMap;

use waggle_report::lab::{
    Arm, ArmKind, BaseArm, Difference, LabVerdict, LatencyDifferences, Primary, ProbeFacts, Ratio,
    TypeArm, TypeReport, TypeWindow, Window, Workload,
};
use waggle_report::study::{
    AgentCost, Curve, CurvePoint, Published, STUDY_FORMAT_VERSION, StudyCell, StudyColumn,
    StudyReport, StudyRow, StudyTable, StudyValue,
};

use crate::example::{Noise, histogram, realistic};

const ARTICLE: &str = "DBdoctor: eBPF overhead in torture tests (2024), tables 1 to 3";

/// Part, published changes of throughput in percent at each number of threads, our cost in µs.
const SCENES: [(&str, &str, [f64; 7], f64); 3] = [
    (
        "Scene A: read-only",
        "oltp_read_only",
        [-0.4, -0.9, -1.3, -2.1, -3.2, -4.4, -4.96],
        1.2,
    ),
    (
        "Scene A: write-only",
        "oltp_write_only",
        [0.3, -0.2, 0.6, 1.2, -0.5, 0.1, -0.3],
        1.4,
    ),
    (
        "Scene A: read-write",
        "oltp_read_write",
        [-0.3, -0.5, -0.6, -0.9, -1.05, -1.0, -0.9],
        1.3,
    ),
];
/// Latencies in each histogram: enough for a tail, few enough for a quick test.
const VALUES: u32 = 3_000;
const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// A study like `waggle lab study dbdoctor` with two cells of LinkBench.
pub(crate) fn realistic_study() -> StudyReport {
    let mut noise = Noise(7);
    let mut cells = Vec::new();
    let mut t_s = 3.0;
    for (part, workload, _, cost) in SCENES {
        for threads in THREADS {
            cells.push(oltp(&mut noise, part, workload, threads, cost, &mut t_s));
        }
    }
    cells.push(linkbench(&mut noise, "CPU-bound", &mut t_s));
    cells.push(linkbench(
        &mut noise,
        "4 CPUs for server and agent",
        &mut t_s,
    ));
    // One cell where the method did not hold.
    cells[11].aa_clean = false;
    cells[11].notes = vec!["Another process took a core for two minutes of this cell.".to_owned()];
    let lab = realistic();
    StudyReport {
        format_version: STUDY_FORMAT_VERSION,
        name: "dbdoctor".to_owned(),
        title: "The DBdoctor overhead study, repeated".to_owned(),
        question: "What does watching every statement cost, from one thread to saturation?"
            .to_owned(),
        answer: "Watching every statement of MySQL 9.7.4 cost 1.2 µs of server CPU per statement \
                 (95% CI 1.1 to 1.3) read-only and 1.4 µs (1.2 to 1.6) write-only; at saturation \
                 that is -4.1% of read-only throughput (-4.9 to -3.3), where the article has \
                 -4.96%."
            .to_owned(),
        command: "waggle lab study dbdoctor --quick --seed 7".to_owned(),
        waggle_version: "0.1.0".to_owned(),
        started: "2026-11-21T10:03:12.481Z".to_owned(),
        duration_s: t_s + 4.0,
        server: lab.server,
        environment: lab.environment,
        tables: tables(&cells),
        curves: curves(&cells),
        agent: agent(),
        published: published(),
        cells,
        notes: vec![
            "This machine has two cores where the article's had 16: points above 4 threads are \
             all at saturation here."
                .to_owned(),
            "The agent's cap of one core is half of this machine.".to_owned(),
        ],
    }
}

fn oltp(
    noise: &mut Noise,
    part: &str,
    workload: &str,
    threads: u32,
    cost: f64,
    t_s: &mut f64,
) -> StudyCell {
    let arms = [
        ("none-again", "nothing attached, again", 0.0, false),
        ("watch", "waggle watch", cost, false),
        ("perfschema", "PERFORMANCE_SCHEMA", cost * 1.6, true),
    ];
    let base = 24.0 + f64::from(threads).ln();
    let busy = (f64::from(threads) / 4.0).min(1.0);
    let windows = windows(noise, base, busy, &arms, t_s);
    let mut made = Vec::new();
    for (name, label, cost, lives) in arms {
        made.push(arm(noise, name, label, lives, base, cost, busy, &windows));
    }
    let slower = |cost: f64| 2.4 / (1.0 + cost / base);
    StudyCell {
        id: format!("{workload}-t{threads}"),
        part: part.to_owned(),
        title: format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
        workload: Workload {
            name: workload.to_owned(),
            threads,
            tables: 4,
            table_size: 100_000,
            ..Workload::default()
        },
        base: BaseArm {
            name: "none".to_owned(),
            label: "nothing attached".to_owned(),
        },
        subject: "watch".to_owned(),
        arms: made,
        aa_clean: true,
        margin: 0.015,
        windows,
        histograms: [("none", 0.0), ("watch", cost), ("perfschema", cost * 1.6)]
            .map(|(name, cost)| (name.to_owned(), histogram(noise, slower(cost), VALUES)))
            .into(),
        latency_of: "transaction".to_owned(),
        probes: vec![ProbeFacts {
            arm: "watch".to_owned(),
            place: "log_slow_statement+4".to_owned(),
            mode: Some("emulated".to_owned()),
            hits: Some(213_411),
            program_ns: Some(412.0),
        }],
        ..StudyCell::default()
    }
}

/// Name, label, cost in µs, and whether it takes a server of its own.
type Sketch = (&'static str, &'static str, f64, bool);

/// Fourteen rounds of the base and every arm.
fn windows(noise: &mut Noise, base: f64, busy: f64, arms: &[Sketch], t_s: &mut f64) -> Vec<Window> {
    let mut windows = Vec::new();
    for round in 0..14 {
        for (name, _, cost, _) in [("none", "", 0.0, false)]
            .into_iter()
            .chain(arms.iter().copied())
        {
            let qps = 21_000.0 * busy * (1.0 - busy * cost / base) * (1.0 + 0.02 * noise.normal());
            windows.push(Window {
                t_s: *t_s,
                duration_s: 0.8,
                arm: name.to_owned(),
                statements: (qps * 0.8) as u64,
                qps: qps.round(),
                server_cpu_us_per_statement: Some((base + cost) * (1.0 + 0.01 * noise.normal())),
                discarded: round == 0,
                note: (round == 0).then(|| "warm-up block".to_owned()),
                marks: if round % 6 == 5 && name == "none" {
                    vec!["checkpoint".to_owned()]
                } else {
                    Vec::new()
                },
                ..Window::default()
            });
            *t_s += 0.86;
        }
    }
    windows
}

#[expect(clippy::too_many_arguments, reason = "a fixture spelled out")]
fn arm(
    noise: &mut Noise,
    name: &str,
    label: &str,
    lives: bool,
    base: f64,
    cost: f64,
    busy: f64,
    windows: &[Window],
) -> Arm {
    let half = if lives { 0.62 } else { 0.16 } * (0.8 + 0.4 * noise.uniform());
    let cost = cost + 0.3 * half * noise.normal();
    let share = |part: f64| part / base;
    let own = || windows.iter().filter(|window| window.arm == name);
    let executed = own().map(|window| window.statements).sum();
    let latency = |scale: f64| {
        Some(Difference {
            base: 190.0 * scale,
            delta: cost * 4.0 * scale,
            low: (cost - half) * 4.0 * scale,
            high: (cost + half) * 4.0 * scale,
        })
    };
    let watch = name == "watch";
    let sees = match name {
        "watch" => Some("Every statement: text, digest, rows, errors, time."),
        "perfschema" => Some("Every statement's digest and times; texts of the last ten."),
        _ => None,
    };
    Arm {
        name: name.to_owned(),
        label: label.to_owned(),
        kind: [ArmKind::InLife, ArmKind::ServerLives][usize::from(lives)],
        aa: name == "none-again",
        windows: own().count() as u64,
        cpu_us_per_statement: Some(Difference {
            base,
            delta: cost,
            low: cost - half,
            high: cost + half,
        }),
        cpu_ratio: Some(ratio(share(cost), share(half))),
        detectable_us: Some(half * 1.4),
        qps_ratio: Some(ratio(-share(cost) * busy, share(half) * 1.3)),
        latency_us: LatencyDifferences {
            p50: latency(1.0),
            p95: latency(2.1),
            p99: latency(4.4),
        },
        captured: watch.then_some(executed),
        executed,
        verdict: match name {
            "none-again" => LabVerdict::NoDifference,
            _ if cost - half > 0.0 => LabVerdict::Costs,
            _ => LabVerdict::NotEnoughEvidence,
        },
        sees: sees.map(str::to_owned),
        switched_by: match name {
            "watch" => vec!["waggle watch --pid SERVER".to_owned()],
            "perfschema" => vec!["performance_schema=ON".to_owned()],
            _ => Vec::new(),
        },
        ..Arm::default()
    }
}

fn ratio(change: f64, half: f64) -> Ratio {
    Ratio {
        estimate: 1.0 + change,
        low: 1.0 + change - half,
        high: 1.0 + change + half,
    }
}

fn linkbench(noise: &mut Noise, title: &str, t_s: &mut f64) -> StudyCell {
    let mut cell = oltp(noise, "LinkBench", "linkbench", 16, 2.6, t_s);
    cell.id = format!("linkbench {title}");
    cell.title = title.to_owned();
    cell.primary = Primary::Throughput;
    cell.workload.rate = Some(4_500.0);
    cell.workload.limits = vec!["server and agent on processor 0 (cpuset)".to_owned()];
    cell.settings = [("innodb_buffer_pool_size".to_owned(), "33554432".to_owned())].into();
    let types = [("ADD_LINK", 780.0, 0.09), ("GET_LINKS_LIST", 240.0, 0.51)];
    for window in &mut cell.windows {
        for (name, mean, share) in types {
            let mean_us = mean * (1.0 + 0.03 * noise.normal());
            let reading = TypeWindow {
                statements: (window.statements as f64 * share) as u64,
                mean_us,
                p99_us: mean_us * (4.0 + 0.6 * noise.normal()),
            };
            window.types.insert(name.to_owned(), reading);
        }
    }
    cell.types = types
        .iter()
        .map(|(name, mean, share)| type_report(noise, &cell, name, *mean, *share))
        .collect();
    cell
}

fn type_report(
    noise: &mut Noise,
    cell: &StudyCell,
    name: &str,
    mean: f64,
    share: f64,
) -> TypeReport {
    let arms = cell.arms.iter().map(|arm| {
        let change = arm.cpu_ratio.map_or(0.0, |ratio| ratio.estimate - 1.0) * 1.4;
        let quantile = |factor: f64| {
            let base = mean * factor;
            Some(Difference {
                base,
                delta: base * change,
                low: base * (change - 0.02),
                high: base * (change + 0.02),
            })
        };
        TypeArm {
            arm: arm.name.clone(),
            executed: (arm.executed as f64 * share) as u64,
            rate_ratio: arm.qps_ratio,
            mean_us: quantile(1.0),
            p50_us: quantile(0.8),
            p95_us: quantile(2.2),
            p99_us: quantile(4.0),
        }
    });
    let histograms = [("none", 1.0), ("watch", 1.08), ("perfschema", 1.14)].map(|(arm, slower)| {
        (
            arm.to_owned(),
            histogram(noise, slower * mean / 82.0, VALUES),
        )
    });
    TypeReport {
        name: name.to_owned(),
        arms: arms.collect(),
        histograms: histograms.into(),
    }
}

fn change(arm: &Arm) -> StudyValue {
    arm.qps_ratio.map_or(StudyValue::absent("no pairs"), |r| {
        StudyValue::estimate(
            (r.estimate - 1.0) * 100.0,
            (r.low - 1.0) * 100.0,
            (r.high - 1.0) * 100.0,
        )
    })
}

fn tables(cells: &[StudyCell]) -> Vec<StudyTable> {
    let column = |group: &str, title: &str, unit: &str| StudyColumn {
        group: group.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
    };
    SCENES
        .iter()
        .map(|(part, _, article, _)| {
            let rows = cells.iter().filter(|cell| cell.part == *part).zip(article);
            let rows = rows.map(|(cell, article)| {
                let base = cell.windows.iter().find(|window| window.arm == "none");
                let mut watched = change(&cell.arms[1]);
                if let StudyValue::Estimate { unclaimed, .. } = &mut watched {
                    *unclaimed = !cell.aa_clean;
                }
                StudyRow {
                    label: cell.workload.threads.to_string(),
                    cell: Some(cell.id.clone()),
                    values: vec![
                        StudyValue::plain(base.map_or(f64::NAN, |window| window.qps), 0),
                        watched,
                        StudyValue::Published {
                            value: *article,
                            digits: 2,
                        },
                        if cell.workload.threads == 64 {
                            StudyValue::absent("too few pairs of servers fitted in the time")
                        } else {
                            change(&cell.arms[2])
                        },
                    ],
                }
            });
            StudyTable {
                id: part.to_lowercase().replace([':', ' '], "-"),
                title: (*part).to_owned(),
                caption: "Change of throughput against nothing attached; the article's own \
                          figure is a difference of means of five."
                    .to_owned(),
                row_title: "threads".to_owned(),
                columns: vec![
                    column("", "base", "queries/s"),
                    column("waggle watch", "change", "%, 95% CI"),
                    column("The article's agent", "change", "%"),
                    column("PERFORMANCE_SCHEMA", "change", "%, 95% CI"),
                ],
                rows: rows.collect(),
            }
        })
        .collect()
}

fn curves(cells: &[StudyCell]) -> Vec<Curve> {
    SCENES
        .iter()
        .map(|(part, _, article, _)| {
            let own = cells.iter().filter(|cell| cell.part == *part);
            let points = own.flat_map(|cell| {
                cell.arms.iter().filter(|arm| !arm.aa).map(|arm| {
                    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                    let ratio = arm.qps_ratio.unwrap_or_default();
                    CurvePoint {
                        cell: cell.id.clone(),
                        arm: arm.name.clone(),
                        x: f64::from(cell.workload.threads),
                        estimate: percent(ratio.estimate),
                        low: Some(percent(ratio.low)),
                        high: Some(percent(ratio.high)),
                        unclaimed: !cell.aa_clean,
                    }
                })
            });
            Curve {
                id: part.to_lowercase().replace([':', ' '], "-"),
                title: (*part).to_owned(),
                x_title: "threads".to_owned(),
                x_log: true,
                y_title: "change of throughput".to_owned(),
                unit: "%".to_owned(),
                points: points.collect(),
                published: THREADS
                    .iter()
                    .zip(article)
                    .map(|(threads, change)| CurvePoint {
                        arm: "DBdoctor's agent".to_owned(),
                        x: f64::from(*threads),
                        estimate: *change,
                        ..CurvePoint::default()
                    })
                    .collect(),
            }
        })
        .collect()
}

fn agent() -> Vec<AgentCost> {
    let cost = |label: &str, rate: f64, cores: f64, rss: u64, note: &str| AgentCost {
        label: label.to_owned(),
        statements_per_s: Some(rate),
        cores: Some(cores),
        cores_low: Some(cores * 0.93),
        cores_high: Some(cores * 1.07),
        cpu_us_per_statement: (rate > 0.0).then_some(cores * 1e6 / rate),
        rss_bytes: Some(rss),
        captured: Some((rate * 30.0) as u64),
        executed: Some((rate * 30.0) as u64),
        note: note.to_owned(),
        ..AgentCost::default()
    };
    let mut starved = cost(
        "starved: 5% of a core",
        20_800.0,
        0.05,
        27_000_000,
        "shed texts, then sampled every second statement",
    );
    starved.captured = Some(412_200);
    let mut list = vec![
        cost("host metrics only", 0.0, 0.002, 13_600_000, ""),
        cost("attached, no load", 0.0, 0.004, 22_000_000, ""),
        cost("5,000 statements a second", 5_000.0, 0.006, 24_100_000, ""),
        cost("all the server can do", 20_800.0, 0.014, 25_800_000, ""),
        cost("3 servers", 19_300.0, 0.015, 31_400_000, ""),
        starved,
    ];
    list[0].captured = None;
    list[0].executed = None;
    list.push(AgentCost {
        label: "8 servers".to_owned(),
        note: "not measured: too little memory for so many servers".to_owned(),
        ..AgentCost::default()
    });
    list
}

fn published() -> Vec<Published> {
    let figure = |what: &str, value: f64, unit: &str, ours: Option<StudyValue>| Published {
        what: what.to_owned(),
        value,
        unit: unit.to_owned(),
        source: ARTICLE.to_owned(),
        cell: None,
        ours,
    };
    vec![
        figure(
            "Read-only QPS at saturation, agent on",
            -4.96,
            "%",
            Some(StudyValue::estimate(-4.1, -4.9, -3.3)),
        ),
        figure(
            "Read-write QPS, agent on",
            -1.05,
            "%",
            Some(StudyValue::estimate(-4.4, -5.1, -3.6)),
        ),
        figure(
            "CPU in mysqld and agent per statement",
            42.0,
            "µs",
            Some(StudyValue::level(1.52, 1.4, 1.64)),
        ),
        figure(
            "One statement, debug printing on",
            0.147,
            "ms",
            Some(StudyValue::absent("")),
        ),
        Published {
            source: "Percona: benchmark of the VividCortex agent (2014)".to_owned(),
            ..figure("LinkBench throughput, packets", -10.7, "%", None)
        },
    ]
}

/// A short study with every variant of every type, present and absent, and hostile text.
pub(crate) fn every_study_variant() -> StudyReport {
    let mut study = realistic_study();
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}'\"&amp;\u{2028}";
    study.cells = vec![study.cells[3].clone(), study.cells[22].clone()];
    for cell in &mut study.cells {
        cell.windows.truncate(4);
        cell.windows[1].server_cpu_us_per_statement = None;
        cell.histograms = BTreeMap::new();
    }
    let named = &mut study.cells[1];
    named.types.truncate(1);
    named.types[0].histograms = [("none".to_owned(), vec![(90.0, 2), (120.5, 1)])].into();
    if let Some(reading) = named.windows[2].types.values_mut().next() {
        reading.mean_us = f64::NAN;
        reading.p99_us = f64::NAN;
    }
    named.types[0].arms[2].p99_us = None;
    named.id = hostile.to_owned();
    named.title = hostile.to_owned();
    named.arms[1].label = hostile.to_owned();
    named.windows[0].marks = vec![hostile.to_owned()];
    named.probes[0].mode = None;
    named.probes[0].hits = None;
    named.margin = f64::NAN;
    study.cells[0].aa_clean = false;
    study.cells[0].primary = Primary::LatencyP99;
    study.tables.truncate(1);
    let table = &mut study.tables[0];
    table.title = hostile.to_owned();
    table.rows.truncate(2);
    table.rows[0].label = hostile.to_owned();
    table.rows[0].values = vec![
        StudyValue::Plain {
            value: f64::INFINITY,
            digits: 200,
        },
        StudyValue::Estimate {
            value: f64::NAN,
            low: -1.0,
            high: 1.0,
            unclaimed: true,
        },
        StudyValue::text(hostile),
        StudyValue::absent(hostile),
    ];
    table.rows[1].values.truncate(3);
    study.curves.truncate(1);
    study.curves[0].points.truncate(3);
    study.curves[0].points[0].estimate = f64::NAN;
    study.curves[0].points[1].low = None;
    study.curves[0].published.truncate(1);
    study.agent.truncate(1);
    study.agent.push(AgentCost {
        label: hostile.to_owned(),
        ..AgentCost::default()
    });
    study.published[0].what = hostile.to_owned();
    study.answer = hostile.to_owned();
    study.notes = vec![hostile.to_owned()];
    study
}
