//! Which random numbers does a seed give?
//!
//! xoshiro256++ (Blackman and Vigna, public domain), its state filled by SplitMix64, as its authors
//! advise. Used for bootstraps and for the order of windows: statistical quality and a stream that
//! never changes between releases are what matters here, secrecy is not.
//!
//! Invariant: the same seed gives the same numbers on every machine, for ever; run files that name
//! a seed rely on it. A test holds the stream fixed.

/// A seeded stream of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `seed`; any value, zero too, gives a good stream.
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        let mut next = || {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = counter;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), on a grid of 2^-53.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `0..bound` without bias (Lemire's method); 0 when `bound` is 0.
    pub fn next_below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }

    /// Puts `items` into a random order, each order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.next_below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The authors' reference output from the state 1, 2, 3, 4.
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let first: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        let published = [
            41943041,
            58720359,
            3588806011781223,
            3591011842654386,
            9228616714210784205,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn the_state_is_filled_by_the_published_splitmix64() {
        let published = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
        ];
        assert_eq!(Random::new(1234567).state[..3], published);
    }

    #[test]
    fn every_number_below_the_bound_is_as_likely() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[random.next_below(6)] += 1;
        }
        let chi_square: f64 = seen
            .iter()
            .map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0)
            .sum();
        assert!(
            chi_square < 20.5,
            "chi-square with 5 df, 0.1% point 20.5: {chi_square}"
        );
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut random = Random::new(8);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        let chi_square: f64 = seen
            .values()
            .map(|&n| (f64::from(n) - 1_000.0).powi(2) / 1_000.0)
            .sum();
        assert!(
            chi_square < 49.7,
            "chi-square with 23 df, 0.1% point 49.7: {chi_square}"
        );
    }
}
