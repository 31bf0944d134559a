//! Texts of prepared statements: each kept once, however many connections prepared it.
//!
//! Invariant: what is kept is at most [`BYTES_MAX`]; a text that finds no room is unknown when it
//! is executed, not wrong.

use std::collections::HashSet;
use std::sync::Arc;

/// All texts together, bytes.
const BYTES_MAX: usize = 8 << 20;
/// What a text takes beside its bytes, about.
const BYTES_EXTRA: usize = 64;

/// No `Debug`: these are users' texts.
#[derive(Default)]
pub(super) struct Texts {
    known: HashSet<Arc<[u8]>>,
    bytes: usize,
    /// Texts are forgotten that nobody holds when there are so many.
    sweep_at: usize,
}

impl Texts {
    /// The one copy of `text`; `None` if there is no room for it.
    pub(super) fn keep(&mut self, text: &[u8]) -> Option<Arc<[u8]>> {
        if let Some(known) = self.known.get(text) {
            return Some(known.clone());
        }
        let size = text.len() + BYTES_EXTRA;
        if self.bytes + size > BYTES_MAX || self.known.len() >= self.sweep_at.max(256) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.bytes = self.known.iter().map(|t| t.len() + BYTES_EXTRA).sum();
            // Twice what is held, so that a text is looked at a few times in its life.
            self.sweep_at = self.known.len() * 2;
        }
        if self.bytes + size > BYTES_MAX {
            return None;
        }
        let text: Arc<[u8]> = text.into();
        self.bytes += size;
        self.known.insert(text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_only_while_it_is_used() {
        let mut texts = Texts::default();
        let first = texts.keep(b"SELECT 1").unwrap();
        assert!(Arc::ptr_eq(&first, &texts.keep(b"SELECT 1").unwrap()));
        for number in 0..100_000_u32 {
            assert!(texts.keep(&number.to_le_bytes().repeat(100)).is_some());
            assert!(texts.bytes <= BYTES_MAX);
        }
        assert!(Arc::ptr_eq(&first, &texts.keep(b"SELECT 1").unwrap()));
        let held = texts.keep(&vec![7; BYTES_MAX - 10_000]).unwrap();
        assert!(texts.keep(&[8; 20_000]).is_none());
        drop(held);
        assert!(texts.keep(&[8; 20_000]).is_some());
    }
}
