//! What differs around two runs: the machine, the kernel, the server, its settings, the load.
//!
//! These are named before any figure: a changed cost means nothing of waggle where the kernel
//! changed as well.
//! Invariant: what one of the runs did not note is said to be unknown, never taken for equal.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use waggle_report::host::HostFacts;
use waggle_report::lab::{LabServer, Workload};
use waggle_report::quantity::bytes;

/// What stands for a fact that was not noted.
const UNKNOWN: &str = "not noted";

/// One fact that is not the same in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// The fact, such as `kernel`.
    pub(crate) what: String,
    pub(crate) first: String,
    pub(crate) second: String,
}

/// Collects facts of two runs and keeps those that differ.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) differences: Vec<Difference>,
}

impl Around {
    /// A fact of both; kept if it differs. A fact that neither noted is no difference.
    pub(crate) fn fact(&mut self, what: &str, first: Option<String>, second: Option<String>) {
        if first == second {
            return;
        }
        self.differences.push(Difference {
            what: what.to_owned(),
            first: first.unwrap_or_else(|| UNKNOWN.to_owned()),
            second: second.unwrap_or_else(|| UNKNOWN.to_owned()),
        });
    }

    pub(crate) fn host(&mut self, one: &HostFacts, two: &HostFacts) {
        let own = |host: &HostFacts| {
            [
                ("kernel", host.kernel.clone()),
                ("architecture", Some(host.architecture.clone())),
                ("system", host.system.clone()),
                ("processor", host.cpu_model.clone()),
                ("cores", host.cores.map(|cores| cores.to_string())),
                ("SMT", host.smt.map(on_off)),
                ("memory", host.memory_bytes.map(bytes)),
                ("virtualisation", host.virtualisation.clone()),
                ("clock source", host.clocksource.clone()),
                ("frequency governor", host.governor.clone()),
                ("huge pages", host.transparent_huge_pages.clone()),
                ("lockdown", host.lockdown.clone()),
            ]
        };
        for ((what, first), (_, second)) in own(one).into_iter().zip(own(two)) {
            self.fact(what, first, second);
        }
        self.maps("mitigation", &one.mitigations, &two.mitigations);
    }

    pub(crate) fn server(&mut self, one: &LabServer, two: &LabServer) {
        let name = |server: &LabServer| Some(format!("{} {}", server.flavour, server.version));
        self.fact("server", name(one), name(two));
        // The same version built anew is another binary.
        self.fact("build id", one.build_id.clone(), two.build_id.clone());
        self.maps("setting", &one.settings, &two.settings);
    }

    pub(crate) fn workload(&mut self, one: &Workload, two: &Workload) {
        let number = |value: u64| Some(value.to_string());
        self.fact(
            "threads",
            number(one.threads.into()),
            number(two.threads.into()),
        );
        self.fact(
            "tables",
            number(one.tables.into()),
            number(two.tables.into()),
        );
        self.fact(
            "rows in a table",
            number(one.table_size),
            number(two.table_size),
        );
        let rate = |load: &Workload| {
            Some(
                load.rate
                    .map_or("closed loop".to_owned(), |rate| format!("{rate} a second")),
            )
        };
        self.fact("rate", rate(one), rate(two));
        let limits = |load: &Workload| match load.limits.join("; ") {
            none if none.is_empty() => "none".to_owned(),
            limits => limits,
        };
        self.fact("limits", Some(limits(one)), Some(limits(two)));
    }

    pub(crate) fn maps(
        &mut self,
        kind: &str,
        one: &BTreeMap<String, String>,
        two: &BTreeMap<String, String>,
    ) {
        let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
        for name in names {
            let of = |map: &BTreeMap<String, String>| map.get(name).cloned();
            self.fact(&format!("{kind} {name}"), of(one), of(two));
        }
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_what_one_run_lacks_is_unknown() {
        let mut around = Around::default();
        let one = HostFacts {
            kernel: Some("6.1.0".to_owned()),
            cores: Some(2),
            ..HostFacts::default()
        };
        let two = HostFacts {
            kernel: Some("6.18.44".to_owned()),
            mitigations: [("spectre_v2".to_owned(), "Vulnerable".to_owned())].into(),
            ..HostFacts::default()
        };
        around.host(&one, &two);
        let facts: Vec<(&str, &str, &str)> = around
            .differences
            .iter()
            .map(|d| (d.what.as_str(), d.first.as_str(), d.second.as_str()))
            .collect();
        assert_eq!(
            facts,
            [
                ("kernel", "6.1.0", "6.18.44"),
                ("cores", "2", UNKNOWN),
                ("mitigation spectre_v2", UNKNOWN, "Vulnerable"),
            ]
        );
    }
}
