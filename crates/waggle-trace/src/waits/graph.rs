//! Who waits for whom: an edge from each role that waited to each that ended its waits.
//!
//! Invariant: every ended wait is in exactly one edge.

use std::collections::BTreeMap;
use std::fmt::Write;

use waggle_foreign::is_harmful;

use super::{Ender, Tally, Waits};

/// An edge's ends, as the tables name them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Who waited.
    pub waiter: String,
    /// Who ended it; `interrupt (disk)` and the like are no threads.
    pub ender: String,
}

/// All edges, those of requests apart from the whole.
pub fn edges(waits: &Waits) -> BTreeMap<Edge, (Tally, Tally)> {
    let mut edges: BTreeMap<Edge, (Tally, Tally)> = BTreeMap::new();
    for (key, tally) in waits.sums() {
        let edge = Edge {
            waiter: waits.role_name(key.role).to_owned(),
            ender: match key.ender {
                Ender::Role(role) => waits.role_name(role).to_owned(),
                Ender::Interrupt => format!("interrupt ({})", key.kind.text()),
                Ender::Unknown => format!("unknown ({})", key.kind.text()),
            },
        };
        let (all, in_requests) = edges.entry(edge).or_default();
        all.merge(tally);
        if key.in_request {
            in_requests.merge(tally);
        }
    }
    edges
}

/// The graph for Graphviz; an edge is as wide as its share of the time blocked.
pub fn dot(edges: &BTreeMap<Edge, (Tally, Tally)>) -> String {
    let most = edges.values().map(|(all, _)| all.blocked_ns).max();
    let most = most.unwrap_or(1).max(1) as f64;
    let mut text = String::from(
        "// Who waits for whom: from who waited to who ended it.\n\
         digraph waits {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n  \
         edge [fontname=\"sans-serif\"];\n",
    );
    for (edge, (all, in_requests)) in edges {
        let width = 1.0 + 6.0 * all.blocked_ns as f64 / most;
        let ms = |ns: u64| ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "  {} -> {} [label=\"{} waits\\n{:.1} ms, in requests {:.1}\", penwidth={width:.1}];",
            quoted(&edge.waiter),
            quoted(&edge.ender),
            all.count,
            ms(all.blocked_ns),
            ms(in_requests.blocked_ns),
        );
    }
    text.push_str("}\n");
    text
}

fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if is_harmful(c) => text.push('?'),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
