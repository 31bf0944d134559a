//! Builds waggle and runs `waggle copy bench` over its cases, with and without writes meanwhile.
//!
//! Invariant: a release build of this tree is what is measured, and what is filed is what it
//! printed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::bench_client::{build, release_folder};

const CASES: [&str; 5] = ["seed", "sysbench", "wide", "json", "many"];
/// Updates a second at the source.
const WRITES: [&str; 2] = ["0", "500"];

/// `cargo xtask bench-copy [FLAGS of waggle copy bench]`; true when every case ran.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    build(root, &["waggle"])?;
    let names_cases = arguments
        .iter()
        .any(|argument| argument.starts_with("--case"));
    let cases: Vec<&str> = match names_cases {
        true => Vec::new(),
        false => CASES.iter().flat_map(|case| ["--case", case]).collect(),
    };
    let mut text = String::from("# The copy beside the floor and other tools\n");
    let mut is_done = true;
    for writes in WRITES {
        let run = Command::new(release_folder(root).join("waggle"))
            .args(["copy", "bench", "--writes", writes])
            .args(&cases)
            .args(arguments)
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("running waggle copy bench")?;
        is_done &= run.status.success();
        let printed = String::from_utf8_lossy(&run.stdout);
        print!("{printed}");
        text.push_str(&format!("\n```text\n{printed}```\n"));
    }
    let date = Command::new("date").args(["-u", "+%F"]).output();
    let date = date.context("running date")?.stdout;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let path = root.join(format!("bench/results/{date}-copy.md"));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("filed in {}", path.display());
    Ok(is_done)
}
