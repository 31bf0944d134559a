//! Who waits for whom, as a tree: those who only block at the root, who waits for them below.

use std::collections::BTreeSet;

use waggle_agent::lock::{LockKind, LockWait, Party};
use waggle_report::quantity;

/// Deeper chains are cut.
const DEPTH_MAX: usize = 16;

/// The tree of all waits; nothing if nobody waits.
pub(crate) fn tree(waits: &[LockWait]) -> String {
    let mut out = String::new();
    if waits.is_empty() {
        return out;
    }
    out.push_str("  waiting:\n");
    let waiters: BTreeSet<Option<u64>> = waits.iter().map(|w| w.waiter.connection_id).collect();
    let mut shown = BTreeSet::new();
    for wait in waits {
        let root = &wait.blocker;
        let is_root = root.connection_id.is_none() || !waiters.contains(&root.connection_id);
        if is_root && shown.insert(root.connection_id) {
            out.push_str(&format!("    {}\n", party(root)));
            below(&mut out, waits, root.connection_id, 1, &mut shown);
        }
    }
    // Cycles, which a server is about to break, have no root.
    for wait in waits {
        if shown.insert(wait.waiter.connection_id) {
            out.push_str(&format!("    {}\n", line(wait)));
        }
    }
    out
}

fn below(
    out: &mut String,
    waits: &[LockWait],
    blocker: Option<u64>,
    depth: usize,
    shown: &mut BTreeSet<Option<u64>>,
) {
    let waiting = waits.iter().filter(|w| w.blocker.connection_id == blocker);
    for wait in waiting {
        let indent = "  ".repeat(depth + 2);
        out.push_str(&format!("{indent}{}\n", line(wait)));
        let waiter = wait.waiter.connection_id;
        if shown.insert(waiter) && waiter.is_some() && depth < DEPTH_MAX {
            below(out, waits, waiter, depth + 1, shown);
        }
    }
}

fn line(wait: &LockWait) -> String {
    let kind = match wait.kind {
        LockKind::Row => "row",
        LockKind::Metadata => "metadata",
        LockKind::Table => "table",
    };
    let object = &wait.object;
    let mut on = String::new();
    for part in [&object.table, &object.index, &object.mode_wanted] {
        if !part.is_empty() {
            on.push(' ');
            on.push_str(part);
        }
    }
    format!(
        "{} waits {} for a {kind} lock{on}",
        party(&wait.waiter),
        quantity::seconds(wait.waited_us as f64 / 1e6)
    )
}

fn party(party: &Party) -> String {
    let mut text = match party.connection_id {
        Some(id) => format!("connection {id}"),
        None => "an unknown connection".to_owned(),
    };
    if !party.user.is_empty() {
        text.push_str(&format!(" ({})", party.user));
    }
    if let Some(us) = party.idle_us {
        let idle = quantity::seconds(us as f64 / 1e6);
        text.push_str(&format!(", idle {idle} after"));
    }
    if !party.fingerprint.is_empty() {
        text.push_str(&format!(" {}", party.fingerprint));
    }
    if let Some(us) = party.transaction_us {
        let age = quantity::seconds(us as f64 / 1e6);
        text.push_str(&format!(" [transaction of {age}]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_agent::lock::LockObject;

    fn wait(id: u64, waiter: u64, blocker: u64) -> LockWait {
        let party = |id| Party {
            connection_id: Some(id),
            fingerprint: format!("update t{id}").into(),
            ..Party::default()
        };
        LockWait {
            id,
            kind: LockKind::Row,
            waiter: party(waiter),
            blocker: party(blocker),
            object: LockObject::default(),
            since_us: 0,
            waited_us: 2_000_000,
            ended: false,
        }
    }

    #[test]
    fn a_chain_hangs_below_who_only_blocks_and_everybody_is_shown_once() {
        let text = tree(&[wait(1, 12, 11), wait(2, 13, 12), wait(3, 14, 11)]);
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[1].starts_with("connection 11 update t11"), "{text}");
        assert!(lines[2].starts_with("connection 12"), "{text}");
        assert!(lines[3].starts_with("connection 13"), "{text}");
        assert!(lines[4].starts_with("connection 14"), "{text}");
    }

    #[test]
    fn a_cycle_ends_and_shows_all_who_are_in_it() {
        let text = tree(&[wait(1, 1, 2), wait(2, 2, 1)]);
        assert!(text.contains("connection 1 ") && text.contains("connection 2 "));
        assert_eq!(tree(&[]), "");
    }
}
