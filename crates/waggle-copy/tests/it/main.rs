//! Schema, preflight and verification against real servers: one of each family, a schema a test.

mod cases;
mod keys;
mod preflight;
mod schema;
mod servers;
mod silence;
mod verify;
