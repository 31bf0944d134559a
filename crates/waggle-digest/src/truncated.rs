//! What is the fingerprint of a statement of which only the beginning is known?
//!
//! An agent copies a limited number of bytes of each statement. Long texts are long because of
//! their value lists, and a list is one `(?+)` however far it was read: those are recognised and
//! get the fingerprint of the whole. Every other cut is marked in the text, so that half a
//! statement never counts under the id of another whole one.
//! Neighbour: `fingerprint` tells where a text ended.

use crate::fingerprint::{Ending, write};
use crate::scan;

/// The mark at the end of a fingerprint whose statement goes on unseen.
pub const CUT_MARK: &[u8] = b" ...";

/// How the fingerprint of a cut text relates to that of the whole statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The same: nothing that was cut off could change it (`CALL name(`, `USE`).
    Immaterial,
    /// The same, if the statement has nothing behind its `VALUES` rows.
    ///
    /// An `ON DUPLICATE KEY UPDATE`, an `AS new` or a `RETURNING` would be missing.
    InRows,
    /// The same, if the statement has nothing behind its `IN` list but closing parentheses.
    InList,
    /// Different: the fingerprint of what is there, whole tokens only, with [`CUT_MARK`].
    Elsewhere,
}

/// The fingerprint of a cut text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated<'a> {
    /// The fingerprint; ends with [`CUT_MARK`] exactly if `cut` is [`Cut::Elsewhere`].
    pub text: &'a [u8],
    /// Where the cut fell.
    pub cut: Cut,
}

/// Writes the fingerprint of the cut text `sql` to `out`.
pub(crate) fn write_truncated(sql: &[u8], out: &mut Vec<u8>) -> Cut {
    let cut = match write(without_half_comment(sql), out) {
        Ending::Decided => return Cut::Immaterial,
        Ending::Rows => Cut::InRows,
        Ending::List => Cut::InList,
        Ending::Token => Cut::Elsewhere,
        Ending::Run(run_start) => {
            // The last token may be half of one, so it goes; a value is whole once it began.
            out.truncate(run_start.min(out.len()));
            Cut::Elsewhere
        }
    };
    if cut == Cut::Elsewhere {
        while out.last() == Some(&b' ') {
            out.pop();
        }
        out.extend_from_slice(CUT_MARK);
    } else {
        close_parentheses(out);
    }
    cut
}

/// Without a last `/`, `-` or `--`: the cut may have fallen inside `/*` or `-- `.
fn without_half_comment(sql: &[u8]) -> &[u8] {
    match sql {
        [rest @ .., b'-', b'-'] | [rest @ .., b'-' | b'/'] => rest,
        whole => whole,
    }
}

/// Appends the `)` that are missing.
fn close_parentheses(out: &mut Vec<u8>) {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = out.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'`' => {
                at = scan::backtick_end(out, at).at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    out.resize(out.len() + depth, b')');
}
