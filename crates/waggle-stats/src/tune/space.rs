//! What can be tried: variables with their values, and which values go together.
//!
//! Neighbours: `strategy` numbers the configurations in the order given here; `constraint` says
//! which are allowed, `value` which values are the same. Invariant: values are text, as a server
//! takes them; they are numbers only where they are compared.

mod constraint;
mod value;

use serde::{Deserialize, Serialize};

pub use constraint::Constraint;
pub use value::{amount, same_value};

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

#[cfg(test)]
mod tests;
