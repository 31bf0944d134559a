//! Seeded damage for the tests of parsers: the same bytes go wrong in the same way every time.

/// A small generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(mixed).unwrap_or(0) % bound
    }

    /// Changes, cuts, doubles or puts in some bytes.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const ODD: &[u8] = b"\0\xff\n\r #:;=-()9 \x80";
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] = ODD[self.below(ODD.len())],
                1 => bytes.insert(at, ODD[self.below(ODD.len())]),
                2 => bytes.truncate(at),
                3 if at < bytes.len() => {
                    let end = (at + 1 + self.below(30)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, part);
                }
                _ => {
                    let end = (at + self.below(20)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
        }
    }
}
