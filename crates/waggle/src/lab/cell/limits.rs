//! What server and observers of a cell may use.
//!
//! Neighbour: `waggle_server::confine` makes the kernel enforce it, and says what it does not.

use std::path::Path;

use serde::{Deserialize, Serialize};
use waggle_server::confine::{self, Confinement, IoRates};

/// Limits of a cell; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Processors that server and observers share; the load has the others (all, if there are no
    /// others).
    pub(crate) cpus: Option<u32>,
    /// Bytes a second the server may read, and write, from the disk its data is on.
    pub(crate) io_bytes_per_s: Option<u64>,
}

impl Limits {
    /// Makes room for the cell's processes: [`Confinement::add`] the server and each observer, and
    /// [`Confinement::keep_threads_off`] for the load, after its threads are there. `data` is on
    /// the disk that is throttled. `None` without limits.
    pub(crate) fn confinement(&self, data: &Path) -> Option<Confinement> {
        let rates = |bytes_s| IoRates {
            read_bytes_s: Some(bytes_s),
            write_bytes_s: Some(bytes_s),
            ..IoRates::default()
        };
        let limits = confine::Limits {
            cpus: self.cpus,
            io: self.io_bytes_per_s.map(rates),
        };
        limits.any().then(|| Confinement::new(&limits, data))
    }
}
