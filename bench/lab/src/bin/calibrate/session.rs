//! Measures one piece: a run of the lab, or a look at what the known costs really are.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use waggle_bench_lab::control::Control;
use waggle_bench_lab::filed::Facts;
use waggle_bench_lab::server::{Server, sandbox_name};
use waggle_bench_lab::waggle::Waggle;

use crate::compete::Competitor;
use crate::plan::{Args, COSTS_NS, Kind};
use crate::state::{Session, State};
use crate::truth;

/// The arm that is the base again.
pub(crate) const SAME: &str = "none-again";
/// What known costs are compared with: the same trap, with a program that does nothing.
const BASE: &str = "probe-empty";
/// More windows of every arm than fit into any run: it measures them evenly to the end of its time.
const ENDLESS: &str = "100000";

/// The arm that burns so much.
pub(crate) fn arm_of(cost_ns: u64) -> String {
    format!("burn-{cost_ns}")
}

/// Measures a piece; what went wrong is in it.
pub(crate) fn measure(
    args: &Args,
    waggle: &Waggle,
    facts: &Facts,
    state: &State,
    kind: Kind,
) -> Session {
    let competitor = kind.competes().then(Competitor::start);
    let mut session = Session {
        kind,
        flavour: args.sandbox.to_string(),
        processors: args.processors,
        threads: args.threads,
        waggle: format!("{}, commit {}", facts.waggle, facts.commit),
        begun: now(),
        seconds: args.session_s(kind),
        arguments: Vec::new(),
        run: None,
        truth: Vec::new(),
        server: None,
        error: None,
    };
    let measured = match kind {
        Kind::Truth | Kind::TruthCompeting => look(args, waggle, &mut session),
        _ => lab(args, waggle, state, &mut session),
    };
    drop(competitor);
    session.error = measured.err().map(|error| format!("{error:#}"));
    session
}

fn now() -> String {
    let said = Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])
        .output();
    said.map_or(String::new(), |said| {
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    })
}

/// What the known costs really are, on a server of its own under the same load.
fn look(args: &Args, waggle: &Waggle, session: &mut Session) -> anyhow::Result<()> {
    /// Rounds take a second or two each, on a busy machine more.
    const ROUNDS_MOST: usize = 24;
    let spec = args.load();
    let server = Server::start(waggle, args.sandbox, &spec)?;
    session.server = Some(server.name());
    let seconds = session.seconds as f64;
    let mut load = server.load(&spec, seconds, None)?;
    let mut control = Control::start(waggle, server.pid())?;
    control.order("runs on")?;
    while session.truth.len() < ROUNDS_MOST && !load.has_ended() {
        match truth::round(&mut control) {
            Ok(round) => session.truth.push(round),
            // The load ended within the round.
            Err(_) if load.has_ended() && !session.truth.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    control.order("runs off")?;
    Ok(())
}

/// A run of the lab.
fn lab(args: &Args, waggle: &Waggle, state: &State, session: &mut Session) -> anyhow::Result<()> {
    let arms = state
        .folder()
        .join(format!("{:?}.toml", session.kind).to_lowercase());
    let text = arms_file(session.kind);
    fs::write(&arms, text).with_context(|| format!("writing {}", arms.display()))?;
    // Each run draws another order.
    let seed = state.sessions().len() as u64 + 1;
    session.arguments = lab_arguments(args, session, &arms, &state.runs(), seed);
    let document = waggle.document(&session.arguments)?;
    let server = &document["server"];
    session.server = server["version"].as_str().map(|version| {
        let flavour = server["flavour"].as_str().unwrap_or("server");
        format!("{flavour} {version}")
    });
    let Some(page) = document["report"].as_str() else {
        bail!("waggle lab run named no report");
    };
    let run = Path::new(page)
        .parent()
        .context("a report stands in a run directory")?;
    session.run = Some(relative(run, state.folder()));
    Ok(())
}

/// `path` as seen from `folder`, where it is below.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    path.strip_prefix(folder).unwrap_or(path).to_path_buf()
}

fn lab_arguments(
    args: &Args,
    session: &Session,
    arms: &Path,
    runs: &Path,
    seed: u64,
) -> Vec<String> {
    let load = args.load();
    let mut arguments: Vec<String> = ["lab", "run", "--json"].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: String| {
        arguments.push(format!("--{name}"));
        arguments.push(value);
    };
    flag("sandbox", sandbox_name(args.sandbox));
    flag("workload", load.workload);
    flag("threads", load.threads.to_string());
    flag("tables", load.tables.to_string());
    flag("table-size", load.table_size.to_string());
    flag("budget", session.seconds.to_string());
    flag("seed", seed.to_string());
    flag("runs", runs.display().to_string());
    match session.kind {
        Kind::Same => flag("arm", SAME.to_owned()),
        _ => {
            flag("arms", arms.display().to_string());
            flag("base", BASE.to_owned());
        }
    }
    // With one cost the A/A arm has what it always has, and the cost has the rest.
    if session.kind != Kind::Precision {
        flag("windows", ENDLESS.to_owned());
    }
    arguments
}

/// The arms of a piece, as the lab reads them.
fn arms_file(kind: Kind) -> String {
    let costs: &[u64] = match kind {
        Kind::Known | Kind::KnownCompeting => &COSTS_NS,
        Kind::Precision => &[1_000],
        _ => &[],
    };
    let mut text = String::new();
    for ns in costs {
        let name = arm_of(*ns);
        // Aims at more than any run gets to. Writing to a String does not fail.
        let _ = write!(
            text,
            "[[arm]]\nname = \"{name}\"\nburn_ns = {ns}\ntarget = 0.0001\n\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_arms_its_kind_needs() {
        let known = arms_file(Kind::Known);
        for ns in COSTS_NS {
            assert!(known.contains(&format!("burn_ns = {ns}\n")), "{known}");
        }
        let precision = arms_file(Kind::Precision);
        assert_eq!(precision.matches("[[arm]]").count(), 1, "{precision}");
        assert_eq!(arms_file(Kind::Same), "");
    }
}
