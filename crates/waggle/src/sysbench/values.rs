//! Types of options and the texts they take.

/// What an option holds; its name in the help follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `on`, `true`, `1`, `off`, `false`, `0`; the name alone switches it on.
    Bool,
    /// A whole number, not negative.
    Int,
    /// A number of bytes with `K`, `M`, `G` or `T`.
    Size,
    /// Any number.
    Double,
    /// Text as typed.
    Text,
    /// Texts with commas between.
    List,
    /// A path.
    File,
}

impl Kind {
    /// What the help puts behind the name.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Kind::Bool => "[=on|off]",
            Kind::Int | Kind::Double => "=N",
            Kind::Size => "=SIZE",
            Kind::Text => "=STRING",
            Kind::List => "=[LIST,...]",
            Kind::File => "=FILENAME",
        }
    }

    /// True when the text (`None`: the name alone) is a value of this kind.
    pub(super) fn takes(self, text: Option<&str>) -> bool {
        match self {
            Kind::Bool => boolean(text).is_some(),
            Kind::Int => whole(text.unwrap_or_default()).is_some(),
            Kind::Size => size(text.unwrap_or_default()).is_some(),
            Kind::Double => number(text.unwrap_or_default()).is_some(),
            Kind::Text | Kind::List | Kind::File => true,
        }
    }
}

pub(super) fn boolean(text: Option<&str>) -> Option<bool> {
    match text {
        None | Some("on" | "true" | "1") => Some(true),
        Some("off" | "false" | "0") => Some(false),
        Some(_) => None,
    }
}

/// An empty text is 0, as it is to sysbench.
pub(super) fn whole(text: &str) -> Option<u64> {
    match text {
        "" => Some(0),
        _ => text.parse().ok(),
    }
}

/// As [`whole`].
pub(super) fn number(text: &str) -> Option<f64> {
    match text {
        "" => Some(0.0),
        _ => text.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

/// A number of bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let shift = match text.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => return whole(text),
    };
    let count: u64 = text[..text.len() - 1].parse().ok()?;
    count.checked_mul(1 << shift)
}

/// The parts of a list; empty ones are left out.
pub(super) fn list(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_sysbench_reads_them() {
        assert_eq!(boolean(None), Some(true));
        assert_eq!(boolean(Some("maybe")), None);
        assert_eq!(whole(""), Some(0));
        assert_eq!(whole("5x"), None);
        assert_eq!(whole("1K"), None);
        assert_eq!(size("64K"), Some(65_536));
        assert_eq!(size("1Q"), None);
        assert_eq!(size("99999999999999T"), None);
        assert_eq!(list("a, b,,"), ["a", "b"]);
        assert_eq!(number("1.5"), Some(1.5));
        assert_eq!(number("nan"), None);
    }
}
