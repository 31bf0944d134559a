//! Waits as folded stacks, and as a flame graph.
//!
//! A line is the waiter's role and calls, outermost first, `--`, then the calls of who ended the
//! wait, innermost first, and that one's role: so the wake-up is where both meet. The weight is the
//! time blocked.
//!
//! Invariant: the weights add up to the time blocked of all waits, but for less than 1 us a line.

use std::collections::BTreeMap;
use std::io;

use inferno::flamegraph::{self, Options};

use super::{Ender, Waits};
use crate::event::StackId;
use crate::stack::{Stacks, names::Names};

/// Each line and its weight, us.
pub fn lines(
    waits: &Waits,
    stacks: &Stacks,
    names: &mut Names,
    only_requests: bool,
) -> BTreeMap<String, u64> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, tally) in waits.sums().filter(|(k, _)| !only_requests || k.in_request) {
        let mut line = vec![plain(waits.role_name(key.role))];
        line.extend(calls(stacks, names, key.stack).into_iter().rev());
        line.push(format!("[{}]", key.kind.text()));
        line.push("--".into());
        line.extend(calls(stacks, names, key.ender_stack));
        line.push(match key.ender {
            Ender::Role(role) => plain(waits.role_name(role)),
            Ender::Interrupt => "[interrupt]".into(),
            Ender::Unknown => "[unknown waker]".into(),
        });
        *lines.entry(line.join(";")).or_default() += tally.blocked_ns;
    }
    for ns in lines.values_mut() {
        *ns /= 1000;
    }
    lines.retain(|_, us| *us > 0);
    lines
}

fn calls(stacks: &Stacks, names: &mut Names, stack: Option<StackId>) -> Vec<String> {
    let Some(id) = stack else { return Vec::new() };
    let names = names.of_stack(stacks, id);
    names.iter().map(|name| plain(name)).collect()
}

/// Without what separates calls from each other, and from the weight.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\t'], " ")
}

/// Writes the lines.
///
/// # Errors
/// The output cannot be written.
pub fn write(lines: &BTreeMap<String, u64>, mut out: impl io::Write) -> io::Result<()> {
    for (line, us) in lines {
        writeln!(out, "{line} {us}")?;
    }
    out.flush()
}

/// Draws the lines as a flame graph (SVG).
///
/// # Errors
/// There is no line, or the output cannot be written.
pub fn draw(lines: &BTreeMap<String, u64>, title: &str, out: impl io::Write) -> io::Result<()> {
    let text: Vec<String> = lines.iter().map(|(l, us)| format!("{l} {us}")).collect();
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = "us".into();
    options.subtitle = Some("off-CPU below --, who ended the wait above".into());
    flamegraph::from_lines(&mut options, text.iter().map(String::as_str), out)
        .map_err(io::Error::other)
}
