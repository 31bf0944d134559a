//! The lab's known cost: burns a set time at the end of every statement of one server.
//!
//! Neighbours: `control` takes the orders, `waggle_probes::burn` burns. Invariant: the kernel
//! counts run times only while it is told to, as counting costs too.

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use waggle_probes::burn::{Burn, BurnProbe};
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::statement::Fit;
use waggle_server::process::{self, ServerProcess};

use super::args::Target;

/// Burns in one server.
pub(super) struct Burner {
    process: ServerProcess,
    probe: BurnProbe,
    counting: Option<RunTimeStats>,
}

impl Burner {
    /// Loads the probe for the server that is watched; attaches nothing.
    pub(super) fn load(target: &Target) -> anyhow::Result<Self> {
        let Target::Pids(pids) = target else {
            bail!("burning needs --pid");
        };
        let [pid] = pids[..] else {
            bail!("burning needs one --pid");
        };
        let process = process::from_pid(pid)?;
        let fit = Fit::of(&process.exe_file())?;
        let site = fit.site.map_err(|why| anyhow!("cannot burn: {why}"))?;
        Ok(Self {
            process,
            probe: BurnProbe::load(&site)?,
            counting: None,
        })
    }

    /// Burns from the next statement on.
    pub(super) fn attach(&mut self, burn: Burn) -> anyhow::Result<()> {
        let pid = self.process.pid.cast_signed();
        let attached = self.probe.attach(pid, &self.process.exe_file(), burn);
        attached.with_context(|| format!("attaching to process {pid}"))
    }

    pub(super) fn detach(&mut self) {
        self.probe.detach();
    }

    /// Has the kernel count run times, or no longer.
    pub(super) fn count_runs(&mut self, on: bool) -> anyhow::Result<()> {
        self.counting = on
            .then(RunTimeStats::hold)
            .transpose()
            .context("having the kernel count run times")?;
        Ok(())
    }

    /// The counters, all since the probe was loaded.
    pub(super) fn status(&self) -> Value {
        let runs = |burn| {
            let (runs, time_ns) = self.probe.run_time(burn)?;
            Some(json!({ "runs": runs, "run_time_ns": time_ns }))
        };
        let counters = self.probe.counters().ok();
        json!({
            "hits": counters.map(|c| c.hits),
            "unfinished": counters.map(|c| c.unfinished),
            "burned_ns": counters.map(|c| c.burned_ns),
            "kernel": runs(Burn::Ns(0)),
            "kernel_nothing": runs(Burn::Nothing),
        })
    }
}
