//! Made-up lab reports: a small one that uses every variant, and a large one with the figures of a
//! real machine, for looking at the page. Both come out the same every time.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use waggle_report::host::HostFacts;
use waggle_report::lab::{
    Arm, ArmKind, BaseArm, Difference, LAB_FORMAT_VERSION, LabReport, LabServer, LabVerdict,
    LatencyDifferences, Ratio, ToolCost, Window, Workload,
};

/// A generator of repeatable noise (SplitMix64).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, mean 0, deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Name, label, server lives, base µs, cost µs, half-width µs, throughput change and half-width.
type Sketch = (&'static str, &'static str, bool, f64, f64, f64, f64, f64);

const SKETCHES: [Sketch; 6] = [
    (
        "none-again",
        "nothing attached, again",
        false,
        17.5,
        0.02,
        0.13,
        0.001,
        0.007,
    ),
    (
        "probe-empty",
        "empty probe",
        false,
        17.5,
        0.82,
        0.14,
        -0.035,
        0.008,
    ),
    (
        "watch",
        "waggle watch",
        false,
        17.5,
        1.21,
        0.17,
        -0.058,
        0.009,
    ),
    (
        "perfschema",
        "PERFORMANCE_SCHEMA",
        true,
        14.4,
        1.83,
        0.62,
        -0.089,
        0.041,
    ),
    (
        "slow-log-all",
        "slow log, every statement",
        false,
        17.5,
        6.9,
        0.31,
        -0.262,
        0.013,
    ),
    (
        "general-log",
        "general log to a file",
        false,
        17.5,
        8.4,
        0.35,
        -0.347,
        0.014,
    ),
];

/// A report like one of `waggle lab run` on a two-core machine.
pub(crate) fn realistic() -> LabReport {
    static MADE: OnceLock<LabReport> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> LabReport {
    let mut noise = Noise(20_261_121);
    let windows = windows(&mut noise);
    let arms = SKETCHES
        .iter()
        .map(|sketch| arm(sketch, &windows))
        .collect();
    let histograms = [("none", 1.0)]
        .into_iter()
        .chain(
            SKETCHES
                .iter()
                .map(|sketch| (sketch.0, 1.0 / (1.0 + sketch.6))),
        )
        .map(|(name, slower)| (name.to_owned(), histogram(&mut noise, slower, 60_000)))
        .collect();
    LabReport {
        format_version: LAB_FORMAT_VERSION,
        question: "What does watching every statement of MySQL 9.7.4 cost the server?".to_owned(),
        command: "waggle lab run --sandbox mysql --workload oltp_point_select --threads 8 \
                  --tables 1 --table-size 100000 --seed 7"
            .to_owned(),
        waggle_version: "0.1.0".to_owned(),
        started: "2026-11-21T10:03:12.481Z".to_owned(),
        duration_s: windows
            .last()
            .map_or(0.0, |last| last.t_s + last.duration_s + 2.0),
        server: LabServer {
            flavour: "MySQL".to_owned(),
            version: "9.7.4".to_owned(),
            build_id: Some("5b0c9f6f4e0f2a7b5f1c3f8f6a1d0e9b7c4a2d11".to_owned()),
            settings: settings(),
        },
        environment: machine(),
        workload: Workload {
            name: "oltp_point_select".to_owned(),
            threads: 8,
            tables: 1,
            table_size: 100_000,
            ..Workload::default()
        },
        base: BaseArm {
            name: "none".to_owned(),
            label: "nothing attached".to_owned(),
        },
        subject: "watch".to_owned(),
        arms,
        aa_clean: true,
        margin: 0.015,
        windows,
        histograms,
        latency_of: "statement".to_owned(),
        notes: vec![
            "This machine has no hardware counters, so instructions per statement were not \
             measured."
                .to_owned(),
            "Load, server and agent share two cores: throughput pays for the load generator and \
             the agent too, CPU in the server does not."
                .to_owned(),
        ],
        ..LabReport::default()
    }
}

fn windows(noise: &mut Noise) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut t_s = 4.0;
    let in_life: Vec<(&str, f64, f64)> = [("none", 0.0, 0.0)]
        .into_iter()
        .chain(SKETCHES.iter().filter(|s| !s.2).map(|s| (s.0, s.4, s.6)))
        .collect();
    for block in 0..32 {
        let mut order: Vec<usize> = (0..in_life.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, (noise.next() % (index as u64 + 1)) as usize);
        }
        for index in order {
            let (name, cost, slower) = in_life[index];
            windows.push(window(noise, t_s, name, 17.5 + cost, slower, block == 0));
            t_s += 0.86;
        }
    }
    for pair in 0..8 {
        t_s += 3.4;
        for arm in if pair % 2 == 0 {
            ["none", "perfschema"]
        } else {
            ["perfschema", "none"]
        } {
            let (cost, slower) = if arm == "none" {
                (0.0, 0.0)
            } else {
                (1.83, -0.089)
            };
            windows.push(window(noise, t_s, arm, 14.4 + cost, slower, false));
            t_s += 3.9;
        }
    }
    windows
}

fn window(noise: &mut Noise, t_s: f64, arm: &str, cpu: f64, slower: f64, warm: bool) -> Window {
    // The machine drifts slowly and now and then stalls; all arms share it.
    let drift = 1.0 + 0.10 * (t_s / 37.0).sin() + 0.05 * (t_s / 11.0).cos();
    let stall = if noise.next().is_multiple_of(41) {
        0.8
    } else {
        1.0
    };
    let qps = 84_000.0 * drift * stall * (1.0 + slower) * (1.0 + 0.012 * noise.normal());
    let cpu_us = cpu / drift.powf(0.35) * (1.0 + 0.006 * noise.normal());
    let stalled = stall < 1.0 && noise.next().is_multiple_of(2);
    Window {
        t_s: (t_s * 1e3).round() / 1e3,
        duration_s: 0.8,
        arm: arm.to_owned(),
        statements: (qps * 0.8) as u64,
        qps: qps.round(),
        server_cpu_us_per_statement: Some((cpu_us * 1e3).round() / 1e3),
        discarded: warm || stalled,
        note: match (warm, stalled) {
            (true, _) => Some("warm-up block".to_owned()),
            (_, true) => Some("a checkpoint began in this window".to_owned()),
            _ => None,
        },
        ..Window::default()
    }
}

fn tool(watch: bool) -> ToolCost {
    ToolCost {
        cpu_us_per_statement: if watch { 0.31 } else { 0.0 },
        cpu_s: if watch { 0.62 } else { 0.01 },
        rss_bytes: if watch { 25_794_969 } else { 9_437_184 },
    }
}

fn arm(sketch: &Sketch, windows: &[Window]) -> Arm {
    let &(name, label, lives, base, cost, half, qps, qps_half) = sketch;
    let used = |window: &&Window| window.arm == name && !window.discarded;
    let executed: u64 = windows
        .iter()
        .filter(used)
        .map(|window| window.statements)
        .sum();
    let shift = |base: f64, factor: f64| {
        let delta = (base * (1.0 / (1.0 + qps) - 1.0) * factor * 10.0).round() / 10.0;
        let half = base * qps_half * 1.2 * factor;
        Some(Difference {
            base,
            delta,
            low: delta - half,
            high: delta + half,
        })
    };
    let watch = name == "watch";
    Arm {
        name: name.to_owned(),
        label: label.to_owned(),
        kind: [ArmKind::InLife, ArmKind::ServerLives][usize::from(lives)],
        aa: name == "none-again",
        windows: windows.iter().filter(used).count() as u64,
        cpu_us_per_statement: Some(Difference {
            base,
            delta: cost,
            low: cost - half,
            high: cost + half,
        }),
        cpu_ratio: Some(Ratio {
            estimate: 1.0 + cost / base,
            low: 1.0 + (cost - half) / base,
            high: 1.0 + (cost + half) / base,
        }),
        detectable_us: Some(half * 1.4),
        qps_ratio: Some(Ratio {
            estimate: 1.0 + qps,
            low: 1.0 + qps - qps_half,
            high: 1.0 + qps + qps_half,
        }),
        latency_us: LatencyDifferences {
            p50: shift(86.0, 1.0),
            p95: shift(171.0, 1.3),
            p99: shift(388.0, 2.1),
        },
        tool: (watch || name == "probe-empty").then(|| tool(watch)),
        captured: watch.then_some(executed),
        executed,
        lost: if watch {
            [
                ("ring buffer full".to_owned(), 0),
                ("text cut at 4 KiB".to_owned(), 0),
            ]
            .into()
        } else {
            BTreeMap::new()
        },
        verdict: if name == "none-again" {
            LabVerdict::NoDifference
        } else {
            LabVerdict::Costs
        },
        note: lives.then(|| "the server was restarted between on and off".to_owned()),
        ..Arm::default()
    }
}

pub(crate) fn histogram(noise: &mut Noise, slower: f64, values: u32) -> Vec<(f64, u64)> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..values {
        let bulk = 82.0 * slower * (0.26 * noise.normal()).exp();
        let tail = match noise.next() % 1000 {
            0..=11 => 240.0 + 900.0 * noise.uniform().powi(3),
            12 => 2_000.0 + 9_000.0 * noise.uniform().powi(4),
            _ => 0.0,
        };
        let us = bulk + tail;
        // Three significant digits, as the recorder keeps.
        let step = 10_f64.powf((us.log10() - 2.0).floor().max(-1.0));
        *buckets
            .entry(((us / step).ceil() * step * 1e3).round() as u64)
            .or_default() += 1;
    }
    buckets
        .into_iter()
        .map(|(ns, count)| (ns as f64 / 1e3, count))
        .collect()
}

fn settings() -> BTreeMap<String, String> {
    [
        ("innodb_buffer_pool_size", "268435456"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("log_bin", "OFF"),
        ("max_connections", "151"),
        ("performance_schema", "OFF"),
        ("slow_query_log", "OFF"),
        ("thread_handling", "one-thread-per-connection"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn machine() -> HostFacts {
    HostFacts {
        kernel: Some("6.18.44".to_owned()),
        architecture: "x86_64".to_owned(),
        system: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        cpu_model: Some("Intel(R) Xeon(R) Processor @ 2.90GHz".to_owned()),
        cores: Some(2),
        smt: Some(true),
        memory_bytes: Some(24 << 30),
        clocksource: Some("kvm-clock".to_owned()),
        governor: None,
        transparent_huge_pages: Some("madvise".to_owned()),
        virtualisation: Some("kvm".to_owned()),
        lockdown: Some("integrity".to_owned()),
        mitigations: [
            (
                "spectre_v2",
                "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional",
            ),
            (
                "spec_store_bypass",
                "Mitigation: Speculative Store Bypass disabled via prctl",
            ),
        ]
        .map(|(name, state)| (name.to_owned(), state.to_owned()))
        .into(),
    }
}

/// A short report with every variant of every type, present and absent, and hostile text.
pub(crate) fn every_variant() -> LabReport {
    let mut report = realistic();
    report.windows.truncate(3);
    report.windows[1].server_cpu_us_per_statement = None;
    report.histograms = [
        ("none".to_owned(), vec![(81.9, 3), (90.0, 1)]),
        ("watch".to_owned(), Vec::new()),
    ]
    .into();
    report.arms.truncate(4);
    report.environment.smt = None;
    report.environment.mitigations.clear();
    report.server.build_id = None;
    for (arm, verdict) in report.arms.iter_mut().zip([
        LabVerdict::NoDifference,
        LabVerdict::Saves,
        LabVerdict::Costs,
        LabVerdict::NotEnoughEvidence,
    ]) {
        arm.verdict = verdict;
    }
    report.arms[2].captured = Some(report.arms[2].executed.saturating_sub(12));
    report.arms[2].lost = [("ring buffer full".to_owned(), 12)].into();
    let unmeasured = &mut report.arms[3];
    unmeasured.cpu_us_per_statement = Some(Difference {
        base: 14.4,
        delta: f64::NAN,
        low: f64::NEG_INFINITY,
        high: 1.0,
    });
    unmeasured.cpu_ratio = None;
    unmeasured.qps_ratio = None;
    unmeasured.detectable_us = None;
    unmeasured.latency_us = LatencyDifferences::default();
    report.notes = vec!["</script><b>not markup</b>\u{2028}&amp;".to_owned()];
    report
}
