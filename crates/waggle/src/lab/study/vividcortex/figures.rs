//! What Percona published: the figures of its benchmark, as printed.
//!
//! Neighbours: [`super::super::published`] says what a figure is; [`super::tables`] puts them
//! beside ours.

use super::super::published::{Figure, Source};
use super::cells::{Condition, Watched};

/// The benchmark.
static PERCONA: Source = Source {
    title: "V. Tkachenko, Percona, \"VividCortex Agent Benchmark\", 18 September 2015: LinkBenchX, \
            no spread given",
    place: "percona.com/blog/vividcortex-agent-benchmark",
};

const fn change(key: &'static str, what: &'static str, value: f64, digits: u8) -> Figure {
    Figure {
        key,
        what,
        value,
        digits,
        unit: "%",
        source: &PERCONA,
    }
}

/// Throughput, and the time of the two operations, against neither of the two.
pub(super) static FIGURES: &[Figure] = &[
    change(
        "cpu/throughput/perfschema",
        "throughput, CPU-bound, PERFORMANCE_SCHEMA",
        -1.8,
        1,
    ),
    change(
        "cpu/throughput/agent",
        "throughput, CPU-bound, agent",
        -10.7,
        1,
    ),
    change(
        "cpu/throughput/both",
        "throughput, CPU-bound, both",
        -11.7,
        1,
    ),
    change(
        "few-cpus/throughput/perfschema",
        "throughput, 4 CPUs, PERFORMANCE_SCHEMA",
        -5.0,
        0,
    ),
    change(
        "few-cpus/throughput/agent",
        "throughput, 4 CPUs, agent",
        -13.0,
        0,
    ),
    change(
        "few-cpus/throughput/both",
        "throughput, 4 CPUs, both",
        -17.8,
        1,
    ),
    change(
        "cpu/ADD_LINK/perfschema",
        "response time of ADD_LINK, PERFORMANCE_SCHEMA",
        20.0,
        0,
    ),
    change(
        "cpu/ADD_LINK/agent",
        "response time of ADD_LINK, agent",
        42.0,
        0,
    ),
    change(
        "cpu/ADD_LINK/both",
        "response time of ADD_LINK, both",
        63.0,
        0,
    ),
    change(
        "cpu/GET_LINKS_LIST/perfschema",
        "response time of GET_LINKS_LIST, PERFORMANCE_SCHEMA",
        7.7,
        1,
    ),
    change(
        "cpu/GET_LINKS_LIST/agent",
        "response time of GET_LINKS_LIST, agent",
        21.6,
        1,
    ),
    change(
        "cpu/GET_LINKS_LIST/both",
        "response time of GET_LINKS_LIST, both",
        30.9,
        1,
    ),
];

/// The change of throughput under a condition.
pub(super) fn throughput(condition: Condition, watched: Watched) -> Option<&'static Figure> {
    find(condition, "throughput", watched)
}

/// The change of an operation's response time under a condition.
pub(super) fn response(
    condition: Condition,
    operation: &str,
    watched: Watched,
) -> Option<&'static Figure> {
    find(condition, operation, watched)
}

fn find(condition: Condition, what: &str, watched: Watched) -> Option<&'static Figure> {
    let key = format!("{}/{what}/{}", condition.key(), watched.key());
    super::super::published::find(FIGURES, &key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_under_its_own_key() {
        let mut found = 0;
        for condition in Condition::ALL {
            for watched in Watched::ALL {
                let figures = ["ADD_LINK", "GET_LINKS_LIST"]
                    .map(|operation| response(condition, operation, watched));
                let all = figures.into_iter().chain([throughput(condition, watched)]);
                found += all.flatten().count();
            }
        }
        assert_eq!(found, FIGURES.len());
        let both = throughput(Condition::FewCpus, Watched::Both).expect("published");
        assert_eq!((both.value, both.digits), (-17.8, 1));
        assert!(throughput(Condition::Io, Watched::Agent).is_none());
    }
}
