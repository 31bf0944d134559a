//! Places in a table by a key that is a hash already.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// From a hash of 64 bits to a place.
pub(super) type Places = HashMap<u64, usize, BuildHasherDefault<Identity>>;

/// Hands the key through.
#[derive(Debug, Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
