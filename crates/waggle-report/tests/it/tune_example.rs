//! The document of a tuning run that uses every field, with hostile strings in it.

use std::collections::BTreeMap;

use waggle_report::run::ServerFacts;
use waggle_report::tune::{
    TUNE_FORMAT_VERSION, TuneBlock, TuneConfiguration, TuneGuard, TuneGuardReading, TuneInterval,
    TuneObjective, TuneReport, TuneStage, TuneWorkload,
};

use crate::example::realistic;

/// What foreign strings may hold.
pub(crate) const HOSTILE: &str = "</script><img src=x onerror=alert(1)>|`*_\u{202e}\u{1b}[31m\n,=1";

fn interval(estimate: f64, half: f64) -> Option<TuneInterval> {
    Some(TuneInterval {
        estimate,
        low: estimate - half,
        high: estimate + half,
    })
}

fn configuration(id: usize, value: &str, tps: f64) -> TuneConfiguration {
    let ratio = tps / 800.0;
    TuneConfiguration {
        id,
        label: value.to_owned(),
        values: BTreeMap::from([("replica_parallel_workers".to_owned(), value.to_owned())]),
        x: value.parse().ok(),
        present: id == 0,
        rank: Some(1 + [2, 1, 0][id]),
        place: ["behind", "not-told-apart", "best"][id].to_owned(),
        blocks: 3 + 3 * id,
        restarted: id == 1,
        level: interval(tps, 20.0),
        ratio: interval(ratio, 0.02).filter(|_| id > 0),
        to_best: interval(tps / 1000.0, 0.02).filter(|_| id < 2),
        guards: vec![
            TuneGuardReading {
                name: "p99".to_owned(),
                verdict: "held".to_owned(),
                level: Some(4100.0),
                change: interval(0.97, 0.05),
                is_ratio: true,
            },
            TuneGuardReading {
                name: "errors".to_owned(),
                verdict: "worse".to_owned(),
                level: Some(2.0),
                change: interval(2.0, 0.5),
                is_ratio: false,
            },
        ],
        dropped_after: (id == 0).then_some(6),
        failure: None,
        why: None,
    }
}

fn blocks() -> Vec<TuneBlock> {
    let block = |place: usize| TuneBlock {
        t_s: 6.0 * place as f64,
        seconds: 5.0,
        round: place / 3,
        config: place % 3,
        objective: 800.0 + 100.0 * (place % 3) as f64 + place as f64,
        guards: BTreeMap::from([("p99".to_owned(), 4100.0)]),
        restarted: place % 3 == 1,
    };
    (0..12).map(block).collect()
}

fn guards() -> Vec<TuneGuard> {
    vec![
        TuneGuard {
            name: "p99".to_owned(),
            unit: "us".to_owned(),
            tolerance: 0.05,
            limit: None,
        },
        TuneGuard {
            name: "errors".to_owned(),
            unit: "errors/s".to_owned(),
            tolerance: 0.0,
            limit: Some(5.0),
        },
    ]
}

/// A document with everything that there may be.
pub(crate) fn every_tune() -> TuneReport {
    let failed = TuneConfiguration {
        id: 3,
        label: HOSTILE.to_owned(),
        values: BTreeMap::from([("replica_parallel_workers".to_owned(), HOSTILE.to_owned())]),
        place: "failed".to_owned(),
        failure: Some("refused".to_owned()),
        why: Some(HOSTILE.to_owned()),
        ..TuneConfiguration::default()
    };
    let configurations = vec![
        configuration(0, "4", 800.0),
        configuration(1, "8", 990.0),
        configuration(2, "16", 1000.0),
        failed,
    ];
    let stage = TuneStage {
        name: "workers".to_owned(),
        variables: vec!["replica_parallel_workers".to_owned()],
        base: BTreeMap::from([("primary.sync_binlog".to_owned(), "1".to_owned())]),
        configurations,
        best: Some(2),
        equal_to_best: vec![1],
        recommended: Some(2),
        verdict: "change".to_owned(),
        answer: "replica_parallel_workers = 16: +25.0% tps.".to_owned(),
        ended: "It ended after 16 rounds, the most that were allowed.".to_owned(),
        smallest_detectable: Some(0.02),
        noise: Some(0.013),
        rounds: 16,
        blocks: 12,
        blocks_of_sweep: 64,
        samples: blocks(),
    };
    TuneReport {
        format_version: TUNE_FORMAT_VERSION,
        name: "replica-workers".to_owned(),
        question: HOSTILE.to_owned(),
        answer: format!("replica_parallel_workers = 16. {HOSTILE}"),
        command: "waggle tune study replica-workers".to_owned(),
        waggle_version: "0.1.0".to_owned(),
        started: "2026-11-22T10:03:12.481Z".to_owned(),
        duration_s: 612.5,
        environment: realistic().environment,
        server: ServerFacts {
            flavour: "MySQL".to_owned(),
            version: "9.7.4".to_owned(),
            build_id: None,
            variables: BTreeMap::from([("sync_binlog".to_owned(), "1".to_owned())]),
        },
        workload: TuneWorkload {
            name: "oltp_write_only".to_owned(),
            options: BTreeMap::from([("tables".to_owned(), "4".to_owned())]),
            threads: 16,
            rate: Some(500.0),
        },
        objective: TuneObjective {
            name: "replica-apply-rate".to_owned(),
            unit: "transactions/s applied".to_owned(),
            more_is_better: true,
        },
        guards: guards(),
        strategy: "halving".to_owned(),
        margin: 0.01,
        seed: 1,
        stages: vec![stage, TuneStage::default()],
        notes: vec![HOSTILE.to_owned()],
        error: Some("interrupted".to_owned()),
    }
}
