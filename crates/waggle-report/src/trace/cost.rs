//! What did a trace cost the process that was traced, in a line for a terminal?
//!
//! Invariant: what was not counted is said not to be, and is no zero.

use super::TraceFacts;
use crate::quantity::{bytes, count, plain};

/// One line, or two.
pub(super) fn line(facts: &TraceFacts) -> String {
    let cost = &facts.cost;
    let own = format!(
        "waggle took {} s of CPU and {}",
        plain(cost.waggle_cpu_s, 2),
        bytes(cost.waggle_rss_bytes)
    );
    let hits = count(cost.hits_per_s.round() as u64);
    // Of slices, the rate is that of a traced second, and shares are of all the time.
    let (second, over) = match facts.slices {
        Some(_) => ("traced second", " over all of the time"),
        None => ("second", ""),
    };
    let mut parts = Vec::new();
    if let Some(programs_s) = cost.programs_s {
        let each = plain(cost.program_ns_per_hit.unwrap_or_default(), 0);
        let share = match cost.process_cpu_s.filter(|cpu_s| *cpu_s > 0.0) {
            Some(cpu_s) => format!("{} of its CPU time", percent(programs_s, cpu_s)),
            None => format!("{} of a processor", percent(programs_s, facts.duration_s)),
        };
        parts.push(format!(
            "{hits} probes a {second} in the process, {each} ns each beside the trap: {share}{over}"
        ));
    }
    if let Some(host_s) = cost.host_programs_s {
        let share = percent(host_s, facts.duration_s);
        parts.push(format!(
            "at every switch or call of this host: {share} of a processor{over}"
        ));
    }
    if parts.is_empty() {
        parts.push(format!("{hits} probes a {second}, their time not counted"));
    }
    parts.push(own);
    format!("cost: {}", parts.join("; "))
}

fn percent(part: f64, whole: f64) -> String {
    format!("{}%", plain(100.0 * part / whole.max(1e-9), 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceSlices;

    #[test]
    fn a_share_is_of_the_process_and_of_the_time() {
        let mut facts = TraceFacts {
            duration_s: 10.0,
            ..TraceFacts::default()
        };
        facts.cost.hits_per_s = 5000.0;
        assert!(line(&facts).contains("not counted"));
        facts.cost.program_ns_per_hit = Some(1000.0);
        facts.cost.programs_s = Some(0.05);
        facts.cost.process_cpu_s = Some(4.0);
        let text = line(&facts);
        assert!(text.contains("1000 ns each"), "{text}");
        assert!(text.contains("1.25% of its CPU time"), "{text}");
        facts.slices = Some(TraceSlices::default());
        let text = line(&facts);
        assert!(text.contains("5,000 probes a traced second"), "{text}");
        assert!(
            text.contains("of its CPU time over all of the time"),
            "{text}"
        );
        facts.slices = None;
        facts.cost.process_cpu_s = None;
        facts.cost.host_programs_s = Some(0.2);
        let text = line(&facts);
        assert!(
            text.contains("beside the trap: 0.50% of a processor"),
            "{text}"
        );
        assert!(
            text.contains("of this host: 2.00% of a processor"),
            "{text}"
        );
    }
}
