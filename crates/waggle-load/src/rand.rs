//! Random values for workloads: one generator a thread, reproducible from the seed.
//!
//! Invariant: what a thread draws depends on the seed, its index and its own calls only, never on
//! which thread started first. The generator is xoshiro256++, seeded through SplitMix64.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which distribution `sysbench.rand.default` draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distribution {
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl Distribution {
    pub(crate) const NAMES: &'static str = "uniform, gaussian, special, pareto or zipfian";

    pub(crate) fn by_name(name: &str) -> Option<Distribution> {
        Some(match name {
            "uniform" => Distribution::Uniform,
            "gaussian" => Distribution::Gaussian,
            "special" => Distribution::Special,
            "pareto" => Distribution::Pareto,
            "zipfian" => Distribution::Zipfian,
            _ => return None,
        })
    }
}

/// Parameters of the distributions, the same for all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RandSettings {
    pub(crate) default: Distribution,
    /// Uniform draws that one gaussian draw averages.
    pub(crate) gaussian_draws: u32,
    /// Share of the range that is special, in percent.
    pub(crate) special_range_percent: f64,
    /// Share of draws that hit the special range, in percent.
    pub(crate) special_hit_percent: f64,
    pub(crate) pareto_h: f64,
    pub(crate) zipfian_exponent: f64,
}

impl Default for RandSettings {
    fn default() -> Self {
        RandSettings {
            default: Distribution::Uniform,
            gaussian_draws: 12,
            special_range_percent: 1.0,
            special_hit_percent: 75.0,
            pareto_h: 0.2,
            zipfian_exponent: 0.8,
        }
    }
}

/// The generator of one thread.
#[derive(Debug)]
pub(crate) struct Rand {
    state: [u64; 4],
    settings: RandSettings,
    unique: UniqueSource,
    /// Which order the values of [`Rand::unique`] come in; of the seed, the same in all threads.
    unique_key: [u32; 2],
    pareto_power: f64,
    zipfian: Zipfian,
}

/// The counter behind `sysbench.rand.unique`, shared by all threads of a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct UniqueSource(Arc<AtomicU32>);

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Rand {
    /// `stream` tells the threads (and the phases of a run) apart.
    pub(crate) fn new(
        seed: u64,
        stream: u64,
        settings: RandSettings,
        unique: UniqueSource,
    ) -> Rand {
        // Mixed before the streams are told apart, so that seed 1, stream 2 is not seed 2,
        // stream 1.
        let mut base = seed;
        let mut position = split_mix(&mut base) ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        let state = std::array::from_fn(|_| split_mix(&mut position));
        // The upper half of the stream is the phase of the run, which all threads share.
        let mut phase = base ^ (stream >> 32).wrapping_mul(0xA076_1D64_78BD_642F);
        let unique_key = split_mix(&mut phase);
        let h = settings.pareto_h;
        Rand {
            state,
            settings,
            unique,
            unique_key: [unique_key as u32, (unique_key >> 32) as u32],
            pareto_power: h.ln() / (1.0 - h).ln(),
            zipfian: Zipfian::new(1, settings.zipfian_exponent),
        }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// In `[0, 1)`, 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `[0, count)`; 0 for an empty range.
    fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(count)) >> 64) as u64
    }

    /// In `[low, high]`, every value as likely as any other.
    pub(crate) fn uniform(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add(self.below(span(low, high)) as i64)
    }

    /// In `[low, high]`, by the distribution the user chose.
    pub(crate) fn default_value(&mut self, low: i64, high: i64) -> i64 {
        self.drawn(self.settings.default, low, high)
    }

    pub(crate) fn drawn(&mut self, distribution: Distribution, low: i64, high: i64) -> i64 {
        match distribution {
            Distribution::Uniform => self.uniform(low, high),
            Distribution::Gaussian => {
                let unit = self.gaussian_unit();
                at(low, high, unit)
            }
            Distribution::Special => self.special(low, high),
            Distribution::Pareto => {
                let unit = self.unit().powf(self.pareto_power);
                at(low, high, unit)
            }
            Distribution::Zipfian => self.zipfian(low, high),
        }
    }

    fn gaussian_unit(&mut self) -> f64 {
        let draws = self.settings.gaussian_draws.max(1);
        (0..draws).map(|_| self.unit()).sum::<f64>() / f64::from(draws)
    }

    /// Most draws from a small range in the middle, the others from a bell over everything.
    fn special(&mut self, low: i64, high: i64) -> i64 {
        if self.unit() * 100.0 >= self.settings.special_hit_percent {
            let unit = self.gaussian_unit();
            return at(low, high, unit);
        }
        let count = span(low, high);
        let share = self.settings.special_range_percent / 100.0;
        let special = ((count as f64 * share) as u64).clamp(1, count.max(1));
        let first = low.wrapping_add(((count - special) / 2) as i64);
        self.uniform(first, first.wrapping_add(special as i64 - 1))
    }

    fn zipfian(&mut self, low: i64, high: i64) -> i64 {
        let count = span(low, high);
        if self.zipfian.count != count {
            self.zipfian = Zipfian::new(count, self.settings.zipfian_exponent);
        }
        let zipfian = self.zipfian;
        let rank = zipfian.rank(|| self.unit());
        low.wrapping_add(rank as i64 - 1)
    }

    /// Never the same value twice in a load (until 2^32 values were drawn by all threads
    /// together), in an order of the seed's. Leaves the thread's own stream alone. Which thread
    /// gets which value depends on who comes first: that is the price of never repeating.
    pub(crate) fn unique(&mut self) -> u32 {
        permuted(
            self.unique.0.fetch_add(1, Ordering::Relaxed),
            self.unique_key,
        )
    }

    /// Fills `out` by `format`: `#` becomes a digit, `@` a lower-case letter, others stay.
    pub(crate) fn fill(&mut self, format: &[u8], out: &mut [u8]) {
        // One draw serves four characters (16 bits each keep the bias of the scaling under 0.02 %):
        // a row of the usual workloads has 180.
        let mut bits = 0u64;
        let mut left = 0u32;
        for (&byte, place) in format.iter().zip(out) {
            if !matches!(byte, b'#' | b'@') {
                *place = byte;
                continue;
            }
            if left == 0 {
                bits = self.next_u64();
                left = 4;
            }
            let low = u32::from(bits as u16);
            bits >>= 16;
            left -= 1;
            let (first, count) = if byte == b'#' { (b'0', 10) } else { (b'a', 26) };
            *place = first + ((low * count) >> 16) as u8;
        }
    }

    /// Letters and digits, `min` to `max` of them; returns how many.
    pub(crate) fn fill_varied(&mut self, min: usize, max: usize, out: &mut [u8]) -> usize {
        let length = self.uniform(min as i64, max.max(min) as i64) as usize;
        let length = length.min(out.len());
        for place in &mut out[..length] {
            *place = b'0' + self.below(u64::from(b'z' - b'0') + 1) as u8;
        }
        length
    }
}

/// Every step is a bijection on 32 bits (an addition, a multiplication by an odd number, a shift
/// folded in), so distinct values stay distinct.
fn permuted(value: u32, key: [u32; 2]) -> u32 {
    let mut mixed = value.wrapping_add(key[0]);
    for (round_key, odd) in [(key[1], 0x85EB_CA6B), (key[0], 0xC2B2_AE35)] {
        mixed ^= mixed >> 16;
        mixed = mixed.wrapping_mul(odd).wrapping_add(round_key);
        mixed ^= mixed >> 13;
    }
    mixed = mixed.wrapping_mul(0x846C_A68B);
    mixed ^ (mixed >> 16)
}

fn span(low: i64, high: i64) -> u64 {
    if high < low {
        1
    } else {
        (high.wrapping_sub(low) as u64).saturating_add(1)
    }
}

fn at(low: i64, high: i64, unit: f64) -> i64 {
    let count = span(low, high);
    let offset = ((count as f64 * unit) as u64).min(count - 1);
    low.wrapping_add(offset as i64)
}

/// Ranks 1..=count with weight rank^-exponent, by rejection inversion (Hoermann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone, Copy)]
struct Zipfian {
    count: u64,
    exponent: f64,
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipfian {
    fn new(count: u64, exponent: f64) -> Zipfian {
        let mut zipfian = Zipfian {
            count,
            exponent,
            first: 0.0,
            last: 0.0,
            shortcut: 0.0,
        };
        zipfian.first = zipfian.integral(1.5) - 1.0;
        zipfian.last = zipfian.integral(count as f64 + 0.5);
        zipfian.shortcut = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.weight(2.0));
        zipfian
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 {
            x.ln()
        } else {
            (x.powf(power) - 1.0) / power
        }
    }

    fn inverse(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 {
            x.exp()
        } else {
            (1.0 + x * power).powf(1.0 / power)
        }
    }

    fn rank(&self, mut unit: impl FnMut() -> f64) -> u64 {
        loop {
            let area = self.last + unit() * (self.first - self.last);
            let x = self.inverse(area);
            let rank = (x.round() as u64).clamp(1, self.count.max(1));
            let centre = rank as f64;
            let inside = centre - x <= self.shortcut;
            if inside || area >= self.integral(centre + 0.5) - self.weight(centre) {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests;
