//! Does this text name something that is secret: a column, a variable, an option, a function?
//!
//! Only names are looked for, wherever they stand (in code, literals and comments alike, so that
//! no disagreement about where a literal ends hides one), and never values. One pass: every second
//! pair of bytes is looked up in a table of the pairs that the names' rarest three letters are made
//! of, and only what is in it is compared. Neighbour: `redact` asks. Invariants: linear time, no
//! allocation; case does not matter.

use crate::bytes::is_space;
use crate::scan;

/// Where a name counts.
#[derive(Clone, Copy)]
enum Place {
    /// Anywhere in a word.
    Inside,
    /// At the end of a word or of a part of it: `user_pass`, `dbpass1`.
    End,
    /// A word, or a part of one between `_` or digits: `user_pw`.
    Part,
    /// Like `Part`, as the name of a function that is called.
    Call,
    /// `mysql`, before a dot and the name of a table that holds accounts.
    Schema,
}

struct Name {
    text: &'static [u8],
    /// Where the three letters begin that are looked for; chosen for being rare.
    rare: usize,
    place: Place,
}

const fn name(text: &'static str, rare: usize, place: Place) -> Name {
    Name {
        text: text.as_bytes(),
        rare,
        place,
    }
}

/// docs/security.md lists them.
const NAMES: [Name; 30] = [
    name("passw", 2, Place::Inside),
    name("passphrase", 3, Place::Inside),
    name("passcode", 2, Place::Inside),
    name("pass", 1, Place::End),
    name("pwd", 0, Place::End),
    name("secret", 1, Place::Inside),
    name("token", 1, Place::Inside),
    name("credential", 5, Place::Inside),
    name("api_key", 2, Place::Inside),
    name("api-key", 2, Place::Inside),
    name("apikey", 2, Place::Inside),
    name("private_key", 6, Place::Inside),
    name("privatekey", 4, Place::Inside),
    name("access_key", 5, Place::Inside),
    name("auth_key", 3, Place::Inside),
    name("auth_string", 3, Place::Inside),
    name("authentication_s", 2, Place::Inside),
    name("authorization", 3, Place::Inside),
    name("sst_auth", 2, Place::Inside),
    name("identified", 6, Place::Inside),
    name("keyring", 2, Place::Inside),
    name("crypt", 2, Place::Inside),
    name("card_num", 3, Place::Inside),
    name("cvv", 0, Place::Part),
    name("cvc", 0, Place::Part),
    name("otp", 0, Place::Part),
    name("md5", 0, Place::Call),
    name("sha", 0, Place::Call),
    name("code", 0, Place::Call),
    name("mysql", 1, Place::Schema),
];
/// Too short for three letters; looked for by its `w`.
const SHORT: &[u8] = b"pw";
/// In the table for every pair with a `w`.
const HAS_W: u64 = 1 << 63;

/// For each pair of letters the names that have it first among their rare three (bit 2n), or
/// second (bit 2n + 1).
static PAIRS: [u64; 1 << 10] = pairs();

const fn pairs() -> [u64; 1 << 10] {
    let mut table = [0; 1 << 10];
    let mut n = 0;
    while n < NAMES.len() {
        let (text, at) = (NAMES[n].text, NAMES[n].rare);
        table[pair(text[at], text[at + 1])] |= 1 << (2 * n);
        table[pair(text[at + 1], text[at + 2])] |= 2 << (2 * n);
        n += 1;
    }
    let mut letter = 0;
    while letter < 32 {
        table[pair(b'w', letter)] |= HAS_W;
        table[pair(letter, b'w')] |= HAS_W;
        letter += 1;
    }
    table
}

/// The same as yes or no, for pairs without their case: digits, of which rows of values are full,
/// are apart from letters here.
static MAY_BE: [bool; 1 << 14] = may_be();

const fn may_be() -> [bool; 1 << 14] {
    let mut table = [false; 1 << 14];
    let mut first = 0;
    while first < 128 {
        let mut second = 0;
        while second < 128 {
            let names = PAIRS[pair(first, second)];
            let is_w = first == b'W' || second == b'W';
            // `_` and `-`, which no name has at both places, and the 5 of `md5` are no letters.
            let can_be = (first >= b'@' || second >= b'@') && names & !HAS_W != 0;
            table[without_case(first, second)] |= is_w || can_be;
            second += 1;
        }
        first += 1;
    }
    table
}

/// Letters in upper case; other bytes among themselves.
#[inline(always)]
const fn without_case(first: u8, second: u8) -> usize {
    (first as usize & 0x5f) << 7 | second as usize & 0x5f
}

/// Case is in a bit above these five; digits and signs share a place with letters.
#[inline(always)]
const fn pair(first: u8, second: u8) -> usize {
    (first as usize & 31) << 5 | second as usize & 31
}

/// Whether `text` names something secret: docs/security.md has the list.
#[inline]
#[must_use]
pub fn names_secret(text: &[u8]) -> bool {
    let (pairs, last) = text.as_chunks::<2>();
    let found = |(n, &[first, second]): (usize, &[u8; 2])| {
        MAY_BE[without_case(first, second)] && any_at(text, 2 * n, PAIRS[pair(first, second)])
    };
    pairs.iter().enumerate().any(found)
        || !last.is_empty() && is_short(text, text.len().saturating_sub(1))
}

/// Is one of `names` around the pair at `at`?
fn any_at(text: &[u8], at: usize, names: u64) -> bool {
    if names & HAS_W != 0 && is_short(text, at) {
        return true;
    }
    let mut names = names & !HAS_W;
    while names != 0 {
        let bit = names.trailing_zeros() as usize;
        names &= names - 1;
        let name = &NAMES[bit / 2];
        let Some(begin) = at.checked_sub(name.rare + bit % 2) else {
            continue;
        };
        let is_there = text
            .get(begin..begin + name.text.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name.text));
        if is_there && counts(name, &text[..begin], &text[begin + name.text.len()..]) {
            return true;
        }
    }
    false
}

fn counts(name: &Name, before: &[u8], behind: &[u8]) -> bool {
    let ends = !behind.first().is_some_and(u8::is_ascii_alphabetic);
    let begins = !before.last().is_some_and(u8::is_ascii_alphabetic);
    match name.place {
        Place::Inside => true,
        Place::End => ends,
        Place::Part => begins && ends,
        Place::Call => is_call(name.text, before, behind),
        Place::Schema => begins && is_account_table(behind),
    }
}

/// `MD5 (`, `SHA(`, `SHA1(`, `SHA2(`, `ENCODE(`, `DECODE(`.
fn is_call(name: &[u8], before: &[u8], behind: &[u8]) -> bool {
    let begins = |before: &[u8]| !before.last().is_some_and(u8::is_ascii_alphanumeric);
    let (begins, behind) = match name {
        b"code" => match before {
            [before @ .., b'e' | b'E', b'n' | b'N'] | [before @ .., b'd' | b'D', b'e' | b'E'] => {
                (begins(before), behind)
            }
            _ => (false, behind),
        },
        b"sha" => match behind {
            [b'1' | b'2', behind @ ..] => (begins(before), behind),
            _ => (begins(before), behind),
        },
        _ => (begins(before), behind),
    };
    begins && next_byte(behind) == Some(b'(')
}

/// What stands behind blanks and comments. Bounded: many such words before an open comment would
/// take quadratic time; beyond the bound it counts as a call.
fn next_byte(text: &[u8]) -> Option<u8> {
    let near = &text[..text.len().min(256)];
    match near.get(scan::blank_end(near, 0).at) {
        Some(&byte) => Some(byte),
        None => (near.len() < text.len()).then_some(b'('),
    }
}

/// `` `.`user` `` and what else names a table with accounts, behind `mysql`.
fn is_account_table(behind: &[u8]) -> bool {
    const TABLES: [&[u8]; 5] = [
        b"user",
        b"global_priv",
        b"servers",
        b"slave_master_info",
        b"proxies_priv",
    ];
    let skipped = |text: &[u8]| {
        let signs = text
            .iter()
            .take(64)
            .take_while(|&&byte| is_space(byte) || matches!(byte, b'`' | b'"' | b'.'));
        signs.count()
    };
    let at = skipped(behind);
    let table = &behind[at..];
    behind[..at].contains(&b'.')
        && TABLES.iter().any(|name| {
            let found = table.get(..name.len());
            found.is_some_and(|found| found.eq_ignore_ascii_case(name))
        })
}

/// Is one of the pair at `at` the `w` of a part of a word that is `pw`?
fn is_short(text: &[u8], at: usize) -> bool {
    (at..at + 2).any(|w| {
        let Some(begin) = w.checked_sub(1) else {
            return false;
        };
        let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphabetic);
        text.get(begin..=w)
            .is_some_and(|found| found.eq_ignore_ascii_case(SHORT))
            && !is_letter(w + 1)
            && !begin.checked_sub(1).is_some_and(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that has the name as it counts.
    fn holding(name: &Name) -> String {
        let text = str::from_utf8(name.text).expect("a name");
        match (name.text, name.place) {
            (b"code", _) => "encode(".to_owned(),
            (_, Place::Call) => format!("{text} ("),
            (_, Place::Schema) => format!("{text}.user"),
            _ => text.to_owned(),
        }
    }

    #[test]
    fn every_name_is_found_at_every_place_and_in_every_case() {
        for name in NAMES.iter().chain([&self::name("pw", 0, Place::Part)]) {
            for before in ["", " ", "x=", "SELECT a, ", "t1_", "@", "`"] {
                for behind in ["", " ", "=", "='x'", "_1", "`", ", b FROM t"] {
                    let text = format!("{before}{}{behind}", holding(name));
                    let is_word_inside = matches!(name.place, Place::Schema) && before == "t1_";
                    assert!(is_word_inside || names_secret(text.as_bytes()), "{text}");
                    assert!(names_secret(text.to_uppercase().as_bytes()), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_only_looks_like_one_is_not() {
        for text in [
            "SELECT c FROM sbtest1 WHERE id=50123",
            "SELECT passenger, passed FROM flights",
            "SELECT DISTINCT c, pad, SUM(k) FROM sbtest1 AS s ORDER BY s.c",
            "SELECT a AS s, shape, shadow, mdate, coded(1), zip_code (1) FROM t",
            "SELECT author, authored, card, discard FROM books WHERE tok = 1",
            "SELECT row, wait, hotpot, pwx, xpw FROM t",
            "SELECT mysql_user, mysql, user FROM mysql.tables",
            "SELECT sha, md5, sha2 FROM t",
            "INSERT INTO t (meta_key, sort_key) VALUES (1, 2) ON DUPLICATE KEY UPDATE a = 1",
        ] {
            assert!(!names_secret(text.as_bytes()), "{text}");
        }
    }
}
