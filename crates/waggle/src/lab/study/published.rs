//! What did others publish, and where? The figures our studies are laid beside.
//!
//! Each figure stands as it was printed, with its digits, and names its source: whoever doubts one
//! can look it up. Neighbours: the studies take figures by key; `waggle_report::study` shows them.
//!
//! Invariant: nothing is computed here. What follows from published figures (a relative change, a
//! cost a statement) is computed where it is shown, and said to be.

use waggle_report::study::{Published, StudyValue};

/// Where figures were published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Author, title, and what was measured on what.
    pub(crate) title: &'static str,
    /// Where it can be read.
    pub(crate) place: &'static str,
}

/// A published figure.
#[derive(Debug)]
pub(crate) struct Figure {
    /// How a study asks for it.
    pub(crate) key: &'static str,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// As printed.
    pub(crate) value: f64,
    /// Decimals as printed.
    pub(crate) digits: u8,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Where it stands.
    pub(crate) source: &'static Source,
}

impl Figure {
    /// As a value of a table.
    pub(crate) fn value(&self) -> StudyValue {
        StudyValue::Published {
            value: self.value,
            digits: self.digits,
        }
    }

    /// As an entry of the report, with what was measured here beside it.
    pub(crate) fn entry(&self, cell: Option<&str>, ours: Option<StudyValue>) -> Published {
        Published {
            what: self.what.to_owned(),
            value: self.value,
            unit: self.unit.to_owned(),
            source: format!("{} ({})", self.source.title, self.source.place),
            cell: cell.map(str::to_owned),
            ours,
        }
    }
}

/// The figure with this key.
pub(crate) fn find(figures: &'static [Figure], key: &str) -> Option<&'static Figure> {
    figures.iter().find(|figure| figure.key == key)
}

/// The agent's overhead study.
pub(crate) static DBDOCTOR_STUDY: Source = Source {
    title: "DBdoctor, \"Can the performance of tracking dolphins (MySQL) with bees (eBPF) catch \
            up?\": MySQL 5.7.37 with 4 cores and 8 GB, kernel 4.18, sysbench on 1,000 tables of \
            10,000 rows, means of 5 runs of 30 minutes, no spread given",
    place: "github.com/juhaokan/DBdoctorDoc, articles/EnglishVersion/UseEbpfToTrackMysql.md",
};

/// The same author's article on what a probe costs in a loop.
pub(crate) static DBDOCTOR_LOOP: Source = Source {
    title: "DBdoctor, eBPF series, part 6: 10 million calls in a loop, kernel 4.18",
    place: "github.com/juhaokan/DBdoctorDoc, articles/EnglishVersion/EBPF06.md",
};

macro_rules! figures {
    ($source:ident:
     $($key:literal, $what:literal, $value:literal, $digits:literal, $unit:literal;)*) => {
        &[$(Figure {
            key: $key, what: $what, value: $value as f64, digits: $digits, unit: $unit,
            source: &$source,
        }),*]
    };
}

/// Scene A and B: load, with and without the agent.
pub(crate) static DBDOCTOR_SCENES: &[Figure] = figures! { DBDOCTOR_STUDY:
    "read-write/qps/off", "queries a second, read-write, no agent", 9506, 0, "queries/s";
    "read-write/qps/on", "queries a second, read-write, agent", 9406, 0, "queries/s";
    "read-write/qps/change", "change of throughput, read-write", -1.05, 2, "%";
    "read-write/cpu/off", "CPU of mysqld, read-write, no agent", 230, 0, "%";
    "read-write/cpu/on", "CPU of mysqld, read-write, agent", 250, 0, "%";
    "read-write/latency/off", "latency, read-write, no agent", 143, 0, "ms";
    "read-write/latency/on", "latency, read-write, agent", 146, 0, "ms";
    "read-only/qps/off", "queries a second, read-only, no agent", 46499, 0, "queries/s";
    "read-only/qps/on", "queries a second, read-only, agent", 44195, 0, "queries/s";
    "read-only/qps/change", "change of throughput, read-only", -4.96, 2, "%";
    "read-only/cpu/off", "CPU of mysqld, read-only, no agent", 310, 0, "%";
    "read-only/cpu/on", "CPU of mysqld, read-only, agent", 290, 0, "%";
    "read-only/latency/off", "latency, read-only, no agent", 82, 0, "ms";
    "read-only/latency/on", "latency, read-only, agent", 86, 0, "ms";
    "write-only/qps/off", "queries a second, write-only, no agent", 5587, 0, "queries/s";
    "write-only/qps/on", "queries a second, write-only, agent", 5656, 0, "queries/s";
    "write-only/qps/change", "change of throughput, write-only", 1.23, 2, "%";
    "write-only/cpu/off", "CPU of mysqld, write-only, no agent", 210, 0, "%";
    "write-only/cpu/on", "CPU of mysqld, write-only, agent", 220, 0, "%";
    "write-only/latency/off", "latency, write-only, no agent", 112, 0, "ms";
    "write-only/latency/on", "latency, write-only, agent", 113, 0, "ms";
    "tpcc/qps/off", "queries a second, TPC-C, no agent", 9120, 0, "queries/s";
    "tpcc/qps/on", "queries a second, TPC-C, agent", 9003, 0, "queries/s";
    "tpcc/qps/change", "change of throughput, TPC-C", -1.28, 2, "%";
    "tpcc/cpu/off", "CPU of mysqld, TPC-C, no agent", 230, 0, "%";
    "tpcc/cpu/on", "CPU of mysqld, TPC-C, agent", 250, 0, "%";
    "tpcc/latency/off", "latency, TPC-C, no agent", 143, 0, "ms";
    "tpcc/latency/on", "latency, TPC-C, agent", 146, 0, "ms";
    "cores/server", "cores of mysqld for 10,000 queries a second watched", 0.2, 1, "cores";
    "cores/agent", "cores of the agent for 10,000 queries a second watched", 0.22, 2, "cores";
};

/// Scene C: one statement, with debug printing (`bpf_trace_printk`) on.
pub(crate) static DBDOCTOR_STATEMENT: &[Figure] = figures! { DBDOCTOR_STUDY:
    "request/program", "program at the statement's begin, debug printing on", 119222, 0, "ns";
    "request/hit", "hit at the statement's begin", 3000, 0, "ns";
    "return/program", "program at the statement's end, debug printing on", 21158, 0, "ns";
    "return/hit", "hit at the statement's end", 4500, 0, "ns";
    "statement", "one statement in all", 0.147, 3, "ms";
};

/// What a probe costs in a loop, trap and empty program together.
pub(crate) static DBDOCTOR_PROBES: &[Figure] = figures! { DBDOCTOR_LOOP:
    "uprobe", "call with a uprobe", 1128, 0, "ns";
    "uretprobe", "call with a uretprobe", 2212, 0, "ns";
    "usdt", "call with a static probe", 1058, 0, "ns";
};

/// What the agent itself used.
pub(crate) static DBDOCTOR_AGENT: &[Figure] = figures! { DBDOCTOR_STUDY:
    "host/cpu", "agent's CPU with host metrics only", 1, 0, "% of a core";
    "host/memory", "agent's memory with host metrics only", 0.028, 3, "GiB";
    "idle/cpu", "agent's CPU with an idle instance", 5, 0, "% of a core";
    "load/cpu", "agent's CPU at 25,000 queries a second", 61, 0, "% of a core";
    "load/memory", "agent's memory, everything on, under load", 0.168, 3, "GiB";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_source_and_a_key_of_its_own() {
        for figures in [
            DBDOCTOR_SCENES,
            DBDOCTOR_STATEMENT,
            DBDOCTOR_PROBES,
            DBDOCTOR_AGENT,
        ] {
            for (at, figure) in figures.iter().enumerate() {
                assert!(!figure.source.title.is_empty() && !figure.source.place.is_empty());
                assert!(figure.value.is_finite() && !figure.unit.is_empty());
                assert!(
                    figures[..at].iter().all(|other| other.key != figure.key),
                    "{} twice",
                    figure.key
                );
            }
        }
    }

    #[test]
    fn printed_changes_follow_from_the_printed_levels() {
        // A slip of the pen in one of them would show.
        for mode in ["read-write", "read-only", "write-only", "tpcc"] {
            let value = |what: &str| {
                let key = format!("{mode}/qps/{what}");
                find(DBDOCTOR_SCENES, &key).expect(&key).value
            };
            let change = (value("on") / value("off") - 1.0) * 100.0;
            assert!((change - value("change")).abs() < 0.011, "{mode}: {change}");
        }
        let sum: f64 = [
            "request/program",
            "request/hit",
            "return/program",
            "return/hit",
        ]
        .map(|key| find(DBDOCTOR_STATEMENT, key).expect(key).value)
        .iter()
        .sum();
        let whole = find(DBDOCTOR_STATEMENT, "statement").expect("it").value;
        assert!((sum / 1e6 - whole).abs() < 0.001, "{sum} ns");
    }
}
