//! Which processors run?
//!
//! Invariant: a list that is not understood is an error, so that no processor is passed over.

use std::fs;
use std::io;

/// The processors that run, by their numbers.
pub(crate) fn online() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse(text.trim()).ok_or_else(|| io::Error::other(format!("cannot read the list {text:?}")))
}

/// Such as `0-3,5`.
fn parse(list: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
        if first < 0 || last < first || last > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for wild in ["", "-", "2-1", "0-", "a", "0,,1", "0-99999999", "-1"] {
            assert_eq!(parse(wild), None, "{wild}");
        }
        assert!(!online().unwrap().is_empty());
    }
}
