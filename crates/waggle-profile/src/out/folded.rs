//! Folded stacks: `outermost;...;innermost weight`, a line each.
//!
//! What every flame graph program reads. Neighbour: [`super::flame`] draws these lines.
//! Invariant: the weights add up to those of the entries that the view takes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::name::{self, plain};
use super::view::{self, View};
use crate::model::Profile;

/// What stands first in a stack that does not reach the thread's beginning.
const TRUNCATED: &str = "[truncated]";

/// Each line without its weight, and the weight.
pub fn lines(profile: &Profile, view: &View) -> BTreeMap<String, u64> {
    let names: Vec<String> = profile
        .frames
        .iter()
        .map(|frame| name::of_frame(Some(frame), view.lines))
        .collect();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for sum in view::sums(profile, view) {
        let mut line = String::new();
        let mut add = |name: &str| {
            if !line.is_empty() {
                line.push(';');
            }
            line.push_str(name);
        };
        if let Some(root) = &sum.root {
            add(&plain(root));
        }
        if view::is_truncated(profile, sum.stack) {
            add(TRUNCATED);
        }
        let frames = view::frames(profile, sum.stack);
        for id in frames {
            add(names
                .get(id.0 as usize)
                .map_or(name::DAMAGED, String::as_str));
        }
        if frames.is_empty() {
            add("[no stack]");
        }
        if let (None, Some(kind)) = (view.kind, view::kind_frame(sum.kind)) {
            add(kind);
        }
        let weight = lines.entry(line).or_default();
        *weight = weight.saturating_add(sum.weight);
    }
    lines
}

/// The lines as a file.
pub fn text(profile: &Profile, view: &View) -> String {
    written(&lines(profile, view))
}

pub(super) fn written(lines: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (line, weight) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line} {weight}");
    }
    text
}
