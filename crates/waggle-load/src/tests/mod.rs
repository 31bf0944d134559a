//! The engine against a scripted database: counting, restarts, pausing, errors, reproducibility.

mod barrier;
mod dialects;
mod errors;
mod face;
mod gate;
mod jit;
mod linkbench;
mod loading;
mod open;
mod recovery;
mod results;
mod rows;
mod scripts;
mod shipped;
mod symbols;
mod tpcc;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use waggle_wire::Dsn;

use crate::driver::scripted::{Scripted, ScriptedDriver};
use crate::{Counters, Load, LoadError, LoadSpec, LoadState, Script};

/// More than any test needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn spec(script: Script) -> LoadSpec {
    LoadSpec::new(
        Dsn::from_str("mysql://nobody@127.0.0.1:1/none").unwrap(),
        script,
    )
}

fn start(spec: &LoadSpec, server: &Arc<Scripted>) -> Result<Load, LoadError> {
    Load::start_with(spec, Arc::new(ScriptedDriver(server.clone())))
}

fn lua(text: &str) -> Script {
    Script::from_text("mine.lua", text)
}

/// Runs a script whose workers end by themselves.
fn run_to_end(spec: &LoadSpec, server: &Arc<Scripted>) -> Result<Counters, LoadError> {
    let load = start(spec, server)?;
    assert_ne!(load.wait(PATIENCE), LoadState::Active);
    load.stop().map(|report| report.counters)
}

const CONNECT: &str = "function thread_init() con = sysbench.sql.driver():connect() end\n";
