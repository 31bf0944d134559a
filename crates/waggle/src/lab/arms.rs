//! The arms of a lab run: what each is, how often it is measured, how precise it must be.

use clap::ValueEnum;

/// Something whose cost is measured, compared with nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Arm {
    /// Nothing, again: what the instrument sees where there is nothing to see.
    #[value(name = "none-again")]
    NoneAgain,
    /// The probe attached with a program that returns at once: the trap alone.
    ProbeEmpty,
    /// `waggle watch` capturing every statement.
    Watch,
    /// PERFORMANCE_SCHEMA with its default instruments; needs a restart.
    Perfschema,
    /// The general log, to a file.
    GeneralLog,
    /// The slow log with every statement, to a file.
    SlowLogAll,
}

/// The number of the arm that all are compared with.
pub(super) const BASE_NAME: &str = "none";

impl Arm {
    /// All arms, in the order of the report.
    pub(super) const ALL: [Self; 6] = [
        Self::NoneAgain,
        Self::ProbeEmpty,
        Self::Watch,
        Self::Perfschema,
        Self::GeneralLog,
        Self::SlowLogAll,
    ];

    /// Its number in windows; 0 is the base.
    pub(super) fn number(self) -> usize {
        1 + Self::ALL.iter().position(|arm| *arm == self).unwrap_or(0)
    }

    /// The arm with this number.
    pub(super) fn from_number(number: usize) -> Option<Self> {
        Self::ALL.get(number.checked_sub(1)?).copied()
    }

    /// Name in JSON, flags and windows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoneAgain => "none-again",
            Self::ProbeEmpty => "probe-empty",
            Self::Watch => "watch",
            Self::Perfschema => "perfschema",
            Self::GeneralLog => "general-log",
            Self::SlowLogAll => "slow-log-all",
        }
    }

    /// Name for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::NoneAgain => "nothing, again (A/A)",
            Self::ProbeEmpty => "probe, empty program",
            Self::Watch => "waggle watch",
            Self::Perfschema => "PERFORMANCE_SCHEMA",
            Self::GeneralLog => "general log",
            Self::SlowLogAll => "slow log, every statement",
        }
    }

    /// True if the arm is switched within one server life.
    pub(super) fn is_in_life(self) -> bool {
        self != Self::Perfschema
    }

    /// Windows of a quick run that are measured in any case. Chosen before anything is seen, so
    /// that the number of windows does not depend on what they show.
    pub(super) fn windows_planned(self) -> usize {
        match self {
            Self::NoneAgain => 50,
            Self::ProbeEmpty => 30,
            Self::Watch => 90,
            Self::Perfschema => 0,
            Self::GeneralLog | Self::SlowLogAll => 12,
        }
    }

    /// Half-width of the CPU ratio's interval that is aimed at, for the arms that get the rest of
    /// the time.
    pub(super) fn target(self) -> Option<f64> {
        match self {
            Self::NoneAgain => Some(0.015),
            Self::Watch => Some(0.010),
            _ => None,
        }
    }
}
