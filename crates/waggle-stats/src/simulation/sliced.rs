//! Windows with slices, and arms that leave something behind for a while after a switch.

use crate::compare::{BASE_ARM, Slice, SlicedWindow, Window};

use super::{BASE_US, Machine, noise, window};

/// Slices of a window.
pub(crate) const SLICES: usize = 10;

/// What a switch carries into the next window: a share of the cost that decays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carry {
    /// Right after an arm was switched on.
    pub(crate) on: f64,
    /// Right after an arm was switched off.
    pub(crate) off: f64,
    /// Seconds in which it falls to 1/e.
    pub(crate) decay_s: f64,
}

impl Carry {
    pub(crate) const NONE: Carry = Carry {
        on: 0.0,
        off: 0.0,
        decay_s: 1.0,
    };
}

impl Machine {
    /// The windows of `order`, in slices; `carries[arm]` is what its switches leave behind.
    pub(crate) fn sliced(
        &mut self,
        order: &[usize],
        log_effects: &[f64],
        carries: &[Carry],
    ) -> Vec<SlicedWindow> {
        let mut before = BASE_ARM;
        let mut windows = Vec::with_capacity(order.len());
        for &arm in order {
            let (share, decay_s) = match (arm, before) {
                (BASE_ARM, before) => (carries[before].off, carries[before].decay_s),
                (arm, _) => (carries[arm].on, carries[arm].decay_s),
            };
            windows.push(self.sliced_window(arm, log_effects[arm], share, decay_s));
            before = arm;
        }
        windows
    }

    fn sliced_window(
        &mut self,
        arm: usize,
        log_effect: f64,
        share: f64,
        decay_s: f64,
    ) -> SlicedWindow {
        let world = self.world;
        let hit = self.burst();
        let switched_s = self.now_s;
        let slice_s = world.window_s / SLICES as f64;
        // Half of a window's variance is its own, half comes from its slices.
        let own = noise(&world, &mut self.random) * 0.5_f64.sqrt();
        let slices: Vec<Slice> = (0..SLICES)
            .map(|at| {
                let from_s = at as f64 * slice_s;
                let carried = (share * (-(from_s + 0.5 * slice_s) / decay_s).exp()).ln_1p();
                let jitter = noise(&world, &mut self.random) * (0.5 * SLICES as f64).sqrt();
                self.now_s = switched_s + from_s - 0.5 * (world.window_s - slice_s);
                let log_us =
                    BASE_US.ln() + self.drift() + log_effect + hit + own + carried + jitter;
                let part = super::World {
                    window_s: slice_s,
                    ..world
                };
                let part = window(&part, arm, self.lives, switched_s, log_us);
                Slice {
                    from_s,
                    to_s: from_s + slice_s,
                    statements: part.statements,
                    server_cpu_ns: part.server_cpu_ns,
                }
            })
            .collect();
        self.now_s = switched_s + world.window_s + world.pause_s;
        let whole = Window {
            arm,
            life: self.lives,
            start_s: switched_s,
            duration_s: world.window_s,
            statements: slices.iter().map(|slice| slice.statements).sum(),
            server_cpu_ns: slices.iter().map(|slice| slice.server_cpu_ns).sum(),
            latency: None,
        };
        SlicedWindow {
            window: whole,
            switched_s,
            slices,
        }
    }
}
