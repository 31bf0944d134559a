//! What is an arm, where do arms come from, and how is one switched?
//!
//! Arms are data: [`spec`] says what one is, [`builtin`] names those that come with waggle, a file
//! or flags name any other. Neighbours: `cell` says which arms a condition is measured under,
//! `run` switches them.
//!
//! Invariant: nothing here knows an arm by its name; what an arm does is in its spec.

pub(crate) mod builtin;
pub(crate) mod command;
pub(crate) mod control;
pub(crate) mod file;
pub(crate) mod leftover;
pub(crate) mod observing;
pub(crate) mod spec;
pub(crate) mod switch;

pub(crate) use spec::{ArmSpec, ObserverSpec};
