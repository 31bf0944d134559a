//! Figures and checks that a workload makes of its own run (its function `checks`).

use serde::Serialize;

/// One figure, and whether it is as it must be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) value: Option<f64>,
    pub(super) unit: Option<String>,
    /// The range it must lie in; either end may be open.
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    /// `None`: a figure, not a check.
    pub(super) ok: Option<bool>,
    pub(super) note: Option<String>,
}

/// All of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Checks(pub(super) Vec<Check>);

impl From<Vec<waggle_load::Check>> for Checks {
    fn from(checks: Vec<waggle_load::Check>) -> Checks {
        let one = |check: waggle_load::Check| Check {
            name: check.name,
            value: check.value,
            unit: check.unit,
            low: check.low,
            high: check.high,
            ok: check.ok,
            note: check.note,
        };
        Checks(checks.into_iter().map(one).collect())
    }
}

impl Checks {
    /// The names of those that failed.
    pub(super) fn failed(&self) -> Vec<&str> {
        let failed = self.0.iter().filter(|check| check.ok == Some(false));
        failed.map(|check| check.name.as_str()).collect()
    }
}

impl Check {
    /// `ok`, `FAILED`, or nothing for a figure.
    pub(super) fn verdict(&self) -> &'static str {
        match self.ok {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "",
        }
    }

    /// The range in words.
    pub(super) fn range(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
            (Some(low), None) => format!("at least {}", short(low)),
            (None, Some(high)) => format!("at most {}", short(high)),
            (None, None) => String::new(),
        }
    }

    pub(super) fn value(&self) -> String {
        self.value.map_or_else(|| "-".to_owned(), short)
    }
}

/// Up to three decimals, none of them a zero at the end.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_shown_with_its_range() {
        let check = Check {
            name: "payments".to_owned(),
            value: Some(43.2501),
            unit: Some("%".to_owned()),
            low: Some(43.0),
            high: None,
            ok: Some(true),
            note: None,
        };
        assert_eq!(
            (check.value(), check.range()),
            ("43.25".to_owned(), "at least 43".to_owned())
        );
        let failed = Check {
            ok: Some(false),
            ..check.clone()
        };
        let figure = Check {
            ok: None,
            ..check.clone()
        };
        let checks = Checks(vec![check, failed, figure]);
        assert_eq!(checks.failed(), ["payments"]);
        assert_eq!(short(-0.0001), "0");
        assert_eq!(short(100.0), "100");
    }
}
