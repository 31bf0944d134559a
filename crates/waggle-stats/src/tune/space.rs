//! What can be tried: variables with their values, and which values go together.
//!
//! Neighbour: `strategy` numbers the configurations in the order given here. Invariant: values are
//! text, as a server takes them; they are numbers only where they are compared.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most configurations that a space may hold: more cannot be measured in a day.
const CONFIGURATIONS_MAX: usize = 256;

/// Most values of one variable.
const VALUES_MAX: usize = 64;

/// A configuration: a value for each variable of the space, in the space's order.
pub type Configuration = Vec<(String, String)>;

/// Why a space cannot be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// There is nothing to try.
    #[error("the space has no variables; name some with their values")]
    Empty,
    /// A name that no server variable has.
    #[error("{name:?} is no name of a variable; use letters, digits, `_`, `-` and `.`")]
    Name {
        /// The name.
        name: String,
    },
    /// A variable stands there twice.
    #[error("variable {name} is there twice; give all its values at once")]
    Twice {
        /// The variable.
        name: String,
    },
    /// The values cannot be used.
    #[error("variable {name}: {why}")]
    Values {
        /// The variable.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A constraint cannot be read.
    #[error("constraint {text:?}: {why}")]
    Constraint {
        /// The constraint.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// Too much to try.
    #[error(
        "the space holds more than {} configurations; give fewer values, or tune variables one \
         after the other",
        CONFIGURATIONS_MAX
    )]
    TooMany,
    /// The constraints leave nothing.
    #[error("no configuration fulfils the constraints")]
    Nothing,
}

/// How the values of a range are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// By equal differences.
    #[default]
    Lin,
    /// By equal factors.
    Log,
}

/// The values of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// These.
    List(Vec<String>),
    /// Whole numbers from one to the other, both ends included.
    Range {
        /// The smallest.
        from: f64,
        /// The largest.
        to: f64,
        /// How many, at least two; fewer come out where they round to the same number.
        steps: usize,
        /// How they are spaced.
        scale: Scale,
    },
}

/// A variable and what it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// One side of a constraint.
#[derive(Clone, Debug, PartialEq)]
enum Side {
    Number(f64),
    Word(String),
    /// A variable times a factor.
    Variable(String, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// A comparison between variables and values, such as `a <= b`, `a * 2 < b` or `mode != "OFF"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    text: String,
    left: Side,
    order: Order,
    right: Side,
}

/// What can be tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    /// The variables.
    pub variables: Vec<Variable>,
    /// What has to hold between them.
    pub constraints: Vec<Constraint>,
}

impl Space {
    /// Every configuration that the constraints allow, the last variable changing fastest.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn configurations(&self) -> Result<Vec<Configuration>, SpaceError> {
        if self.variables.is_empty() {
            return Err(SpaceError::Empty);
        }
        let mut all: Vec<Configuration> = vec![Vec::new()];
        for (place, variable) in self.variables.iter().enumerate() {
            check_name(&variable.name)?;
            let mut before = self.variables[..place].iter();
            if before.any(|earlier| same_name(&earlier.name, &variable.name)) {
                let name = variable.name.clone();
                return Err(SpaceError::Twice { name });
            }
            let values = variable.list()?;
            if all.len() * values.len() > 64 * CONFIGURATIONS_MAX {
                return Err(SpaceError::TooMany);
            }
            let with = |value: &String, config: &Configuration| {
                let mut config = config.clone();
                config.push((variable.name.clone(), value.clone()));
                config
            };
            all = all
                .iter()
                .flat_map(|config| values.iter().map(move |value| with(value, config)))
                .collect();
        }
        for constraint in &self.constraints {
            constraint.check(&self.variables)?;
        }
        all.retain(|config| self.constraints.iter().all(|c| c.holds(config)));
        match all.len() {
            0 => Err(SpaceError::Nothing),
            n if n > CONFIGURATIONS_MAX => Err(SpaceError::TooMany),
            _ => Ok(all),
        }
    }
}

impl Variable {
    /// Its values as text, each once.
    ///
    /// # Errors
    /// There are none, too many, or the range is none.
    pub fn list(&self) -> Result<Vec<String>, SpaceError> {
        let wrong = |why: String| SpaceError::Values {
            name: self.name.clone(),
            why,
        };
        let mut list: Vec<String> = Vec::new();
        match &self.values {
            Values::List(values) => {
                for value in values {
                    if value.contains('\0') || value.len() > 4096 {
                        return Err(wrong("a value is too long or holds a NUL".to_owned()));
                    }
                    if !list.iter().any(|known| same_value(known, value)) {
                        list.push(value.clone());
                    }
                }
            }
            Values::Range {
                from,
                to,
                steps,
                scale,
            } => {
                let (from, to, steps) = (*from, *to, *steps);
                if !(from.is_finite() && to.is_finite() && from < to && to < 9e18) {
                    return Err(wrong(
                        "a range goes from a smaller number to a larger".into(),
                    ));
                }
                if !(2..=VALUES_MAX).contains(&steps) {
                    return Err(wrong(format!("use 2 to {VALUES_MAX} steps")));
                }
                if *scale == Scale::Log && from <= 0.0 {
                    return Err(wrong("a range on a log scale begins above 0".into()));
                }
                for step in 0..steps {
                    let share = step as f64 / (steps - 1) as f64;
                    let value = match scale {
                        Scale::Lin => from + share * (to - from),
                        Scale::Log => (from.ln() + share * (to.ln() - from.ln())).exp(),
                    };
                    let text = format!("{:.0}", value.round());
                    if list.last() != Some(&text) {
                        list.push(text);
                    }
                }
            }
        }
        match list.len() {
            0 => Err(wrong("it has no values".into())),
            n if n > VALUES_MAX => Err(wrong(format!("it has more than {VALUES_MAX} values"))),
            _ => Ok(list),
        }
    }
}

impl Constraint {
    /// Reads a constraint.
    ///
    /// # Errors
    /// [`SpaceError::Constraint`].
    pub fn parse(text: &str) -> Result<Self, SpaceError> {
        let wrong = |why: &str| SpaceError::Constraint {
            text: text.to_owned(),
            why: why.to_owned(),
        };
        // The longer signs first: `<` is a part of `<=`.
        let signs = [
            ("<=", Order::LessOrEqual),
            (">=", Order::GreaterOrEqual),
            ("==", Order::Equal),
            ("!=", Order::NotEqual),
            ("<", Order::Less),
            (">", Order::Greater),
        ];
        let found = signs.iter().filter_map(|(sign, order)| {
            let at = text.find(sign)?;
            Some((at, *sign, *order))
        });
        let (at, sign, order) = found
            .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()))
            .ok_or_else(|| wrong("it has none of < <= == != >= >"))?;
        let side = |part: &str| Side::parse(part).ok_or_else(|| wrong(SIDE));
        Ok(Self {
            text: text.trim().to_owned(),
            left: side(&text[..at])?,
            order,
            right: side(&text[at + sign.len()..])?,
        })
    }

    fn check(&self, variables: &[Variable]) -> Result<(), SpaceError> {
        for side in [&self.left, &self.right] {
            if let Side::Variable(name, _) = side
                && !variables.iter().any(|known| same_name(&known.name, name))
            {
                return Err(SpaceError::Constraint {
                    text: self.text.clone(),
                    why: format!("{name} is no variable of the space (quote a word: \"{name}\")"),
                });
            }
        }
        Ok(())
    }

    /// Whether a configuration fulfils it.
    pub fn holds(&self, config: &Configuration) -> bool {
        let (left, right) = (self.left.of(config), self.right.of(config));
        if let (Some(left), Some(right)) = (amount(&left), amount(&right)) {
            return match self.order {
                Order::Less => left < right,
                Order::LessOrEqual => left <= right,
                Order::Greater => left > right,
                Order::GreaterOrEqual => left >= right,
                Order::Equal => left == right,
                Order::NotEqual => left != right,
            };
        }
        // Words have no order: only whether they are the same can be asked.
        match self.order {
            Order::Equal | Order::LessOrEqual | Order::GreaterOrEqual => same_value(&left, &right),
            Order::NotEqual | Order::Less | Order::Greater => !same_value(&left, &right),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a side of a constraint may be.
const SIDE: &str = "a side is a variable, a variable times a number, a number such as 64M, or a \
                    word in double quotes";

impl Side {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(word) = text.strip_prefix('"') {
            let word = word.strip_suffix('"')?;
            return (!word.contains('"')).then(|| Self::Word(word.to_owned()));
        }
        if let Some((one, two)) = text.split_once('*') {
            let (one, two) = (one.trim(), two.trim());
            return match (number(one), number(two)) {
                (Some(factor), None) if check_name(two).is_ok() => {
                    Some(Self::Variable(two.to_owned(), factor))
                }
                (None, Some(factor)) if check_name(one).is_ok() => {
                    Some(Self::Variable(one.to_owned(), factor))
                }
                _ => None,
            };
        }
        if let Some(number) = number(text) {
            return Some(Self::Number(number));
        }
        check_name(text).ok()?;
        Some(Self::Variable(text.to_owned(), 1.0))
    }

    /// Its value in a configuration, as text.
    fn of(&self, config: &Configuration) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Word(word) => word.clone(),
            Self::Variable(name, factor) => {
                let found = config.iter().find(|(known, _)| same_name(known, name));
                let value = found.map(|(_, value)| value.clone()).unwrap_or_default();
                match amount(&value) {
                    Some(amount) if *factor != 1.0 => (amount * factor).to_string(),
                    _ => value,
                }
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), SpaceError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 128
        && name.chars().all(allowed)
    {
        return Ok(());
    }
    let name = name.to_owned();
    Err(SpaceError::Name { name })
}

/// Servers take `-` for `_`, and do not mind capitals.
fn same_name(one: &str, other: &str) -> bool {
    let plain = |c: u8| match c.to_ascii_lowercase() {
        b'-' => b'_',
        c => c,
    };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

/// A number with the server's suffixes K, M, G, T (powers of 1024).
fn number(text: &str) -> Option<f64> {
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

    fn list(name: &str, values: &[&str]) -> Variable {
        Variable {
            name: name.to_owned(),
            values: Values::List(values.iter().map(|v| (*v).to_owned()).collect()),
        }
    }

    fn range(from: f64, to: f64, steps: usize, scale: Scale) -> Result<Vec<String>, SpaceError> {
        let values = Values::Range {
            from,
            to,
            steps,
            scale,
        };
        let name = "x".to_owned();
        Variable { name, values }.list()
    }

    fn shown(space: &Space) -> Vec<String> {
        let all = space.configurations().expect("a sound space");
        let words = |config: Configuration| {
            let pairs = config.into_iter().map(|(name, value)| name + "=" + &value);
            pairs.collect::<Vec<_>>().join(" ")
        };
        all.into_iter().map(words).collect()
    }

    #[test]
    fn ranges_hold_both_ends() {
        assert_eq!(
            range(1.0, 64.0, 7, Scale::Log).unwrap().join(" "),
            "1 2 4 8 16 32 64"
        );
        assert_eq!(range(0.0, 10.0, 3, Scale::Lin).unwrap().join(" "), "0 5 10");
        // Numbers that round to the same are one.
        assert_eq!(range(1.0, 3.0, 9, Scale::Lin).unwrap().join(" "), "1 2 3");
        for (from, to, steps, scale) in [
            (0.0, 8.0, 3, Scale::Log),
            (2.0, 1.0, 3, Scale::Lin),
            (1.0, f64::NAN, 3, Scale::Lin),
            (1.0, 2.0, 1, Scale::Lin),
            (1.0, 1e30, 3, Scale::Lin),
            (1.0, 1e6, 1000, Scale::Lin),
        ] {
            assert!(
                range(from, to, steps, scale).is_err(),
                "{from} {to} {steps}"
            );
        }
    }

    #[test]
    fn constraints_are_comparisons_of_amounts_or_words() {
        let space = |constraints: &[&str]| Space {
            variables: vec![list("a", &["1K", "4096"]), list("b-c", &["2048", "OFF"])],
            constraints: constraints
                .iter()
                .map(|text| Constraint::parse(text).expect(text))
                .collect(),
        };
        assert_eq!(shown(&space(&[])).len(), 4);
        assert_eq!(shown(&space(&["a <= b_c"])), ["a=1K b-c=2048"]);
        assert_eq!(shown(&space(&["a * 2 == b_c"])), ["a=1K b-c=2048"]);
        assert_eq!(
            shown(&space(&["b-c != \"off\"", "a > 1K"])),
            ["a=4096 b-c=2048"]
        );
        assert_eq!(space(&["a < 1"]).configurations(), Err(SpaceError::Nothing));
        let foreign = space(&["a < d"]).configurations();
        assert!(
            matches!(foreign, Err(SpaceError::Constraint { .. })),
            "{foreign:?}"
        );
        for text in [
            "",
            "a",
            "a < ",
            "a = b",
            "a ! b",
            "a * b < 1",
            "a < \"x",
            "1 < 2 < 3",
        ] {
            assert!(Constraint::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_tried_is_refused() {
        assert_eq!(Space::default().configurations(), Err(SpaceError::Empty));
        let of = |variables: Vec<Variable>| {
            let constraints = Vec::new();
            Space {
                variables,
                constraints,
            }
            .configurations()
        };
        assert!(matches!(
            of(vec![list("a b", &["1"])]),
            Err(SpaceError::Name { .. })
        ));
        assert!(matches!(
            of(vec![list("a", &[])]),
            Err(SpaceError::Values { .. })
        ));
        let twice = vec![list("a_b", &["1"]), list("A-B", &["2"])];
        assert!(matches!(of(twice), Err(SpaceError::Twice { .. })));
        let many: Vec<String> = (0..60).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let wide = ["a", "b", "c", "d", "e"]
            .map(|name| list(name, &many))
            .to_vec();
        assert_eq!(of(wide), Err(SpaceError::TooMany));
    }

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
