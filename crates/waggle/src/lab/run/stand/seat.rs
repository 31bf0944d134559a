//! Where the arms of a cell run: which stand is whose, and how an arm is switched on it.
//!
//! Neighbour: `crate::experiment` measures windows on a [`Bed`]. Invariant: what observes is under
//! the limits of the cell too, or its arm is off.

use anyhow::anyhow;
use waggle_load::Load;
use waggle_stats::compare::WindowCounters;

use super::Stand;
use crate::experiment::{Bed, Observed};
use crate::lab::cell::CellSpec;

/// Where the arms of a cell run: one server, or two that take turns.
pub(in crate::lab::run) struct Seat<'a> {
    pub(in crate::lab::run) cell: &'a CellSpec,
    /// The server without settings of an arm.
    pub(in crate::lab::run) base: &'a mut Stand,
    /// The server with them.
    pub(in crate::lab::run) set: Option<&'a mut Stand>,
}

impl Seat<'_> {
    fn stand(&self, arm: usize) -> &Stand {
        match (&self.set, self.cell.arm(arm)) {
            (Some(set), Some(arm)) if !arm.is_in_life() => set,
            _ => self.base,
        }
    }

    pub(in crate::lab::run) fn stand_mut(&mut self, arm: usize) -> &mut Stand {
        match (&mut self.set, self.cell.arm(arm)) {
            (Some(set), Some(arm)) if !arm.is_in_life() => set,
            _ => self.base,
        }
    }

    pub(in crate::lab::run) fn stands(&mut self) -> Vec<&mut Stand> {
        let set = self.set.as_deref_mut();
        std::iter::once(&mut *self.base).chain(set).collect()
    }

    /// Why a server of the seat cannot be used any more.
    pub(in crate::lab::run) fn lost(&mut self) -> Option<String> {
        self.stands().into_iter().find_map(|stand| {
            let spoiled = stand.switch.spoiled().map(str::to_owned);
            stand.death().or(spoiled)
        })
    }
}

impl Bed for Seat<'_> {
    fn subject(&self, arm: usize) -> (&Load, u32) {
        let stand = self.stand(arm);
        let load = stand.load.as_ref().map(|(_, load)| load);
        // A seat is taken only after `take_up`.
        (load.expect("a load was started"), stand.server.pid())
    }

    fn on(&mut self, arm: usize) -> anyhow::Result<()> {
        let Some(spec) = self.cell.switched(arm) else {
            return Ok(());
        };
        let stand = self.stand_mut(arm);
        stand.switch.on(spec)?;
        let tools = stand.switch.tools();
        let Some(confinement) = &mut stand.confinement else {
            return Ok(());
        };
        let mut tools = tools.into_iter();
        if let Err(error) = tools.try_for_each(|pid| confinement.add(pid)) {
            let error = anyhow!(error);
            return Err(match stand.switch.off(spec) {
                Ok(_) => error,
                Err(back) => error.context(format!("and not back: {back:#}")),
            });
        }
        Ok(())
    }

    fn off(&mut self, arm: usize) -> anyhow::Result<Observed> {
        match self.cell.switched(arm) {
            Some(spec) => self.stand_mut(arm).switch.off(spec),
            None => Ok(Observed::default()),
        }
    }

    fn counters(&mut self, arm: usize) -> Option<WindowCounters> {
        self.stand_mut(arm).window_counters()
    }

    fn tools(&self, arm: usize) -> Vec<u32> {
        match self.cell.switched(arm) {
            Some(_) => self.stand(arm).switch.tools(),
            None => Vec::new(),
        }
    }
}
