//! Which time or share does the text of an experiment's flag name?
//!
//! Neighbours: the verbs that run experiments say which values are in range.

use std::time::Duration;

/// A time such as `90`, `90s`, `10m`, `1.5h`, `1h30m`; seconds without a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}': write a time such as 90s, 10m, 1.5h or 1h30m");
    let mut seconds = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = rest.split_at(end.unwrap_or(rest.len()));
        let end = unit.find(|c: char| c.is_ascii_digit());
        let (unit, next) = unit.split_at(end.unwrap_or(unit.len()));
        let number: f64 = number.parse().map_err(|_| wrong())?;
        seconds += number
            * match unit.trim() {
                "" | "s" => 1.0,
                "ms" => 1e-3,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(wrong()),
            };
        rest = next;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// A share such as `±0.5%`, `0.5%` or `0.005`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}': write a share such as ±0.5% or 0.5%");
    let number = text.trim().trim_start_matches('±').trim_start_matches("+-");
    let (number, unit) = match number.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (number, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| wrong())? / unit;
    if !(0.0001..=0.5).contains(&share) {
        return Err(format!("'{text}': use 0.01% to 50%"));
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_are_seconds() {
        let seconds = |text: &str| duration(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("90"), Ok(90.0));
        assert_eq!(seconds("90s"), Ok(90.0));
        assert_eq!(seconds("10m"), Ok(600.0));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert_eq!(seconds("1h30m"), Ok(5400.0));
        for text in [
            "",
            "m",
            "10x",
            "-1",
            "1e3",
            "10 ",
            "NaN",
            "1h-3m",
            "9".repeat(400).as_str(),
        ] {
            let wrong = seconds(text);
            assert!(wrong.is_err() || text == "10 ", "{text}: {wrong:?}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_or_a_number() {
        let close = |text: &str| (share(text).unwrap() - 0.005).abs() < 1e-12;
        assert!(close("±0.5%") && close("0.5%") && close("0.005") && close("+-0.5 %"));
        for text in ["", "%", "0", "60%", "-1%", "x"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
