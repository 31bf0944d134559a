//! Names and literals as statements write them, and the pieces of a `SHOW CREATE TABLE`.
//!
//! [`Definition`] splits the server's text at its top-level commas, minding quotes, back-quotes,
//! comments and parentheses. Invariant: total over all text (no panic), and what was split can be
//! put together again byte for byte.

use std::fmt::Write;

/// A name in back-quotes.
pub fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

/// A string literal, for sessions without NO_BACKSLASH_ESCAPES.
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// A binary literal: `x'00ff'`.
pub fn bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len() * 2 + 3);
    out.push_str("x'");
    for byte in value {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('\'');
    out
}

/// What a piece between the outer parentheses defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A column.
    Column,
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE KEY.
    Unique,
    /// KEY.
    Plain,
    /// FULLTEXT KEY.
    FullText,
    /// SPATIAL KEY.
    Spatial,
    /// VECTOR KEY.
    Vector,
    /// FOREIGN KEY.
    Foreign,
    /// CHECK.
    Check,
    /// Anything else, such as PERIOD FOR.
    Other,
}

impl Piece {
    /// What a piece is by its first words.
    pub fn of(text: &str) -> Piece {
        let mut rest = text.trim_start();
        if let Some(after) = rest.strip_prefix("CONSTRAINT ") {
            rest = after_name(after).trim_start();
            if rest.starts_with("FOREIGN KEY") {
                return Piece::Foreign;
            }
        }
        let starts: [(&str, Piece); 9] = [
            ("`", Piece::Column),
            ("PRIMARY KEY", Piece::Primary),
            ("UNIQUE KEY", Piece::Unique),
            ("KEY", Piece::Plain),
            ("FULLTEXT KEY", Piece::FullText),
            ("SPATIAL KEY", Piece::Spatial),
            ("VECTOR KEY", Piece::Vector),
            ("FOREIGN KEY", Piece::Foreign),
            ("CHECK", Piece::Check),
        ];
        let found = starts.iter().find(|(start, _)| rest.starts_with(start));
        found.map_or(Piece::Other, |(_, piece)| *piece)
    }
}

/// Text after a back-quoted name, if there is one.
fn after_name(text: &str) -> &str {
    match Scan::new(text).next() {
        Some((Token::Name, part)) => &text[part.len()..],
        _ => text,
    }
}

/// The first back-quoted name of a piece, without its quotes.
pub fn first_name(piece: &str) -> Option<String> {
    let (_, quoted) = Scan::new(piece).find(|(token, _)| *token == Token::Name)?;
    let inner = quoted.strip_prefix('`')?.strip_suffix('`')?;
    Some(inner.replace("``", "`"))
}

/// The parts of a change of schema, such as `ADD KEY …, ADD KEY …`: what stands between the commas
/// that are in no parentheses.
pub fn parts(change: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, token, part) in Scan::new(change).offsets() {
        match (token, part) {
            (Token::Plain, "(") => depth += 1,
            (Token::Plain, ")") => depth = depth.saturating_sub(1),
            (Token::Plain, ",") if depth == 0 => {
                parts.push(change[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(change[start..].trim());
    parts
}

/// A `CREATE TABLE` in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// `CREATE TABLE `, or with TEMPORARY and the like.
    pub head: String,
    /// What stands between the outer parentheses, trimmed.
    pub pieces: Vec<String>,
    /// What follows them: engine, character set, partitions.
    pub tail: String,
}

/// The text is no `CREATE TABLE` of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server's SHOW CREATE TABLE cannot be read: {0}")]
pub struct Unreadable(pub &'static str);

impl Definition {
    /// Splits the server's text.
    ///
    /// # Errors
    /// When it has no balanced list in parentheses.
    pub fn parse(text: &str) -> Result<Definition, Unreadable> {
        let open = Scan::new(text)
            .offsets()
            .find(|(_, token, part)| *token == Token::Plain && *part == "(")
            .map(|(at, ..)| at)
            .ok_or(Unreadable("no opening parenthesis"))?;
        let (mut depth, mut start, mut pieces) = (0usize, open + 1, Vec::new());
        for (at, token, part) in Scan::new(&text[open..]).offsets() {
            let at = open + at;
            match (token, part) {
                (Token::Plain, "(") => depth += 1,
                (Token::Plain, ")") => {
                    depth -= 1;
                    if depth == 0 {
                        pieces.push(text[start..at].trim().to_owned());
                        return Ok(Definition {
                            head: text[..open].trim_end().to_owned(),
                            pieces,
                            tail: text[at + 1..].trim().to_owned(),
                        });
                    }
                }
                (Token::Plain, ",") if depth == 1 => {
                    pieces.push(text[start..at].trim().to_owned());
                    start = at + 1;
                }
                _ => {}
            }
        }
        Err(Unreadable("the list does not end"))
    }

    /// The statement again, for a table of this name.
    pub fn statement(&self, table: &str) -> String {
        let pieces = self.pieces.join(",\n  ");
        format!("CREATE TABLE {table} (\n  {pieces}\n) {}", self.tail)
    }
}

/// How a stretch of SQL is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// In back-quotes.
    Name,
    /// In single or double quotes.
    Text,
    /// A comment, also one that a server executes.
    Comment,
    /// Letters, digits, `_` and `$`.
    Word,
    /// White space.
    Space,
    /// One other character.
    Plain,
}

/// Goes over SQL token by token; all tokens together are the text.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    /// Starts at the beginning.
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn offsets(self) -> impl Iterator<Item = (usize, Token, &'a str)> {
        let mut at = 0;
        self.map(move |(token, part)| {
            at += part.len();
            (at - part.len(), token, part)
        })
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = (Token, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.chars().next()?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let run = |is: &dyn Fn(char) -> bool| {
            let end = self.rest.find(|c| !is(c));
            end.unwrap_or(self.rest.len())
        };
        let (token, length) = match first {
            '`' => (Token::Name, quoted(self.rest, '`')),
            '\'' | '"' => (Token::Text, quoted(self.rest, first)),
            _ if self.rest.starts_with("/*") => {
                let end = self.rest.find("*/").map(|end| end + 2);
                (Token::Comment, end.unwrap_or(self.rest.len()))
            }
            c if is_word(c) => (Token::Word, run(&is_word)),
            c if c.is_whitespace() => (Token::Space, run(&char::is_whitespace)),
            c => (Token::Plain, c.len_utf8()),
        };
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some((token, part))
    }
}

/// Length of a quoted stretch, its quotes included; all that is left when it does not end.
fn quoted(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote != '`' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    chars.next();
                }
                _ => return at + c.len_utf8(),
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MYSQL: &str = "CREATE TABLE `t``x` (\n  `id` int NOT NULL COMMENT 'a, (b'' \\' c',\n  \
        `e` enum('a','b,)') COLLATE utf8mb4_bin DEFAULT NULL,\n  \
        `g` int GENERATED ALWAYS AS ((`id` + 1)) VIRTUAL /*!80023 INVISIBLE */,\n  \
        PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`e`,`g` DESC),\n  \
        KEY `f` ((cast(`e` as char(3)))),\n  \
        CONSTRAINT `c` FOREIGN KEY (`g`) REFERENCES `p` (`id`) ON DELETE CASCADE,\n  \
        CONSTRAINT `k` CHECK ((`id` > 0))\n) ENGINE=InnoDB AUTO_INCREMENT=7 COMMENT='(x'\n\
        /*!50100 PARTITION BY RANGE (`id`)\n(PARTITION p0 VALUES LESS THAN (10)) */";

    #[test]
    fn a_definition_falls_into_its_pieces() {
        let parts = Definition::parse(MYSQL).unwrap();
        let kinds: Vec<_> = parts.pieces.iter().map(|piece| Piece::of(piece)).collect();
        use Piece::{Check, Column, Foreign, Plain, Primary, Unique};
        assert_eq!(
            kinds,
            [
                Column, Column, Column, Primary, Unique, Plain, Foreign, Check
            ]
        );
        assert_eq!(first_name(&parts.pieces[4]).as_deref(), Some("u"));
        assert!(parts.tail.starts_with("ENGINE=InnoDB"));
        assert_eq!(parts.head, "CREATE TABLE `t``x`");
        let again = parts.statement("`t``x`");
        assert_eq!(Definition::parse(&again).unwrap(), parts);
    }

    #[test]
    fn a_change_falls_into_its_parts() {
        let change = "ADD UNIQUE KEY `u,v` (`a`,`b` DESC), \
                      ADD KEY `e` ((concat(`a`,_utf8mb4',)'))),\
                      ADD KEY `k` (`b`) COMMENT 'x, ADD (`y`'";
        assert_eq!(
            parts(change),
            [
                "ADD UNIQUE KEY `u,v` (`a`,`b` DESC)",
                "ADD KEY `e` ((concat(`a`,_utf8mb4',)')))",
                "ADD KEY `k` (`b`) COMMENT 'x, ADD (`y`'",
            ]
        );
        let names: Vec<_> = parts(change).into_iter().filter_map(first_name).collect();
        assert_eq!(names, ["u,v", "e", "k"]);
    }

    #[test]
    fn what_does_not_end_is_refused() {
        assert!(Definition::parse("CREATE VIEW `v` AS select 1").is_err());
        assert!(Definition::parse("CREATE TABLE `t` (`a` int, 'x)").is_err());
    }

    #[test]
    fn literals_end_where_they_should() {
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(string("it's \\"), "'it''s \\\\'");
        assert_eq!(bytes(b"\0\xff"), "x'00ff'");
    }

    proptest! {
        #[test]
        fn any_text_is_scanned_whole(text in ".{0,80}") {
            let again: String = Scan::new(&text).map(|(_, part)| part).collect();
            prop_assert_eq!(again, text.clone());
            let _ = Definition::parse(&text);
        }

        #[test]
        fn a_mutated_definition_never_panics(at in 0usize..600, byte in any::<char>()) {
            let mut text: Vec<char> = MYSQL.chars().collect();
            let at = at % text.len();
            text[at] = byte;
            let text: String = text.into_iter().collect();
            if let Ok(parts) = Definition::parse(&text) {
                for piece in &parts.pieces {
                    let _ = (Piece::of(piece), first_name(piece));
                }
            }
        }
    }
}
