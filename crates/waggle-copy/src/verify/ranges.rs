//! Tables with a key: range by range, and where sums differ, closer and closer to the rows.
//!
//! The source says where a range ends; both servers add it up at the same time. A range whose
//! sums differ is halved at the middle key of the side that has more rows until it is small enough
//! to list. Invariant: the ranges cover every key once, also those that only the target has.

use super::key::KeyText;
use super::side::{Half, Span, Sums};
use crate::control::Control;
use crate::error::CopyError;

/// A range of this many rows is listed row by row.
const LISTED_ROWS_MAX: u64 = 1_000;

/// A row that was not the same on both sides when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) key: KeyText,
    /// Its digest at the source; `None`: it is not there.
    pub(super) source: Option<String>,
    /// At the target.
    pub(super) target: Option<String>,
}

/// What a walk over a table saw.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) rows_source: u64,
    pub(super) rows_target: u64,
    pub(super) ranges: u64,
    /// Ranges whose sums differed at first.
    pub(super) ranges_unequal: u64,
    pub(super) suspects: Vec<Suspect>,
}

/// Walks over all rows.
pub(super) fn walk(
    source: &mut Half,
    target: &mut Half,
    range_rows: u64,
    control: &Control,
    tell: &dyn Fn(u64),
) -> Result<Walk, CopyError> {
    let mut walk = Walk::default();
    let mut low = None;
    loop {
        if control.is_stopping() {
            return Err(CopyError::Stopped);
        }
        let mut span = Span { low, high: None };
        span.high = source.nth_key(&span, range_rows)?;
        let (ours, theirs) = both(source, target, |half| half.sums(&span))?;
        walk.ranges += 1;
        walk.rows_source += ours.rows;
        walk.rows_target += theirs.rows;
        if ours != theirs {
            walk.ranges_unequal += 1;
            narrow(source, target, &span, (&ours, &theirs), &mut walk.suspects)?;
        }
        tell(ours.rows);
        match span.high {
            Some(high) => low = Some(high),
            None => return Ok(walk),
        }
    }
}

/// Asks both servers at once.
pub(super) fn both<T: Send>(
    source: &mut Half,
    target: &mut Half,
    ask: impl Fn(&mut Half) -> Result<T, CopyError> + Sync,
) -> Result<(T, T), CopyError> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| ask(target));
        let ours = ask(source)?;
        let theirs = other
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((ours, theirs))
    })
}

/// Finds the rows of a span that differ.
fn narrow(
    source: &mut Half,
    target: &mut Half,
    span: &Span,
    (ours, theirs): (&Sums, &Sums),
    suspects: &mut Vec<Suspect>,
) -> Result<(), CopyError> {
    let rows = ours.rows.max(theirs.rows);
    if rows <= LISTED_ROWS_MAX {
        let (ours, theirs) = both(source, target, |half| half.list(span))?;
        suspects.extend(unequal(ours, theirs));
        return Ok(());
    }
    let larger = match ours.rows >= theirs.rows {
        true => &mut *source,
        false => &mut *target,
    };
    let middle = larger.nth_key(span, rows / 2)?;
    let Some(middle) = middle.filter(|key| span.high.as_ref() != Some(key)) else {
        // It shrank meanwhile.
        let (ours, theirs) = both(source, target, |half| half.list(span))?;
        suspects.extend(unequal(ours, theirs));
        return Ok(());
    };
    let lower = Span {
        low: span.low.clone(),
        high: Some(middle.clone()),
    };
    let upper = Span {
        low: Some(middle),
        high: span.high.clone(),
    };
    for half in [lower, upper] {
        let (ours, theirs) = both(source, target, |side| side.sums(&half))?;
        if ours != theirs {
            narrow(source, target, &half, (&ours, &theirs), suspects)?;
        }
    }
    Ok(())
}

/// The rows that are on one side only, or not the same.
pub(super) fn unequal(
    source: Vec<(KeyText, String)>,
    target: Vec<(KeyText, String)>,
) -> Vec<Suspect> {
    let mut theirs: std::collections::BTreeMap<KeyText, String> = target.into_iter().collect();
    let mut found = Vec::new();
    for (key, digest) in source {
        let other = theirs.remove(&key);
        if other.as_ref() != Some(&digest) {
            found.push(Suspect {
                key,
                source: Some(digest),
                target: other,
            });
        }
    }
    found.extend(theirs.into_iter().map(|(key, digest)| Suspect {
        key,
        source: None,
        target: Some(digest),
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_matched_by_their_keys() {
        let row = |key: &str, digest: &str| (KeyText(vec![key.into()]), digest.to_owned());
        let source = vec![row("1", "a"), row("2", "b"), row("3", "c")];
        let target = vec![row("2", "x"), row("3", "c"), row("4", "d")];
        let found: Vec<_> = (unequal(source, target).into_iter())
            .map(|suspect| (suspect.key.0[0].clone(), suspect.source, suspect.target))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("1".into(), some("a"), None),
                ("2".into(), some("b"), some("x")),
                ("4".into(), None, some("d")),
            ]
        );
    }
}
