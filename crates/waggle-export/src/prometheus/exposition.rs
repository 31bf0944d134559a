//! Prometheus's text format, version 0.0.4, and the seam between metrics and formats.
//!
//! [`Visit`] is told every family and series of a page; [`Text`] writes them down. Neighbours:
//! [`metrics`](super::metrics) calls; remote write implements `Visit` as well.
//!
//! Invariant: whatever bytes a name, a user or a statement has, a label value ends at its quote.

use std::fmt::Write;

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; begins at 0.
    Counter,
    /// Any number.
    Gauge,
    /// Buckets, sum and count, each of which only grows.
    Histogram,
    /// The server's own number, counter or gauge.
    Untyped,
}

/// One number.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// `_bucket`, `_sum`, `_count`, or empty.
    pub suffix: &'static str,
    /// Names and values, in the order to print.
    pub labels: &'a [(&'static str, &'a str)],
    /// The number.
    pub value: f64,
    /// It was on no page before this one.
    pub is_new: bool,
}

/// Takes a page in, family by family.
pub trait Visit {
    /// The series that follow belong to this family.
    fn family(&mut self, name: &str, kind: Kind, help: &str);
    /// A series of the family named last.
    fn series(&mut self, series: Series<'_>);
}

/// The text format.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    name: String,
    /// The header of the family named last, until it has a series.
    header: String,
}

impl Text {
    /// An empty page, with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            out: String::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// The page.
    pub fn finish(self) -> String {
        self.out
    }
}

impl Visit for Text {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Untyped => "untyped",
        };
        self.name.clear();
        self.name.push_str(name);
        self.header.clear();
        let _ = writeln!(self.header, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn series(&mut self, series: Series<'_>) {
        self.out.push_str(&self.header);
        self.header.clear();
        self.out.push_str(&self.name);
        self.out.push_str(series.suffix);
        for (at, (name, value)) in series.labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(value, &mut self.out);
            self.out.push('"');
        }
        if !series.labels.is_empty() {
            self.out.push('}');
        }
        self.out.push(' ');
        number(series.value, &mut self.out);
        self.out.push('\n');
    }
}

/// Writes a label value: everything between the quotes.
fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            // The scraper's reader takes it for the end of the text.
            '\0' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

fn number(value: f64, out: &mut String) {
    let _ = if value.is_nan() {
        write!(out, "NaN")
    } else if value.is_infinite() {
        write!(out, "{}Inf", if value > 0.0 { '+' } else { '-' })
    } else {
        write!(out, "{value}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let mut text = Text::default();
        text.family("m", Kind::Gauge, "Help.");
        text.series(Series {
            suffix: "",
            labels: &[("a", "x\"} 1\nm{b=\"\\"), ("c", "\0\r\u{202e}é")],
            value: 0.1,
            is_new: false,
        });
        text.family("never", Kind::Gauge, "Has no series.");
        let expected = "# HELP m Help.\n# TYPE m gauge\n\
            m{a=\"x\\\"} 1\\nm{b=\\\"\\\\\",c=\"\u{fffd}\r\u{202e}é\"} 0.1\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn numbers_are_exact_and_readable_by_go() {
        for (value, expected) in [
            (0.0, "0"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (1e-9, "0.000000001"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut out = String::new();
            number(value, &mut out);
            assert_eq!(out, expected);
        }
    }
}
