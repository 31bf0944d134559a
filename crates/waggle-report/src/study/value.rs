//! What a study's tables and curves are made of: figures with intervals, beside published ones.
//!
//! Invariant: a figure that is not a finite number turns into [`StudyValue::Absent`] in
//! [`StudyValue::estimate`], [`StudyValue::level`]
//! and [`StudyValue::plain`]; readers treat `null` the same way.

use serde::{Deserialize, Serialize};

use crate::lab::number;

/// A table of the study, such as one of the article's with ours in its cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyTable {
    /// Stable name, such as `scene-a-read-only`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What its figures are, in a sentence or two.
    #[serde(default)]
    pub caption: String,
    /// Heading of the column of row labels, such as `threads`.
    pub row_title: String,
    /// Every column right of the labels.
    pub columns: Vec<StudyColumn>,
    /// The rows; each has a value a column.
    pub rows: Vec<StudyRow>,
}

/// A column of a [`StudyTable`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyColumn {
    /// Columns with the same group stand under one heading; empty for none.
    #[serde(default)]
    pub group: String,
    /// Its heading.
    pub title: String,
    /// Unit of its figures, such as `%`, `µs` or `queries/s`; empty for none.
    #[serde(default)]
    pub unit: String,
}

/// A row of a [`StudyTable`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// Its label, such as `8`.
    pub label: String,
    /// Name of the cell its figures come from, if there is one.
    #[serde(default)]
    pub cell: Option<String>,
    /// The values, one for each column.
    pub values: Vec<StudyValue>,
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StudyValue {
    /// An estimate of ours with its 95% interval, in the column's unit.
    Estimate {
        /// The estimate.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Lower end.
        #[serde(deserialize_with = "number")]
        low: f64,
        /// Upper end.
        #[serde(deserialize_with = "number")]
        high: f64,
        /// Shown in grey, because the A/A check of its cell failed.
        #[serde(default)]
        unclaimed: bool,
    },
    /// A level of ours, such as cores used, with its 95% interval: shown without a plus.
    Level {
        /// The estimate.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Lower end.
        #[serde(deserialize_with = "number")]
        low: f64,
        /// Upper end.
        #[serde(deserialize_with = "number")]
        high: f64,
    },
    /// A figure of ours that has no interval: a count, a level, a maximum.
    Plain {
        /// The figure.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Decimals to show.
        #[serde(default)]
        digits: u8,
    },
    /// A figure that somebody published, as they printed it.
    Published {
        /// The figure.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Decimals as published.
        #[serde(default)]
        digits: u8,
    },
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// Not measured.
    Absent {
        /// Why; empty where it goes without saying.
        #[serde(default)]
        why: String,
    },
}

impl StudyValue {
    /// A change with its interval; absent if one of them is not a number.
    pub fn estimate(value: f64, low: f64, high: f64) -> Self {
        if all_finite(value, low, high) {
            Self::Estimate {
                value,
                low,
                high,
                unclaimed: false,
            }
        } else {
            Self::absent("no estimate came out")
        }
    }

    /// A level, such as cores used, with its interval; absent if one of them is not a number.
    pub fn level(value: f64, low: f64, high: f64) -> Self {
        if all_finite(value, low, high) {
            Self::Level { value, low, high }
        } else {
            Self::absent("no estimate came out")
        }
    }

    /// A figure without an interval; absent if it is not a number.
    pub fn plain(value: f64, digits: u8) -> Self {
        if value.is_finite() {
            Self::Plain { value, digits }
        } else {
            Self::absent("not measured")
        }
    }

    /// Words.
    pub fn text(text: &str) -> Self {
        Self::Text {
            text: text.to_owned(),
        }
    }

    /// A hole, and why it is one.
    pub fn absent(why: &str) -> Self {
        Self::Absent {
            why: why.to_owned(),
        }
    }
}

fn all_finite(value: f64, low: f64, high: f64) -> bool {
    [value, low, high].iter().all(|part| part.is_finite())
}

/// Cost over something that rises: the dose curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Stable name, such as `read-only-throughput`.
    pub id: String,
    /// Its heading, such as `Read-only: throughput lost to watching`.
    pub title: String,
    /// What rises, such as `threads`.
    pub x_title: String,
    /// Whether each step of `x` is a factor (1, 2, 4, ...), so that the axis is logarithmic.
    #[serde(default)]
    pub x_log: bool,
    /// What is measured, such as `change of throughput`.
    pub y_title: String,
    /// Its unit, such as `%`.
    pub unit: String,
    /// Our points, of one arm or several.
    pub points: Vec<CurvePoint>,
    /// Published points, without intervals (`low` and `high` are `null`).
    #[serde(default)]
    pub published: Vec<CurvePoint>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Name of the cell it comes from; empty for a published point.
    #[serde(default)]
    pub cell: String,
    /// Name of the arm, or of the source of a published point.
    pub arm: String,
    /// Where it stands, in the unit of `x_title`.
    #[serde(deserialize_with = "number")]
    pub x: f64,
    /// The estimate, in the curve's unit.
    #[serde(deserialize_with = "number")]
    pub estimate: f64,
    /// Lower end of its 95% interval.
    #[serde(default)]
    pub low: Option<f64>,
    /// Upper end of its 95% interval.
    #[serde(default)]
    pub high: Option<f64>,
    /// The A/A check of its cell was not clean: shown, and no claim is made of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unclaimed: bool,
}

/// What the agent itself used under one condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentCost {
    /// The condition, such as `attached, no load` or `3 servers`.
    pub label: String,
    /// Name of the cell it comes from, if there is one.
    pub cell: Option<String>,
    /// Statements a second that the watched servers executed, all together.
    pub statements_per_s: Option<f64>,
    /// Cores the agent's process used (CPU seconds a second).
    pub cores: Option<f64>,
    /// Lower end of its 95% interval.
    pub cores_low: Option<f64>,
    /// Upper end of its 95% interval.
    pub cores_high: Option<f64>,
    /// CPU of the agent's process per statement, microseconds.
    pub cpu_us_per_statement: Option<f64>,
    /// Largest resident set, bytes.
    pub rss_bytes: Option<u64>,
    /// Statements captured.
    pub captured: Option<u64>,
    /// Statements executed, as the servers counted them.
    pub executed: Option<u64>,
    /// What was shed or lost, and why; empty for nothing.
    pub note: String,
}

/// A figure that somebody published, with its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// What it is, such as `QPS, read-write, agent on`.
    pub what: String,
    /// The figure.
    #[serde(deserialize_with = "number")]
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it was published: author, title, date.
    pub source: String,
    /// Name of the cell that measured the same here, if there is one.
    pub cell: Option<String>,
    /// Our figure beside it, already in `unit`, with its interval, if there is one.
    pub ours: Option<StudyValue>,
}
