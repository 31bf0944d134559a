//! Profiles that are taken beside what a verb measures: `--profile` of bench, lab run and copy
//! bench.
//!
//! Everything is attached before the phase that is asked for and records in it alone
//! ([`Profiling`]); [`kept`] puts the profile and its drawings into the run directory, where
//! `waggle report` finds them; [`server`] finds the process behind a DSN; [`split`] divides a
//! profile by what was measured when.
//! Neighbours: `waggle-profile` records and draws; `waggle profile` is the verb for any process.
//!
//! Invariant: a verb's own figures do not depend on whether the profile could be made; that it
//! could not is said.

pub(crate) mod kept;
pub(crate) mod server;
pub(crate) mod split;

use std::time::Instant;

use anyhow::Context;
use waggle_profile::model::Profile;
use waggle_profile::{Recorder, RecorderOptions};

use crate::cli::Failure;
use crate::preflight;

/// Samples a second of each running thread: the customary number, off the beat of timers.
pub(crate) const FREQUENCY_HZ: u32 = 99;

/// What is recorded beside time on CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Time blocked and time runnable.
    pub(crate) off_cpu: bool,
    /// Which statement a thread ran: costs the statement probe.
    pub(crate) by_digest: bool,
    /// Each sample by itself, to divide it by time later.
    pub(crate) timeline: bool,
}

/// A recorder that is attached; it records between [`Profiling::on`] and [`Profiling::off`].
#[derive(Debug)]
pub(crate) struct Profiling {
    recorder: Recorder,
    /// From when its timeline counts.
    pub(crate) began: Instant,
}

impl Profiling {
    /// Attaches to the processes; records nothing yet, but with a timeline, which begins at once.
    ///
    /// # Errors
    /// A probe cannot be attached.
    pub(crate) fn attach(pids: &[u32], extent: Extent) -> anyhow::Result<Self> {
        let recorder = Recorder::start(RecorderOptions {
            pids: pids.to_vec(),
            frequency_hz: FREQUENCY_HZ,
            on_cpu: true,
            kernel: true,
            // A timeline counts from when it is on, which must be known here.
            paused: !extent.timeline,
            off_cpu: extent.off_cpu,
            by_digest: extent.by_digest,
            timeline: extent.timeline,
            ..RecorderOptions::default()
        })
        .context("cannot record a profile")?;
        let began = Instant::now();
        Ok(Self { recorder, began })
    }

    /// Records from now on.
    pub(crate) fn on(&self) {
        self.recorder.toggle(true);
    }

    /// Records no more, for now.
    pub(crate) fn off(&self) {
        self.recorder.toggle(false);
    }

    /// The profile of all the time that it was on.
    ///
    /// # Errors
    /// What was recorded cannot be read.
    pub(crate) fn finish(self) -> anyhow::Result<Profile> {
        self.recorder.stop().context("cannot make the profile")
    }
}

/// Checks that a profile can be recorded here.
///
/// # Errors
/// Exit code 2, with what to do about it.
pub(crate) fn check() -> Result<(), Failure> {
    preflight::can_trace()
}
