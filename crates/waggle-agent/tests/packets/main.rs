//! The packet source against real servers, real networks and the reference for packets.

#[path = "../need/mod.rs"]
mod need;
mod network;
mod raw;
mod reference;
mod servers;
mod stage;
