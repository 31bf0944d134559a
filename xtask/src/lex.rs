//! Tells code from comments and literals, well enough to count braces and to search for words.
//!
//! Neighbours: the tidy rules read nothing but what this leaves. Invariant: line `n` of a source
//! is line `n` of its code and of its comments; a literal keeps its quotes and loses its inside.

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    C,
    TypeScript,
    Lua,
}

impl Language {
    /// The language of a file with this extension, if the tidy rules know it.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "rs" => Some(Self::Rust),
            "c" | "h" => Some(Self::C),
            "ts" | "tsx" | "mts" | "js" | "mjs" => Some(Self::TypeScript),
            "lua" => Some(Self::Lua),
            _ => None,
        }
    }
}

/// A source in two layers, each with the source's own line breaks.
#[derive(Debug)]
pub(crate) struct Layers {
    /// The code; comments and the insides of literals are blanks.
    pub(crate) code: String,
    /// The comments, marks included; all else is blanks.
    pub(crate) comments: String,
}

/// Separates `text` into code and comments.
pub(crate) fn layers(text: &str, language: Language) -> Layers {
    let mut lexer = Lexer {
        text: text.chars().collect(),
        at: 0,
        code: String::with_capacity(text.len()),
        comments: String::with_capacity(text.len()),
    };
    while lexer.at < lexer.text.len() {
        if !(lexer.comment(language) || lexer.literal(language)) {
            lexer.take(1, Layer::Code);
        }
    }
    Layers {
        code: lexer.code,
        comments: lexer.comments,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Code,
    Comment,
    Neither,
}

struct Lexer {
    text: Vec<char>,
    at: usize,
    code: String,
    comments: String,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn looking_at(&self, what: &str) -> bool {
        what.chars()
            .enumerate()
            .all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn take(&mut self, count: usize, layer: Layer) {
        for _ in 0..count {
            let Some(c) = self.peek(0) else { return };
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if layer == Layer::Code { c } else { blank });
            self.comments
                .push(if layer == Layer::Comment { c } else { blank });
            self.at += 1;
        }
    }

    fn take_until(&mut self, end: &str, layer: Layer) {
        while self.at < self.text.len() && !self.looking_at(end) {
            self.take(1, layer);
        }
    }

    fn comment(&mut self, language: Language) -> bool {
        if language == Language::Lua {
            return self.lua_comment();
        }
        if self.looking_at("//") {
            self.take_until("\n", Layer::Comment);
            return true;
        }
        if !self.looking_at("/*") {
            return false;
        }
        let mut depth = 0;
        while self.at < self.text.len() {
            if self.looking_at("/*") && (depth == 0 || language == Language::Rust) {
                depth += 1;
                self.take(2, Layer::Comment);
            } else if self.looking_at("*/") {
                depth -= 1;
                self.take(2, Layer::Comment);
                if depth == 0 {
                    break;
                }
            } else {
                self.take(1, Layer::Comment);
            }
        }
        true
    }

    fn lua_comment(&mut self) -> bool {
        if !self.looking_at("--") {
            return false;
        }
        self.take(2, Layer::Comment);
        match self.lua_long_end() {
            Some(end) => {
                self.take_until(&end, Layer::Comment);
                self.take(end.len(), Layer::Comment);
            }
            None => self.take_until("\n", Layer::Comment),
        }
        true
    }

    /// The end of the Lua long bracket that begins here: `]]` for `[[`, `]=]` for `[=[`.
    fn lua_long_end(&self) -> Option<String> {
        let level = (1..)
            .take_while(|ahead| self.peek(*ahead) == Some('='))
            .count();
        let opens = self.peek(0) == Some('[') && self.peek(level + 1) == Some('[');
        opens.then(|| format!("]{}]", "=".repeat(level)))
    }

    fn literal(&mut self, language: Language) -> bool {
        let Some(first) = self.peek(0) else {
            return false;
        };
        match (language, first) {
            (Language::Rust, 'r') if self.rust_raw_string() => true,
            (Language::Rust, '\'') => self.rust_character(),
            (Language::Lua, '[') => match self.lua_long_end() {
                Some(end) => {
                    self.take(end.len(), Layer::Code);
                    self.take_until(&end, Layer::Neither);
                    self.take(end.len(), Layer::Code);
                    true
                }
                None => false,
            },
            (_, '"') => self.quoted('"'),
            (Language::C | Language::TypeScript | Language::Lua, '\'') => self.quoted('\''),
            (Language::TypeScript, '`') => self.quoted('`'),
            _ => false,
        }
    }

    fn quoted(&mut self, quote: char) -> bool {
        self.take(1, Layer::Code);
        while let Some(c) = self.peek(0) {
            if c == '\\' {
                self.take(2, Layer::Neither);
            } else if c == quote {
                self.take(1, Layer::Code);
                break;
            } else {
                self.take(1, Layer::Neither);
            }
        }
        true
    }

    fn rust_raw_string(&mut self) -> bool {
        let hashes = (1..)
            .take_while(|ahead| self.peek(*ahead) == Some('#'))
            .count();
        if self.peek(1 + hashes) != Some('"') {
            return false;
        }
        // `r` may end a longer name; `b` and `c` are the only letters a raw string may have before.
        let before = self.at.checked_sub(1).map(|i| self.text[i]);
        if before.is_some_and(|c| is_word(c) && c != 'b' && c != 'c') {
            return false;
        }
        let end = format!("\"{}", "#".repeat(hashes));
        self.take(2 + hashes, Layer::Code);
        self.take_until(&end, Layer::Neither);
        self.take(end.len(), Layer::Code);
        true
    }

    /// A character literal; a lifetime is left to be code.
    fn rust_character(&mut self) -> bool {
        if self.peek(1) == Some('\\') || self.peek(2) == Some('\'') {
            self.quoted('\'')
        } else {
            false
        }
    }
}

/// Whether `c` can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, language: Language) -> String {
        let layers = layers(text, language);
        assert_eq!(text.lines().count(), layers.code.lines().count());
        assert_eq!(text.lines().count(), layers.comments.lines().count());
        layers.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rust_literals_lose_their_insides() {
        let c = |text| code(text, Language::Rust);
        assert_eq!(c("a(\"{ \\\" }\"); b"), "a(\" \"); b");
        assert_eq!(c("r#\"x\" {\"# + br\"{\" + 1"), "r#\" \"# + br\" \" + 1");
        assert_eq!(c("'{' '\\'' &'a T<'static>"), "' ' ' ' &'a T<'static>");
        assert_eq!(c("a /* { /* nested */ } */ b // {"), "a b");
        assert_eq!(c("var\"{\""), "var\" \"");
    }

    #[test]
    fn other_languages_have_their_own_marks() {
        assert_eq!(
            code("x = '{' -- {\ny = [==[ { ]] ]==] z", Language::Lua),
            "x = ' ' y = [==[ ]==] z"
        );
        assert_eq!(code("--[[ {\n{ ]] a", Language::Lua), "a");
        assert_eq!(
            code("f('}', `${a}{`) // }", Language::TypeScript),
            "f(' ', ` `)"
        );
        assert_eq!(code("/* a /* b */ c '\\''", Language::C), "c ' '");
    }

    #[test]
    fn comments_are_a_layer_of_their_own() {
        let layers = layers("a // why\n\"// not\"\n/* b\n c */", Language::Rust);
        let lines: Vec<&str> = layers.comments.lines().map(str::trim).collect();
        assert_eq!(lines, ["// why", "", "/* b", "c */"]);
    }
}
