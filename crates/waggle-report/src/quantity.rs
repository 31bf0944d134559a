//! How numbers with an uncertainty are printed: as many digits as the evidence carries.
//!
//! Neighbours: tables and sentences of [`crate::lab`]; `web/src/format.ts` follows the same rule
//! for the page.

/// Decimals worth printing for figures known to about `half_width`: `extra` more than the place of
/// its first significant digit. At most 3.
pub fn decimals(half_width: f64, extra: usize) -> usize {
    if !half_width.is_finite() || half_width <= 0.0 {
        return (1 + extra).min(3);
    }
    let place = -half_width.log10().floor();
    let place = if place > 0.0 {
        (place as usize).min(3)
    } else {
        0
    };
    // An uncertainty of 20 needs no decimals however many extra digits are asked for.
    let extra = if half_width >= 10.0 { 0 } else { extra };
    (place + extra).min(3)
}

/// A number with a fixed count of decimals, never `-0`.
pub fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// Like [`plain`], with a sign on positive numbers too.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = plain(value, decimals);
    let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if zero || text.starts_with('-') {
        text
    } else {
        format!("+{text}")
    }
}

/// A count with separators between thousands: `6,412,233`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in binary units: `24.6 MiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = value as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value} B")
    } else {
        format!("{size:.1} {}", UNITS[unit])
    }
}

/// A span of time: `3 min 32 s`, `4.2 s`, `850 ms`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    let whole = value.round().max(0.0) as u64;
    match whole {
        _ if value < 1.0 => format!("{:.0} ms", value * 1e3),
        _ if value < 10.0 => format!("{value:.1} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_evidence() {
        assert_eq!(decimals(0.19, 0), 1);
        assert_eq!(decimals(0.19, 1), 2);
        assert_eq!(decimals(0.019, 0), 2);
        assert_eq!(decimals(1.8, 0), 0);
        assert_eq!(decimals(1.8, 1), 1);
        assert_eq!(decimals(44.0, 1), 0);
        assert_eq!(decimals(1e-9, 1), 3);
        assert_eq!(decimals(0.0, 0), 1);
        assert_eq!(decimals(f64::NAN, 0), 1);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(plain(-0.004, 2), "0.00");
        assert_eq!(signed(1.2, 1), "+1.2");
        assert_eq!(signed(-1.2, 1), "-1.2");
        assert_eq!(signed(0.001, 2), "0.00");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(6_412_233), "6,412,233");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(25_794_969), "24.6 MiB");
        assert_eq!(seconds(0.85), "850 ms");
        assert_eq!(seconds(4.21), "4.2 s");
        assert_eq!(seconds(212.0), "3 min 32 s");
        assert_eq!(seconds(7_380.0), "2 h 3 min");
        assert_eq!(seconds(f64::NAN), "unknown");
    }
}
