//! What has to hold between variables, or between a variable and a value: one comparison.
//!
//! Neighbours: the parent keeps the configurations for which it holds, `value` compares. Invariant:
//! amounts are compared as numbers; words are the same or are not, and have no order.

use std::fmt;

use super::value::{amount, number, same_value};
use super::{Configuration, SpaceError, Variable, check_name, same_name};

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

    pub(super) fn check(&self, variables: &[Variable]) -> Result<(), SpaceError> {
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
