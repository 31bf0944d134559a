//! Which configuration is best, which are as good, and is it worth changing the present one?
//!
//! A tuning run measures configurations in *blocks*: one configuration in place, one value of the
//! objective. From a space to a recommendation:
//!
//! 1. [`Space::configurations`] lists what is to be tried;
//! 2. [`Strategy::decide`] gives the order of the next *round*: every configuration that still may
//!    be best once, the present one (the anchor) again and again, in an order drawn by lot;
//! 3. [`Strategy::take`] is handed each block; [`Strategy::fail`] what could not be measured;
//! 4. [`Strategy::outcome`] ranks, names what is the same, and recommends or does not.
//!
//! # The estimator, and why this one
//!
//! Logarithms of the blocks are a sum of the configuration's own effect and a drift of the machine
//! that is piecewise linear with a knot at the end of each round ([`Fit`]): the design is balanced
//! within a round, so what drifts slower than a round cancels, and what is faster is noise that the
//! residuals know of. Least squares, because a configuration that stalls now and then has to show
//! it: blocks are not set aside as the lab's windows are.
//!
//! # What is claimed
//!
//! *Halving* drops a configuration when another is better by a one-sided test at 5% over all
//! configurations (Bonferroni) and all looks (Pocock), and at 2.5% at most at one look. So the true
//! best is among those that are left ([`Outcome::best`] and [`Outcome::equal_to_best`]) with 95%
//! confidence, however often it was looked. Intervals against the present configuration hold at 95%
//! for all configurations together. A *sweep* looks once, at its end.
//!
//! Invariant: pure and deterministic. The same blocks and seed give the same decisions, in whatever
//! order a round's blocks are handed in.

mod fit;
mod guard;
mod outcome;
mod space;
mod strategy;

pub use fit::{Fit, Point};
pub use guard::{Guard, GuardStanding, GuardVerdict};
pub use outcome::{Answer, Dropped, Outcome, Place, Standing, WhyDropped};
pub use space::{
    Configuration, Constraint, Scale, Space, SpaceError, Values, Variable, amount, same_value,
};
pub use strategy::{Block, Decision, Kind, Settings, Stop, Strategy, looks};

#[cfg(test)]
mod simulation;
