//! What `calibrate` and `bench-watch` share: they drive the released `waggle` as a user would, and
//! file what comes of it.
//!
//! [`waggle`] runs the program, [`control`] orders its probe about, [`server`] is a throw-away
//! server with a load, [`windows`] reads what a lab run recorded, [`filed`] writes the result.
//! Invariant: nothing here knows the binary's insides; every figure comes from its JSON, its run
//! directories, or the kernel.

pub mod control;
pub mod filed;
pub mod numbers;
pub mod server;
pub mod waggle;
pub mod windows;
