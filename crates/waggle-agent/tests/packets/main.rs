//! The packet source against real servers, real networks and the reference for packets.

mod network;
mod raw;
mod reference;
mod servers;
mod stage;
