//! Counts by a cause that has a stable name.

/// A handful of counters; the cause is looked up by its name.
#[derive(Debug, Clone, Default)]
pub(super) struct Causes(Vec<(&'static str, u64)>);

impl Causes {
    /// Counters for `causes`, which are shown also while they are 0.
    pub(super) fn known(causes: &[&'static str]) -> Self {
        Self(causes.iter().map(|cause| (*cause, 0)).collect())
    }

    pub(super) fn add(&mut self, cause: &'static str, count: u64) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|(name, _)| *name == cause) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((cause, count)),
        }
    }

    pub(super) fn view(&self) -> Vec<(&'static str, u64)> {
        self.0.clone()
    }
}
