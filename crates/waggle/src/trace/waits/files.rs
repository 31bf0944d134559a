//! What other programs draw: folded stacks and their flame graph, the graph for Graphviz, the time
//! line for Perfetto and for Chrome's viewer.

use std::collections::BTreeMap;

use anyhow::Context;
use waggle_report::run::RunDir;
use waggle_trace::waits::source::Source;
use waggle_trace::waits::{Waits, export, folded, graph, perfetto};

use super::document::label;

/// Writes the files; returns their names by what they hold.
///
/// # Errors
/// The disk is full.
pub(super) fn write(
    run: &RunDir,
    waits: &Waits,
    source: &mut Source,
    (pid, program): (u32, &str),
    with_chrome: bool,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut put = |what: &str, file: &str, bytes: &[u8]| {
        files.insert(what.to_owned(), file.to_owned());
        run.write_file(file, bytes)
            .map(drop)
            .with_context(|| format!("writing {file}"))
    };
    let dot = graph::dot(&graph::edges(waits));
    put("wait-for graph", "waits.dot", dot.as_bytes())?;
    let tracks = export::tracks(waits.timeline(), |thread| label(source, thread));
    let (stacks, names) = source.stacks();
    let lines = folded::lines(waits, stacks, names, false);
    let mut bytes = Vec::new();
    folded::write(&lines, &mut bytes)?;
    put("folded stacks", "waits.folded", &bytes)?;
    if !lines.is_empty() {
        let mut bytes = Vec::new();
        let title = format!("off-CPU time of {program}, and who ended it");
        folded::draw(&lines, &title, &mut bytes)?;
        put("flame graph", "waits.svg", &bytes)?;
    }
    let mut bytes = Vec::new();
    perfetto::write(&tracks, (pid, program), stacks, names, &mut bytes)?;
    put("time line (Perfetto)", "waits.perfetto-trace", &bytes)?;
    if with_chrome {
        let mut bytes = Vec::new();
        export::chrome(&tracks, (pid, waits.first_ns()), stacks, names, &mut bytes)?;
        put("time line (Chrome)", "chrome.json", &bytes)?;
    }
    Ok(files)
}
