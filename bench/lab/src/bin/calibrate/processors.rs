//! On which processors a known cost is looked for.
//!
//! A cost is known if nothing else changes with it. On one processor that server, load and
//! observer share, somebody always runs, whatever a statement costs; on several, a server that has
//! more to do lets them idle less, and pays less for waking them (docs/design/0007-calibration.md).

use anyhow::{Context, bail};
use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// How many.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Processors {
    /// The last one that this process may use.
    One,
    /// All that it may use.
    #[default]
    All,
}

impl Processors {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Processors::One => "one",
            Processors::All => "all",
        }
    }

    /// Keeps this thread to them, and with it whatever it starts from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        if self == Processors::All {
            return Ok(());
        }
        let allowed = sched_getaffinity(None).context("asking for the processors allowed")?;
        let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) else {
            bail!("no processor is allowed");
        };
        let mut one = CpuSet::new();
        one.set(last);
        sched_setaffinity(None, &one).with_context(|| format!("keeping to processor {last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_to_one_processor_and_so_is_what_it_starts() {
        let kept = std::thread::spawn(|| {
            Processors::One.keep().expect("a processor");
            let of_child = std::thread::spawn(|| sched_getaffinity(None).expect("processors"));
            of_child.join().expect("no panic").count()
        });
        assert_eq!(kept.join().expect("no panic"), 1);
    }
}
