//! The house's own chores: what a change has to pass, and what is generated from the tree.
//!
//! Neighbours: `scripts/test` calls `test`; `docs/commands/` is written by `docs`. Invariant: no
//! chore but `fmt` and `docs` changes a tracked file, and none needs a network.

mod bench_client;
mod bench_copy;
mod bench_lab;
mod docs;
mod format;
mod fresh;
mod fuzz;
mod gate;
mod lex;
mod programs;
mod source;
mod tally;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy [--quiet]           the tree keeps its rules: arrows, lengths, names, comments
  fmt [--check]            rustfmt, and clang-format for the eBPF half where it is installed
  docs [--check] [--binary PATH]
                           the flags in docs/commands/, from the binary's own --help
  test [--skipped REASON]... [FILTER]
                           what scripts/test runs once the machine is ready
  fuzz --minutes N [--target NAME]
                           every fuzz target, two at a time; fails on a finding
  fresh-check [--cold] [--keep] [--script PATH]
                           clones this tree and times scripts/demo there, twice
  bench-client [--quick] [FLAGS]
                           the client's cost beside sysbench's, paired; filed in bench/results/
  calibrate [--minutes N] [FLAGS]
                           is what the lab says true? goes on where it stopped; filed likewise
  bench-copy [FLAGS]       the copy beside the floor and other tools; filed likewise
  bench-watch [--minutes N] [FLAGS]
                           what the agent costs, and captures when starved; filed likewise
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((chore, rest)) = arguments.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let root = workspace_root();
    let outcome = match chore.as_str() {
        "tidy" => tidy::command(&root, rest),
        "fmt" => format::command(&root, rest),
        "docs" => docs::command(&root, rest),
        "test" => gate::command(&root, rest),
        "bench-client" => bench_client::command(&root, rest),
        "bench-copy" => bench_copy::command(&root, rest),
        "calibrate" | "bench-watch" => bench_lab::command(&root, chore, rest),
        "fuzz" => fuzz::command(&root, rest),
        "fresh-check" => fresh::command(&root, rest),
        "-h" | "--help" | "help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(unusable(format!("no chore is called {other:?}"))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.is::<Unusable>() => {
            eprintln!("xtask: {error}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("xtask {chore}: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// Arguments that cannot be used; nothing was touched.
#[derive(Debug)]
struct Unusable(String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

fn unusable(message: String) -> anyhow::Error {
    Unusable(message).into()
}

/// The folder that holds the workspace's `Cargo.toml`.
fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_path_buf()
}
