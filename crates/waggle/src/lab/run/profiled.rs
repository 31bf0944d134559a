//! Profiles of the server by arm: `--profile` of `lab run`.
//!
//! One recorder samples the server over its whole life, in every arm alike; afterwards each sample
//! goes to the arm in whose window it lies. So two arms can be laid over each other as a
//! differential flame graph: what an arm costs, call by call.
//!
//! Invariant: what is switched between windows is in no profile, and a recorder that fails costs
//! its profile and no window.

use std::time::Duration;

use waggle_profile::model::Profile;
use waggle_report::run::{Run, profile_file};

use super::stand::Stand;
use super::{Engine, Stop};
use crate::lab::cell::CellRun;
use crate::profiling::kept::{self, Wanted};
use crate::profiling::split::{self, Span};
use crate::profiling::{Extent, Profiling};

/// Samples by time, on CPU alone: the threads of a loaded server are switched thousands of times a
/// second, and every switch kept by itself would be most of what the lab measures.
const EXTENT: Extent = Extent {
    off_cpu: false,
    by_digest: false,
    timeline: true,
};

/// A window that was measured under a profile.
#[derive(Debug)]
pub(super) struct Profiled {
    cell: usize,
    span: Span,
}

impl Engine<'_> {
    /// Records the server from now on, if a cell of the group is to be profiled.
    pub(super) fn attach_profile(
        &mut self,
        stand: &mut Stand,
        group: &[usize],
    ) -> Result<(), Stop> {
        let Some(&cell) = group.iter().find(|cell| self.cells[**cell].spec.profile) else {
            return Ok(());
        };
        match Profiling::attach(&[stand.pid()], EXTENT) {
            Ok(profiling) => {
                stand.profiling = Some(profiling);
                Ok(())
            }
            Err(error) => self.note(cell, format!("The server was not profiled: {error:#}.")),
        }
    }

    /// A window of an arm has been measured.
    pub(super) fn profiled_window(&mut self, cell: usize, arm: &str, start_s: f64, length_s: f64) {
        if !self.cells[cell].spec.profile {
            return;
        }
        let since = Duration::try_from_secs_f64(start_s - self.offset_s).unwrap_or_default();
        self.profiled.push(Profiled {
            cell,
            span: Span {
                name: arm.to_owned(),
                from: self.started + since,
                length: Duration::try_from_secs_f64(length_s).unwrap_or_default(),
            },
        });
    }

    /// Divides what was recorded of a life that is over among its arms.
    pub(super) fn take_profile(&mut self, stand: &mut Stand) -> Result<(), Stop> {
        let Some(profiling) = stand.profiling.take() else {
            return Ok(());
        };
        let windows = std::mem::take(&mut self.profiled);
        let Some(first) = windows.first().map(|window| window.cell) else {
            return Ok(());
        };
        let began = profiling.began;
        let whole = match profiling.finish() {
            Ok(whole) => whole,
            Err(error) => {
                return self.note(first, format!("The server's profile was lost: {error:#}."));
            }
        };
        let mut cells: Vec<usize> = windows.iter().map(|window| window.cell).collect();
        cells.dedup();
        for cell in cells {
            let own = windows.iter().filter(|window| window.cell == cell);
            let spans: Vec<Span> = own.map(|window| window.span.clone()).collect();
            let profiles = &mut self.cells[cell].profiles;
            for (arm, profile) in split::by_name(&whole, began, &spans) {
                match profiles.get_mut(&arm) {
                    Some(earlier) => earlier.merge(&profile),
                    None => {
                        profiles.insert(arm, profile);
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts the profiles of a run of one cell into its directory; those of a run that was resumed
    /// are added to what it has.
    pub(super) fn keep_profiles(&mut self) -> Result<(), Stop> {
        let [cell] = self.cells.as_mut_slice() else {
            return Ok(());
        };
        for (arm, profile) in &mut cell.profiles {
            if let Some(mut earlier) = earlier(self.run.path(), arm) {
                earlier.merge(profile);
                *profile = earlier;
            }
            let kept = kept::write(self.run, arm, profile, &Wanted::FLAME_GRAPHS)?;
            cell.notes.extend(kept.refused);
        }
        note(cell);
        Ok(())
    }
}

/// The profile of an arm that an earlier part of this run has left.
fn earlier(run: &std::path::Path, arm: &str) -> Option<Profile> {
    let bytes = Run::open(run)
        .ok()?
        .document_bytes(&profile_file(arm))
        .ok()?;
    Profile::from_json(&bytes).ok()
}

fn note(cell: &mut CellRun) {
    if cell.profiles.is_empty() {
        return;
    }
    let text = format!(
        "The server was profiled at {} Hz in every window, of nothing and of the arms alike, so \
         the differences between them are without its cost and the levels are with it.",
        crate::profiling::FREQUENCY_HZ
    );
    cell.notes.push(text);
}
