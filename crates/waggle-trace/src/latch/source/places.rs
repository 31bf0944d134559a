//! Where the probes for latches are attached, and what it means if the kernel refuses.
//!
//! Neighbours: `waggle-symbols` found the places, `waggle-probes` attaches at them.

use std::path::PathBuf;

use waggle_probes::latch::{LatchProbe, Placed, StaticProbe};
use waggle_symbols::LatchLayout;

use crate::latch::find::{Found, SourceError};

/// Where to attach.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) program: PathBuf,
    pub(super) layout: LatchLayout,
    /// In place of all others, if static probes were asked for.
    pub(super) statics: Option<Vec<StaticProbe>>,
    pub(super) futexes: bool,
}

impl Places {
    pub(super) fn attach(&self, probe: &mut LatchProbe) -> Vec<Placed> {
        if let Some(statics) = &self.statics {
            return probe.attach_static(statics);
        }
        let mut placed = probe.attach_server(&self.program, &self.layout);
        if self.futexes {
            placed.extend(probe.attach_futexes());
        }
        placed
    }
}

/// Nothing could be attached: why.
pub(super) fn nothing(found: &Found) -> SourceError {
    let mut reasons = found
        .placed
        .iter()
        .filter_map(|placed| placed.refused.clone());
    let why = reasons
        .next()
        .or_else(|| found.missing.first().map(|m| m.1.clone()));
    SourceError::Nothing(why.unwrap_or_else(|| "there is nothing to attach at".into()))
}

pub(super) fn refused(placed: &[Placed]) -> usize {
    let refused = placed.iter().filter(|placed| placed.refused.is_some());
    refused.count()
}
