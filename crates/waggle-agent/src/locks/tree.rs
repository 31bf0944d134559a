//! The blocking tree: who holds everybody up, and who stands behind whom.
//!
//! Pure: from the waits of a view to lines, for the terminal and for plain text alike.
//!
//! Invariant: every waiter is in it, below each of its blockers; what stands behind a waiter is
//! written out once. Cycles and long chains end.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::lock::{LockKind, LockObject, LockWait, Party};

/// Longest chain that is written out.
const DEPTH_MAX: usize = 64;
/// Most lines.
const LINES_MAX: usize = 20_000;

/// What a line stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeRole {
    /// Blocks others and waits for nobody.
    Root,
    /// Waits for the line above it that is one step less deep.
    Waiter,
    /// A waiter that is written out with all behind it elsewhere.
    Repeated,
    /// Waits for somebody who waits for it.
    Cycle,
}

/// One line of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeLine {
    /// Steps from the root.
    pub depth: usize,
    /// What it stands for.
    pub role: TreeRole,
    /// Who.
    pub party: Party,
    /// What it waits for; `None` for a root.
    pub kind: Option<LockKind>,
    /// On what.
    pub object: LockObject,
    /// How long so far, us.
    pub waited_us: u64,
    /// How many sessions stand behind it: of a root each counted once, of others the lines below.
    pub behind: usize,
}

/// A session in the tree; what has no connection id stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    Connection(u64),
    /// The unknown blocker of this wait.
    Unknown(u64),
}

struct Trees<'a> {
    /// Waits by whom they are for.
    behind: BTreeMap<Node, Vec<&'a LockWait>>,
    written: HashSet<Node>,
    lines: Vec<TreeLine>,
}

fn waiter(wait: &LockWait) -> Node {
    let id = wait.waiter.connection_id;
    id.map_or(Node::Unknown(wait.id), Node::Connection)
}

fn blocker(wait: &LockWait) -> Node {
    let id = wait.blocker.connection_id;
    id.map_or(Node::Unknown(wait.id | 1 << 63), Node::Connection)
}

/// The blocking tree of these waits: roots with most sessions behind them first.
pub fn tree(waits: &[LockWait]) -> Vec<TreeLine> {
    let mut trees = Trees {
        behind: BTreeMap::new(),
        written: HashSet::new(),
        lines: Vec::new(),
    };
    let live = waits.iter().filter(|wait| !wait.ended);
    for wait in live.clone() {
        trees.behind.entry(blocker(wait)).or_default().push(wait);
    }
    let waiters: HashSet<Node> = live.map(waiter).collect();
    let mut roots: Vec<(Node, usize)> = trees
        .behind
        .keys()
        .filter(|node| !waiters.contains(node))
        .map(|node| (*node, trees.count_behind(*node)))
        .collect();
    roots.sort_by_key(|(node, behind)| (std::cmp::Reverse(*behind), *node));
    for (root, _) in roots {
        trees.root(root, TreeRole::Root);
    }
    // Whoever is left stands in a cycle, or behind one.
    let left: Vec<Node> = trees.behind.keys().copied().collect();
    for node in left {
        if !trees.written.contains(&node) {
            trees.root(node, TreeRole::Cycle);
        }
    }
    trees.lines
}

impl Trees<'_> {
    fn root(&mut self, node: Node, role: TreeRole) {
        let Some(first) = self.behind.get(&node).and_then(|waits| waits.first()) else {
            return;
        };
        let line = TreeLine {
            depth: 0,
            role,
            party: first.blocker.clone(),
            kind: None,
            object: LockObject::default(),
            waited_us: 0,
            behind: self.count_behind(node),
        };
        self.lines.push(line);
        self.written.insert(node);
        let mut path = vec![node];
        self.children(node, &mut path);
    }

    fn children(&mut self, node: Node, path: &mut Vec<Node>) {
        let mut waits = self.behind.get(&node).cloned().unwrap_or_default();
        waits.sort_by_key(|wait| (wait.since_us, wait.id));
        for wait in waits {
            if self.lines.len() >= LINES_MAX {
                return;
            }
            let child = waiter(wait);
            let is_new = !self.written.contains(&child);
            let role = match () {
                () if path.contains(&child) => TreeRole::Cycle,
                () if is_new || !self.behind.contains_key(&child) => TreeRole::Waiter,
                () => TreeRole::Repeated,
            };
            self.lines.push(TreeLine {
                depth: path.len(),
                role,
                party: wait.waiter.clone(),
                kind: Some(wait.kind),
                object: wait.object.clone(),
                waited_us: wait.waited_us,
                behind: 0,
            });
            let line = self.lines.len() - 1;
            if role == TreeRole::Waiter && is_new && path.len() < DEPTH_MAX {
                self.written.insert(child);
                path.push(child);
                self.children(child, path);
                path.pop();
                self.lines[line].behind = self.lines.len() - 1 - line;
            }
        }
    }

    fn count_behind(&self, node: Node) -> usize {
        let mut seen = HashSet::from([node]);
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            for wait in self.behind.get(&next).into_iter().flatten() {
                let child = waiter(wait);
                if seen.insert(child) {
                    open.push(child);
                }
            }
        }
        seen.len() - 1
    }
}

/// Seconds with a digit that a reader can use.
fn seconds(us: u64) -> String {
    format!("{:.1} s", us as f64 / 1e6)
}

impl fmt::Display for TreeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let party = &self.party;
        if self.depth > 0 {
            write!(f, "{:indent$}<- ", "", indent = 3 * (self.depth - 1))?;
        }
        match party.connection_id {
            Some(id) => write!(f, "{id}")?,
            None => f.write_str("unknown")?,
        }
        if !party.user.is_empty() {
            write!(f, " {}", party.user)?;
        }
        if !party.database.is_empty() {
            write!(f, "@{}", party.database)?;
        }
        if let Some(kind) = self.kind {
            let lock = match kind {
                LockKind::Row => "row",
                LockKind::Metadata => "metadata",
                LockKind::Table => "table",
            };
            write!(f, " waits {} for a {lock} lock", seconds(self.waited_us))?;
            write_object(f, &self.object)?;
        }
        if let Some(us) = party.transaction_us {
            write!(f, ", transaction {}", seconds(us))?;
        }
        if let Some(us) = party.idle_us.filter(|_| !party.is_running) {
            write!(f, ", idle {}", seconds(us))?;
        }
        match self.role {
            TreeRole::Root => write!(f, ", blocks {}", self.behind)?,
            TreeRole::Cycle => f.write_str(", in a cycle")?,
            TreeRole::Repeated => f.write_str(", see elsewhere")?,
            TreeRole::Waiter => {}
        }
        if !party.fingerprint.is_empty() {
            write!(f, ": {}", party.fingerprint)?;
        }
        Ok(())
    }
}

fn write_object(f: &mut fmt::Formatter<'_>, object: &LockObject) -> fmt::Result {
    if object.table.is_empty() {
        return match &object.unknown_because {
            Some(why) => write!(f, " ({why})"),
            None => Ok(()),
        };
    }
    write!(f, " on {}", object.table)?;
    if !object.index.is_empty() {
        write!(f, " ({})", object.index)?;
    }
    if !object.mode_wanted.is_empty() {
        write!(f, ", wants {}", object.mode_wanted)?;
    }
    if !object.mode_held.is_empty() {
        write!(f, ", held {}", object.mode_held)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(id: u64, from: u64, to: Option<u64>) -> LockWait {
        let party = |connection_id| Party {
            connection_id,
            ..Party::default()
        };
        LockWait {
            id,
            kind: LockKind::Row,
            waiter: party(Some(from)),
            blocker: party(to),
            object: LockObject::default(),
            since_us: id,
            waited_us: 1_500_000,
            ended: false,
        }
    }

    fn shape(waits: &[LockWait]) -> Vec<(usize, Option<u64>, TreeRole)> {
        let lines = tree(waits);
        lines
            .iter()
            .map(|l| (l.depth, l.party.connection_id, l.role))
            .collect()
    }

    #[test]
    fn a_chain_hangs_below_its_root() {
        use TreeRole::{Root, Waiter};
        let waits = [wait(2, 30, Some(20)), wait(1, 20, Some(10))];
        assert_eq!(
            shape(&waits),
            [
                (0, Some(10), Root),
                (1, Some(20), Waiter),
                (2, Some(30), Waiter)
            ]
        );
        let lines = tree(&waits);
        assert_eq!(lines[0].behind, 2);
        assert_eq!(lines[2].to_string(), "   <- 30 waits 1.5 s for a row lock");
    }

    #[test]
    fn several_blockers_and_an_unknown_one() {
        use TreeRole::{Repeated, Root, Waiter};
        let waits = [
            wait(1, 30, Some(10)),
            wait(1, 30, Some(20)),
            wait(2, 40, Some(30)),
            wait(3, 50, None),
        ];
        assert_eq!(
            shape(&waits),
            [
                (0, Some(10), Root),
                (1, Some(30), Waiter),
                (2, Some(40), Waiter),
                (0, Some(20), Root),
                (1, Some(30), Repeated),
                (0, None, Root),
                (1, Some(50), Waiter),
            ]
        );
    }

    #[test]
    fn cycles_and_long_chains_end() {
        use TreeRole::{Cycle, Waiter};
        let waits = [
            wait(1, 10, Some(20)),
            wait(2, 20, Some(10)),
            wait(3, 30, Some(10)),
            wait(4, 40, Some(40)),
        ];
        assert_eq!(
            shape(&waits),
            [
                (0, Some(10), Cycle),
                (1, Some(20), Waiter),
                (2, Some(10), Cycle),
                (1, Some(30), Waiter),
                (0, Some(40), Cycle),
                (1, Some(40), Cycle),
            ]
        );
        let chain: Vec<LockWait> = (1..5000).map(|n| wait(n, n + 1, Some(n))).collect();
        assert_eq!(tree(&chain).iter().map(|l| l.depth).max(), Some(DEPTH_MAX));
        let all: Vec<LockWait> = (0..100)
            .flat_map(|a| (0..100).map(move |b| wait(a * 100 + b, a, Some(b))))
            .collect();
        assert!(tree(&all).len() <= LINES_MAX + 100);
    }

    #[test]
    fn what_ended_blocks_nobody() {
        let mut over = wait(1, 20, Some(10));
        over.ended = true;
        assert!(tree(&[over]).is_empty());
    }
}
