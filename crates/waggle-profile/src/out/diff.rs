//! Two profiles as one flame graph: as wide as the second, red where it has more, blue where less.
//!
//! The first is scaled to the second's total, so that a longer profile, or more load, is no
//! difference: shares are compared. What the second has no longer is not to be seen in it; drawing
//! the two the other way round shows that.

use std::collections::BTreeMap;

use inferno::differential;

use super::view::View;
use super::{OutError, flame, folded};
use crate::model::Profile;

/// The differential flame graph; `title` is its heading.
///
/// # Errors
/// One of the two has nothing that the view takes, or the drawing cannot be made.
pub fn svg(
    before: &Profile,
    after: &Profile,
    view: &View,
    title: &str,
) -> Result<Vec<u8>, OutError> {
    let text = String::from_utf8_lossy(&columns(before, after, view)?).into_owned();
    let mut options = flame::options(view, title);
    options.subtitle = Some(format!(
        "red: more than before, blue: less; shares of the whole. {}",
        flame::subtitle(after, view)
    ));
    flame::drawn(&mut options, &text)
}

/// `stack before after`, a line each, the first scaled to the second's total.
///
/// # Errors
/// One of the two has nothing that the view takes.
pub fn columns(before: &Profile, after: &Profile, view: &View) -> Result<Vec<u8>, OutError> {
    let both = [(before, "the first profile"), (after, "the second profile")];
    let mut texts = Vec::new();
    for (profile, what) in both {
        let lines = folded::lines(profile, view);
        if lines.is_empty() {
            return Err(OutError::Empty { what });
        }
        texts.push(folded::written(&lines));
    }
    let options = differential::Options {
        normalize: true,
        ..differential::Options::default()
    };
    let mut columns = Vec::new();
    differential::from_readers(
        options,
        texts[0].as_bytes(),
        texts[1].as_bytes(),
        &mut columns,
    )
    .map_err(|source| OutError::Format {
        format: "difference",
        source,
    })?;
    Ok(sorted(&columns))
}

/// In an order that does not change from run to run.
fn sorted(columns: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(columns);
    let lines: BTreeMap<&str, ()> = text.lines().map(|line| (line, ())).collect();
    let lines: Vec<&str> = lines.into_keys().collect();
    (lines.join("\n") + "\n").into_bytes()
}
