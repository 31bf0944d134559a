//! What a server takes a value for: a number with its suffix, a switch, or a word.
//!
//! Neighbours: the parent keeps each value once, `constraint` compares.

/// A number with the server's suffixes K, M, G, T (powers of 1024).
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let last = text.chars().last()?;
    let factor = match last.to_ascii_uppercase() {
        'K' => 1024.0,
        'M' => 1024.0 * 1024.0,
        'G' => 1024.0 * 1024.0 * 1024.0,
        'T' => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    let digits = if factor == 1.0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    let begins = digits.trim_start_matches(['+', '-']);
    if !begins.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

/// A value as a number, if it is one: with the suffixes K, M, G, T; `ON` is 1 and `OFF` is 0.
pub fn amount(value: &str) -> Option<f64> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" => Some(1.0),
        "off" | "false" | "no" => Some(0.0),
        text => number(text),
    }
}

/// Whether a server would take two values for the same: `ON` and `1`, `1M` and `1048576`, `row` and
/// `ROW`.
pub fn same_value(one: &str, other: &str) -> bool {
    match (amount(one), amount(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        (None, None) => one.trim().eq_ignore_ascii_case(other.trim()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_as_a_server_sees_them() {
        for (one, other) in [
            ("ON", "1"),
            ("128M", "134217728"),
            ("row", "ROW"),
            ("0.50", "0.5"),
        ] {
            assert!(same_value(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("ON", "OFF"),
            ("8", "80"),
            ("", "0"),
            ("inf", "1"),
            ("M", "1M"),
        ] {
            assert!(!same_value(one, other), "{one} {other}");
        }
    }
}
