//! The arms that come with waggle.

use super::{ArmSpec, ObserverSpec};

/// The name of what all arms are compared with.
pub(crate) const BASE_NAME: &str = "none";
/// The A/A arm.
pub(crate) const AA_NAME: &str = "none-again";

/// Names of the built-in arms, in the order of the report; the first is the A/A arm.
pub(crate) const NAMES: [&str; 9] = [
    AA_NAME,
    "probe-empty",
    "watch",
    "watch-packets",
    "watch-perfschema",
    "watch-slowlog",
    "perfschema",
    "general-log",
    "slow-log-all",
];

/// The arms of a run that names none.
pub(crate) const DEFAULT: [&str; 5] = [
    "probe-empty",
    "watch",
    "perfschema",
    "general-log",
    "slow-log-all",
];

/// The built-in arm of this name.
pub(crate) fn arm(name: &str) -> Option<ArmSpec> {
    let watch = |source: &str| {
        Some(ObserverSpec::Watch {
            source: source.to_owned(),
            args: Vec::new(),
        })
    };
    let every = Some("every statement: text, times, rows, errors".to_owned());
    let digests = Some("sums by digest".to_owned());
    let performance_schema = vec![("performance_schema".to_owned(), "ON".to_owned())];
    let arm = match name {
        AA_NAME => ArmSpec {
            aa: true,
            windows_planned: 50,
            target: Some(0.015),
            ..ArmSpec::new(name, "nothing, again (A/A)")
        },
        "probe-empty" => ArmSpec {
            observer: Some(ObserverSpec::ProbeEmpty),
            sees: Some("nothing: the trap alone".to_owned()),
            windows_planned: 30,
            ..ArmSpec::new(name, "probe, empty program")
        },
        "watch" => ArmSpec {
            observer: watch("uprobe"),
            sees: every,
            windows_planned: 90,
            target: Some(0.010),
            ..ArmSpec::new(name, "waggle watch")
        },
        "watch-packets" => ArmSpec {
            observer: watch("packets"),
            sees: Some("every statement over TCP: text, answer times, rows, errors".to_owned()),
            ..ArmSpec::new(name, "waggle watch, packets")
        },
        "watch-perfschema" => ArmSpec {
            settings: performance_schema,
            observer: watch("perfschema"),
            sees: digests,
            ..ArmSpec::new(name, "waggle watch, PERFORMANCE_SCHEMA polled")
        },
        "watch-slowlog" => ArmSpec {
            observer: watch("slowlog"),
            sees: every,
            label: "waggle watch, slow log followed".to_owned(),
            ..log(name, "slow_query_log")
        },
        "perfschema" => ArmSpec {
            settings: performance_schema,
            sees: digests,
            windows_planned: 0,
            ..ArmSpec::new(name, "PERFORMANCE_SCHEMA")
        },
        "general-log" => ArmSpec {
            sees: Some("every statement's text and time".to_owned()),
            label: "general log".to_owned(),
            ..log(name, "general_log")
        },
        "slow-log-all" => ArmSpec {
            sees: every,
            label: "slow log, every statement".to_owned(),
            ..log(name, "slow_query_log")
        },
        _ => return None,
    };
    Some(arm)
}

/// A log of the server that one variable switches and another names the file of.
fn log(name: &str, variable: &str) -> ArmSpec {
    ArmSpec {
        on: vec![format!("SET GLOBAL {variable} = ON")],
        off: vec![format!("SET GLOBAL {variable} = OFF")],
        files: vec![format!("{variable}_file")],
        ..ArmSpec::new(name, name)
    }
}
