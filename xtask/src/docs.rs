//! The flags in docs/commands/: what the binary says with `--help`, put between two marks.
//!
//! What stands around the marks is written by hand and kept. Invariant: a page a verb; a verb
//! without a page, or a page without a verb, is a difference like any other. Further pages of a
//! verb begin with its name (`bench-tpcc.md`) and are written by hand alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::unusable;

const BEGIN: &str = "<!-- flags: written by `cargo xtask docs` -->";
const END: &str = "<!-- end of flags -->";

/// `cargo xtask docs [--check] [--binary PATH]`; true when every page is (now) as it should be.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let mut check = false;
    let mut binary = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (argument.as_str(), rest.as_slice().first()) {
            ("--check", _) => check = true,
            ("--binary", Some(path)) => {
                binary = Some(PathBuf::from(path));
                rest.next();
            }
            _ => return Err(unusable(format!("docs does not take {argument:?}"))),
        }
    }
    let binary = match binary {
        Some(path) => path,
        None => build(root)?,
    };
    let differences = pages(&root.join("docs/commands"), &binary, check)?;
    for difference in &differences {
        let fate = if check {
            "differs; run: cargo xtask docs"
        } else {
            "written"
        };
        println!("docs: {}: {fate}", difference.display());
    }
    Ok(differences.is_empty() || !check)
}

/// Builds waggle and tells where cargo put it.
fn build(root: &Path) -> Result<PathBuf> {
    let output = Command::new("cargo")
        .args([
            "build",
            "-q",
            "-p",
            "waggle",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo build -p waggle")?;
    if !output.status.success() {
        bail!("waggle does not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages
        .lines()
        .filter_map(|line| line.split_once("\"executable\":\"")?.1.split_once('"'))
        .map(|(path, _)| path)
        .next_back();
    executable
        .map(PathBuf::from)
        .context("cargo did not say where it put waggle")
}

/// Compares or writes every page; tells which ones were not as they should be.
fn pages(folder: &Path, binary: &Path, check: bool) -> Result<Vec<PathBuf>> {
    let top = help(binary, &[])?;
    let verbs = commands_in(&top);
    if verbs.is_empty() {
        bail!("{} --help lists no command", binary.display());
    }
    let mut differences = Vec::new();
    for verb in &verbs {
        let path = folder.join(format!("{verb}.md"));
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let new = page(&old, verb, &flags(binary, &[verb])?)
            .with_context(|| format!("reading {}", path.display()))?;
        if old != new {
            if !check {
                std::fs::create_dir_all(folder)?;
                std::fs::write(&path, new).with_context(|| path.display().to_string())?;
            }
            differences.push(path);
        }
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        // "bench-tpcc" is a page of the verb bench.
        let verb = stem.split('-').next().unwrap_or_default();
        if is_page && stem != "README" && !verbs.iter().any(|known| known == verb) {
            bail!("{} is a page of no verb; delete it", path.display());
        }
    }
    Ok(differences)
}

/// The help of a command and of every command below it, each in a block.
fn flags(binary: &Path, words: &[&str]) -> Result<String> {
    let text = help(binary, words)?;
    let mut block = format!(
        "\n```text\n$ waggle {} --help\n{}\n```\n",
        words.join(" "),
        text.trim()
    );
    for below in commands_in(&text) {
        block += &flags(binary, &[words, &[&below]].concat())?;
    }
    Ok(block)
}

fn help(binary: &Path, words: &[&str]) -> Result<String> {
    // Nothing of this terminal or this user's settings may show in the page.
    let output = Command::new(binary)
        .args(words)
        .arg("--help")
        .env_remove("WAGGLE_DSN")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", binary.display()))?;
    if !output.status.success() {
        bail!(
            "{} {} --help ended with {}",
            binary.display(),
            words.join(" "),
            output.status
        );
    }
    let text = String::from_utf8(output.stdout).context("help that is not UTF-8")?;
    Ok(text
        .lines()
        .map(str::trim_end)
        .fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{line}");
            all
        }))
}

/// The names under `Commands:` in a help text.
fn commands_in(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The page with its flags replaced; a verb without a page gets one with nothing else on it.
fn page(old: &str, verb: &str, flags: &str) -> Result<String> {
    if old.is_empty() {
        return Ok(format!("# waggle {verb}\n\n{BEGIN}\n{flags}\n{END}\n"));
    }
    let marked = old.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n{flags}\n{END}{after}"))
    });
    marked.with_context(|| format!("no marks; it needs the lines\n{BEGIN}\n{END}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "What it does\n\nUsage: waggle <COMMAND>\n\nCommands:\n  \
                        lab     The cost\n  server  A text that\n          goes on\n  \
                        help    Print\n\n\
                        Options:\n  -h, --help  Print\n";

    #[test]
    fn commands_are_read_from_the_help() {
        assert_eq!(commands_in(HELP), ["lab", "server"]);
        assert_eq!(commands_in("Usage: x\n\nOptions:\n  -h  Print\n"), [""; 0]);
    }

    #[test]
    fn what_is_written_by_hand_is_kept() {
        let old = format!("# waggle lab\n\nBy hand.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n");
        let new = page(&old, "lab", "new").expect("a page with marks");
        assert_eq!(
            new,
            format!("# waggle lab\n\nBy hand.\n\n{BEGIN}\nnew\n{END}\n\nAfter.\n")
        );
        assert_eq!(page(&new, "lab", "new").expect("a page with marks"), new);
        assert!(page("# no marks\n", "lab", "new").is_err());
    }

    #[test]
    fn a_verb_without_a_page_gets_one() {
        let new = page("", "lab", "\nflags\n").expect("a new page");
        assert!(
            new.starts_with("# waggle lab\n") && new.contains("\nflags\n"),
            "{new}"
        );
    }
}
