//! The small languages of the open loop's flags: rates, steps, limits, percentiles.
//!
//! Invariant: what is parsed is usable; every refusal says what was expected instead.

use std::time::Duration;

use waggle_load::Overflow;
use waggle_stats::arrivals::Stage;

use super::args::{LIMIT_US_MAX, Steps};

/// More events a second than any client can offer; above it, a slip of the keyboard.
const RATE_MAX: f64 = 1e8;

/// The longest any duration may be: a year.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// A percentile of the response time and its limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    /// As typed, without blanks, such as `p99<5ms`.
    pub(super) text: String,
    /// 0 to 1; 1 is the maximum.
    pub(super) quantile: f64,
    pub(super) limit_us: f64,
}

/// Seconds, with a fraction; 0 too, which means "none" where it makes sense.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=SECONDS_MAX).contains(&s) => Ok(s),
        _ => Err("give seconds, such as 10 or 0.5".to_owned()),
    }
}

/// Events a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        _ => Err("give events a second above 0, such as 200 or 0.5".to_owned()),
    }
}

/// A percentile above 0 and up to 100.
pub(super) fn percentile(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => Ok(percentile),
        _ => Err(format!(
            "'{text}' is no percentile: give 99 or 99.9, with commas between"
        )),
    }
}

/// `queue`, `drop:N` or `abort:N`.
pub(super) fn overflow(text: &str) -> Result<Overflow, String> {
    let wanted = || format!("'{text}' is none of queue, drop:N and abort:N");
    if text == "queue" {
        return Ok(Overflow::Queue);
    }
    let (policy, waiting) = text.split_once(':').ok_or_else(wanted)?;
    let waiting = waiting
        .parse()
        .map_err(|_| format!("'{waiting}' in '{text}' is no number of waiting events"))?;
    match policy {
        "drop" => Ok(Overflow::Drop { waiting }),
        "abort" => Ok(Overflow::Abort { waiting }),
        _ => Err(wanted()),
    }
}

/// `RATE:LENGTH` or `FROM..TO:LENGTH`, with commas.
pub(super) fn steps(text: &str) -> Result<Steps, String> {
    let stages: Vec<Stage> = text
        .split(',')
        .map(|part| stage(part.trim()))
        .collect::<Result<_, _>>()?;
    if stages
        .iter()
        .all(|stage| stage.from <= 0.0 && stage.to <= 0.0)
    {
        return Err("no step offers anything".to_owned());
    }
    Ok(Steps(stages))
}

fn stage(part: &str) -> Result<Stage, String> {
    let (rates, length) = part
        .split_once(':')
        .ok_or_else(|| format!("'{part}' has no length: give RATE:LENGTH, such as 100:30s"))?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let one = |text: &str| match text.trim().parse::<f64>() {
        Ok(rate) if (0.0..=RATE_MAX).contains(&rate) => Ok(rate),
        _ => Err(format!(
            "'{text}' in '{part}' is no rate: give events a second, 0 or more"
        )),
    };
    let duration_s = length_s(length.trim())
        .ok_or_else(|| format!("'{length}' in '{part}' is no length: give 30s, 2m or 500ms"))?;
    Ok(Stage {
        duration_s,
        from: one(from)?,
        to: one(to)?,
    })
}

fn length_s(text: &str) -> Option<f64> {
    let (number, factor) = with_unit(
        text,
        &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)],
    )?;
    let length_s = number * factor;
    (length_s > 0.0 && length_s <= SECONDS_MAX).then_some(length_s)
}

/// `p99<5ms`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (metric, limit) = text
        .split_once("<=")
        .or_else(|| text.split_once('<'))
        .ok_or_else(|| format!("'{text}' is no limit: give one such as 'p99<5ms'"))?;
    let quantile = match metric {
        "max" => 1.0,
        _ => metric
            .strip_prefix('p')
            .and_then(|percentile| percentile.parse::<f64>().ok())
            .filter(|percentile| (1.0..100.0).contains(percentile))
            .ok_or_else(|| {
                format!(
                    "'{metric}' in '{text}' is neither max nor a percentile such as p99 or p99.9"
                )
            })?
            / 100.0,
    };
    let (number, factor) = with_unit(limit, &[("us", 1.0), ("ms", 1e3), ("s", 1e6)])
        .ok_or_else(|| format!("'{limit}' in '{text}' is no time: give 500us, 5ms or 0.1s"))?;
    let limit_us = number * factor;
    if !(limit_us > 0.0 && limit_us < LIMIT_US_MAX) {
        return Err(format!(
            "the limit in '{text}' must lie between 0 and an hour"
        ));
    }
    Ok(Limit {
        quantile,
        limit_us,
        text,
    })
}

/// A number and the factor of its unit; the first unit that fits counts.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<(f64, f64)> {
    units.iter().find_map(|&(unit, factor)| {
        let number = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        number.is_finite().then_some((number, factor))
    })
}

/// The length of all stages.
pub(super) fn length(stages: &[Stage]) -> Duration {
    Duration::from_secs_f64(stages.iter().map(|stage| stage.duration_s).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_ramps_are_read() {
        let stage = |duration_s, from, to| Stage {
            duration_s,
            from,
            to,
        };
        assert_eq!(
            steps("100:30s, 0..500:1m,2.5:500ms").unwrap().0,
            [
                stage(30.0, 100.0, 100.0),
                stage(60.0, 0.0, 500.0),
                stage(0.5, 2.5, 2.5)
            ]
        );
        let cases = [
            ("100", "'100' has no length"),
            ("100:30", "'30' in '100:30' is no length"),
            ("100:0s", "'0s' in '100:0s' is no length"),
            ("a..5:3s", "'a' in 'a..5:3s' is no rate"),
            ("-1:3s", "'-1' in '-1:3s' is no rate"),
            ("0:3s", "no step offers anything"),
            ("", "'' has no length"),
        ];
        for (text, wanted) in cases {
            let refused = steps(text).unwrap_err();
            assert!(refused.contains(wanted), "{text}: {refused}");
        }
    }

    #[test]
    fn limits_are_read() {
        let cases = [
            ("p99<5ms", 0.99, 5_000.0),
            ("p99.9 <= 500us", 0.999, 500.0),
            ("max<0.25s", 1.0, 250_000.0),
            ("p50<1s", 0.5, 1e6),
        ];
        for (text, quantile, limit_us) in cases {
            let limit = limit(text).unwrap();
            assert!((limit.quantile - quantile).abs() < 1e-12, "{text}");
            assert!((limit.limit_us - limit_us).abs() < 1e-6, "{text}");
        }
        let cases = [
            ("p99=5ms", "is no limit"),
            (
                "mean<5ms",
                "'mean' in 'mean<5ms' is neither max nor a percentile",
            ),
            ("p100<5ms", "neither max"),
            ("p99<5", "'5' in 'p99<5' is no time"),
            ("p99<0ms", "between 0 and an hour"),
        ];
        for (text, wanted) in cases {
            let refused = limit(text).unwrap_err();
            assert!(refused.contains(wanted), "{text}: {refused}");
        }
    }

    #[test]
    fn policies_are_read() {
        assert_eq!(overflow("queue"), Ok(Overflow::Queue));
        assert_eq!(overflow("drop:10"), Ok(Overflow::Drop { waiting: 10 }));
        assert_eq!(overflow("abort:0"), Ok(Overflow::Abort { waiting: 0 }));
        assert!(overflow("drop").unwrap_err().contains("none of queue"));
        assert!(overflow("drop:x").unwrap_err().contains("'x' in 'drop:x'"));
    }
}
