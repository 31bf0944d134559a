//! Options that a workload declares, and the values a user gave for them.
//!
//! The type of an option is the type of its default, as scripts for sysbench expect (a boolean, a
//! number, a list, and everything else is text), unless the script names one. Invariant: a value
//! that does not fit its type and a name that nobody declared are refused before anything is
//! connected.

use std::collections::BTreeMap;

use crate::rand::{Distribution, RandSettings};
use crate::{Dialect, LoadError, Script};
use serde::{Deserialize, Serialize};

/// A value of an option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OptionValue {
    /// `on`, `true`, `1`; `off`, `false`, `0`.
    Bool(bool),
    /// Any number; scripts see a double.
    Number(f64),
    /// Text as typed.
    Text(String),
    /// Texts with commas between.
    List(Vec<String>),
}

/// An option that a workload declares in `sysbench.cmdline.options`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclaredOption {
    /// Name with underscores.
    pub name: String,
    /// The script's own words.
    pub description: String,
    /// The value without the user's wish.
    pub default: OptionValue,
    /// What values it takes.
    pub kind: OptionKind,
}

/// The type of an option: what its default says, unless the script names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptionKind {
    /// `on` or `off`.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that may end in K, M, G or T (powers of 1024).
    Size,
    /// A number.
    Double,
    /// Any text.
    Text,
    /// Texts with commas between.
    List,
    /// The name of a file; scripts see no value.
    File,
}

impl OptionKind {
    /// By the numbers of `sysbench.cmdline.ARG_*`.
    pub(crate) fn by_number(number: u32) -> OptionKind {
        match number {
            1 => OptionKind::Bool,
            2 => OptionKind::Int,
            3 => OptionKind::Size,
            4 => OptionKind::Double,
            6 => OptionKind::List,
            7 => OptionKind::File,
            _ => OptionKind::Text,
        }
    }
}

impl DeclaredOption {
    /// A value as typed.
    pub fn parse(&self, text: &str) -> Result<OptionValue, LoadError> {
        let refused = |expected| LoadError::OptionValue {
            name: self.name.clone(),
            value: text.to_owned(),
            expected,
        };
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Some(number),
            _ => None,
        };
        Ok(match self.kind {
            OptionKind::Bool => match text {
                // The bare name of an option switches it on.
                "on" | "true" | "1" | "" => OptionValue::Bool(true),
                "off" | "false" | "0" => OptionValue::Bool(false),
                _ => return Err(refused("on or off")),
            },
            OptionKind::Int => match number(text).filter(|number| number.fract() == 0.0) {
                Some(number) => OptionValue::Number(number),
                None => return Err(refused("a whole number")),
            },
            OptionKind::Double => {
                OptionValue::Number(number(text).ok_or_else(|| refused("a number"))?)
            }
            OptionKind::Size => match parse_size(text) {
                Some(bytes) => OptionValue::Number(bytes),
                None => return Err(refused("a size such as 64K, 16M or 1G")),
            },
            OptionKind::Text | OptionKind::File => OptionValue::Text(text.to_owned()),
            OptionKind::List => OptionValue::List(split_list(text)),
        })
    }
}

fn parse_size(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, power) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1),
        (at, 'm' | 'M') => (&text[..at], 2),
        (at, 'g' | 'G') => (&text[..at], 3),
        (at, 't' | 'T') => (&text[..at], 4),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    Some(number as f64 * 1024f64.powi(power))
}

impl OptionValue {
    /// The type of a value that names none itself.
    fn kind(&self) -> OptionKind {
        match self {
            OptionValue::Bool(_) => OptionKind::Bool,
            OptionValue::Number(_) => OptionKind::Double,
            OptionValue::Text(_) => OptionKind::Text,
            OptionValue::List(_) => OptionKind::List,
        }
    }
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The spelling a script sees.
pub(crate) fn canonical_name(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

/// Options that every workload has: how `sysbench.rand.default` draws.
pub(crate) fn general(dialect: Dialect) -> Vec<DeclaredOption> {
    let settings = RandSettings::default();
    let option = |name: &str, description: &str, default: OptionValue| DeclaredOption {
        name: name.to_owned(),
        description: description.to_owned(),
        kind: default.kind(),
        default,
    };
    let number = |name: &str, description: &str, default| {
        option(name, description, OptionValue::Number(default))
    };
    let kind = OptionValue::Text(default_distribution(dialect).to_owned());
    let hit = settings.special_hit_percent;
    vec![
        option("rand_type", "distribution of sysbench.rand.default", kind),
        number(
            "rand_pareto_h",
            "parameter h of the pareto distribution",
            settings.pareto_h,
        ),
        number(
            "rand_zipfian_exp",
            "exponent of zipfian",
            settings.zipfian_exponent,
        ),
        number(
            "rand_spec_iter",
            "draws averaged by gaussian",
            settings.gaussian_draws.into(),
        ),
        number(
            "rand_spec_pct",
            "special share of the range, %",
            settings.special_range_percent,
        ),
        number("rand_spec_res", "draws that hit the special share, %", hit),
    ]
}

/// What `sysbench.rand.default` draws from unless the user says otherwise.
fn default_distribution(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1_0 => "special",
        Dialect::V1_1 => "uniform",
    }
}

/// The settings of the generator among the user's options.
pub(crate) fn rand_settings(
    values: &BTreeMap<String, OptionValue>,
) -> Result<RandSettings, LoadError> {
    let number = |name: &str, or: f64, accept: fn(f64) -> bool, expected| match values.get(name) {
        Some(OptionValue::Number(value)) if accept(*value) => Ok(*value),
        Some(OptionValue::Number(value)) => Err(LoadError::OptionValue {
            name: name.into(),
            value: value.to_string(),
            expected,
        }),
        _ => Ok(or),
    };
    let percent = |value: f64| (0.0..=100.0).contains(&value);
    let open_unit = |value: f64| value > 0.0 && value < 1.0;
    let positive = |value: f64| value > 0.0;
    let or = RandSettings::default();
    let default = match values.get("rand_type") {
        Some(OptionValue::Text(name)) => {
            Distribution::by_name(name).ok_or_else(|| LoadError::OptionValue {
                name: "rand_type".into(),
                value: name.clone(),
                expected: Distribution::NAMES,
            })?
        }
        _ => or.default,
    };
    let draws = number(
        "rand_spec_iter",
        or.gaussian_draws.into(),
        positive,
        "1 or more",
    )?;
    let (range, hit) = (or.special_range_percent, or.special_hit_percent);
    let (h, exponent) = (or.pareto_h, or.zipfian_exponent);
    Ok(RandSettings {
        default,
        gaussian_draws: draws as u32,
        special_range_percent: number("rand_spec_pct", range, percent, "0 to 100")?,
        special_hit_percent: number("rand_spec_res", hit, percent, "0 to 100")?,
        pareto_h: number("rand_pareto_h", h, open_unit, "more than 0 and less than 1")?,
        zipfian_exponent: number("rand_zipfian_exp", exponent, positive, "more than 0")?,
    })
}

/// The value of every declared option: the user's, else the default. Legacy scripts declare
/// nothing and get what was given, as text (`undeclared`).
pub(crate) fn resolve(
    script: &Script,
    declared: &[DeclaredOption],
    given: &BTreeMap<String, String>,
    undeclared: bool,
) -> Result<BTreeMap<String, OptionValue>, LoadError> {
    let mut values: BTreeMap<String, OptionValue> = declared
        .iter()
        .map(|option| (option.name.clone(), option.default.clone()))
        .collect();
    for (name, text) in given {
        let name = canonical_name(name);
        let value = match declared.iter().find(|option| option.name == name) {
            Some(option) => option.parse(text)?,
            None if undeclared => OptionValue::Text(text.clone()),
            None => return Err(unknown(script, name, declared)),
        };
        values.insert(name, value);
    }
    Ok(values)
}

fn unknown(script: &Script, name: String, declared: &[DeclaredOption]) -> LoadError {
    let known: Vec<&str> = declared.iter().map(|option| option.name.as_str()).collect();
    let known = match known.as_slice() {
        [] => "none at all".to_owned(),
        known => known.join(", "),
    };
    let script = script.name().to_owned();
    LoadError::UnknownOption {
        script,
        name,
        known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Vec<DeclaredOption> {
        let option = |name: &str, default: OptionValue| DeclaredOption {
            name: name.to_owned(),
            description: String::new(),
            kind: default.kind(),
            default,
        };
        vec![
            option("auto_inc", OptionValue::Bool(true)),
            option("engine", OptionValue::Text("innodb".into())),
            option("hosts", OptionValue::List(vec![])),
            option("table_size", OptionValue::Number(10_000.0)),
        ]
    }

    fn resolved(name: &str, text: &str) -> Result<OptionValue, String> {
        let script = Script::from_text("mine", "");
        let given = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        resolve(&script, &declared(), &given, false)
            .map(|mut values| values.remove(&canonical_name(name)).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn values_take_the_type_of_the_default() {
        assert_eq!(
            resolved("table-size", "250"),
            Ok(OptionValue::Number(250.0))
        );
        assert_eq!(resolved("--auto_inc", "off"), Ok(OptionValue::Bool(false)));
        assert_eq!(
            resolved("engine", "rocksdb"),
            Ok(OptionValue::Text("rocksdb".into()))
        );
        let hosts = OptionValue::List(vec!["a".into(), "b".into()]);
        assert_eq!(resolved("hosts", "a, b,"), Ok(hosts));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let wrong = "option 'table_size' of the workload wants a number, not '1O'";
        assert_eq!(resolved("table-size", "1O"), Err(wrong.into()));
        let wrong = "option 'auto_inc' of the workload wants on or off, not 'maybe'";
        assert_eq!(resolved("auto_inc", "maybe"), Err(wrong.into()));
        assert!(resolved("table_size", "inf").is_err());
    }

    #[test]
    fn a_script_may_name_the_type() {
        let option = |kind| DeclaredOption {
            name: "it".to_owned(),
            description: String::new(),
            default: OptionValue::Number(0.0),
            kind,
        };
        let size = option(OptionKind::Size);
        assert_eq!(size.parse("64K").unwrap(), OptionValue::Number(65536.0));
        assert_eq!(size.parse("3").unwrap(), OptionValue::Number(3.0));
        for wrong in ["K", "", "1.5M", "-1", "1KB"] {
            assert!(size.parse(wrong).is_err(), "{wrong}");
        }
        assert!(option(OptionKind::Int).parse("1.5").is_err());
        let on = option(OptionKind::Bool).parse("").unwrap();
        assert_eq!(on, OptionValue::Bool(true));
    }

    #[test]
    fn legacy_scripts_get_what_nobody_declared_as_text() {
        let script = Script::from_text("mine", "");
        let given = BTreeMap::from([("oltp-tables".to_owned(), "3".to_owned())]);
        let values = resolve(&script, &[], &given, true).unwrap();
        assert_eq!(values["oltp_tables"], OptionValue::Text("3".into()));
    }

    #[test]
    fn an_unknown_option_lists_the_known_ones() {
        let error = resolved("tablesize", "1").unwrap_err();
        let wanted = "the workload mine has no option 'tablesize'; \
                      its options are auto_inc, engine, hosts, table_size";
        assert_eq!(error, wanted);
    }
}
