//! `--histogram`: the latencies as a picture in text.
//!
//! Rows are those of sysbench: 1,024 steps of equal ratio from 0.001 ms to 100 s. The values
//! come from a histogram with three digits, so the rows are sums, and nothing is clamped but here.

use std::fmt::Write as _;

use waggle_stats::latency::LatencyBucket;

const STEPS: f64 = 1024.0;
const LOWEST_MS: f64 = 0.001;
const HIGHEST_MS: f64 = 100_000.0;
const STARS: u64 = 40;

/// The picture; a head and an empty row when nothing was recorded.
pub(super) fn text(buckets: &[LatencyBucket]) -> String {
    let steps_per_unit = (STEPS - 1.0) / (HIGHEST_MS / LOWEST_MS).ln();
    let mut rows = std::collections::BTreeMap::<u64, u64>::new();
    for bucket in buckets {
        let middle_ms = (bucket.low_ns + (bucket.high_ns - bucket.low_ns) / 2) as f64 / 1e6;
        let ms = middle_ms.clamp(LOWEST_MS, HIGHEST_MS);
        let row = ((ms / LOWEST_MS).ln() * steps_per_unit).round() as u64;
        *rows.entry(row).or_default() += bucket.count;
    }
    let most = rows.values().copied().max().unwrap_or(1).max(1);
    let mut text = "Latency histogram (values are in milliseconds)\n       value  ------------- \
                    distribution ------------- count\n"
        .to_owned();
    for (row, count) in &rows {
        let ms = LOWEST_MS * (*row as f64 / steps_per_unit).exp();
        let stars = "*".repeat((count * STARS).div_ceil(most).min(STARS) as usize);
        let _ = writeln!(text, "{ms:12.3} |{stars:<40} {count}");
    }
    text += " \n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shares_of_the_largest() {
        let bucket = |ns: u64, count: u64| LatencyBucket {
            low_ns: ns,
            high_ns: ns,
            count,
        };
        let picture = text(&[bucket(1_000, 2), bucket(2_000_000, 1), bucket(2_001_000, 0)]);
        let lines: Vec<&str> = picture.lines().collect();
        let full = "*".repeat(40);
        assert_eq!(lines[2], format!("       0.001 |{full} 2"));
        assert!(lines[3].contains(&format!("|{:<40} 1", "*".repeat(20))));
        assert_eq!(lines[4], " ");
    }
}
