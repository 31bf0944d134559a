//! What kind of byte is this?
//!
//! One 256-entry table drives the lexer, one the copying in lower case, one the skipping of value
//! lists. They are built at compile time, so a look-up is one load. Neighbours: `fingerprint`,
//! `scan` and `redact` read them; this module knows no SQL beyond single bytes.

/// How the lexer leaves its copying loop on a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Punctuation that is copied as it is: `,` `=` `*` and so on.
    Plain,
    /// Belongs to a name, a keyword, a variable or a placeholder; digits may follow.
    Word,
    /// Belongs to a letter beyond ASCII, if it is one.
    Letter,
    Digit,
    Space,
    /// `'` or `"`.
    Quote,
    Backtick,
    Slash,
    /// `+` or `-`.
    Sign,
    Hash,
    Open,
    Close,
    Dot,
}

/// The class of every byte.
pub(crate) static CLASS: [Class; 256] = {
    let mut table = [Class::Plain; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = class_of(byte as u8);
        byte += 1;
    }
    table
};

const fn class_of(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'@' | b':' | b'\\' => Class::Word,
        0x80.. => Class::Letter,
        b'0'..=b'9' => Class::Digit,
        b' ' | 0x09..=0x0D => Class::Space,
        b'\'' | b'"' => Class::Quote,
        b'`' => Class::Backtick,
        b'/' => Class::Slash,
        b'+' | b'-' => Class::Sign,
        b'#' => Class::Hash,
        b'(' => Class::Open,
        b')' => Class::Close,
        b'.' => Class::Dot,
        _ => Class::Plain,
    }
}

const IDENTIFIER: u8 = 1;
const NUMERIC: u8 = 2;
const LIST_STOP: u8 = 4;

static FLAGS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut flags = 0;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..) {
            flags |= IDENTIFIER;
        }
        if byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'X' | b'.') {
            flags |= NUMERIC;
        }
        if matches!(byte, b'(' | b')' | b'\'' | b'"' | b'`' | b'/' | b'#' | b'-') {
            flags |= LIST_STOP;
        }
        table[at] = flags;
        at += 1;
    }
    table
};

/// May this byte stand inside an unquoted identifier?
#[inline(always)]
pub(crate) fn is_identifier(byte: u8) -> bool {
    FLAGS[byte as usize] & IDENTIFIER != 0
}

/// May this byte stand inside a number (decimal, hexadecimal, with a fraction or an exponent)?
#[inline(always)]
pub(crate) fn is_numeric(byte: u8) -> bool {
    FLAGS[byte as usize] & NUMERIC != 0
}

/// Has the skipping of a value list to look at this byte?
#[inline(always)]
pub(crate) fn stops_list(byte: u8) -> bool {
    FLAGS[byte as usize] & LIST_STOP != 0
}

/// What the copying loop needs of a byte, in one load.
#[derive(Clone, Copy)]
pub(crate) struct Copied(u16);

impl Copied {
    const STOP: u16 = 0x100;
    const NAME: u16 = 0x200;
    const NAME_INSIDE: u16 = 0x400;

    #[inline(always)]
    pub(crate) fn of(byte: u8) -> Self {
        COPIED[byte as usize]
    }

    /// Has the copying to stop here? A digit and a dot stop it, too: see `goes_on_name`.
    #[inline(always)]
    pub(crate) fn stops(self) -> bool {
        self.0 & Self::STOP != 0
    }

    #[inline(always)]
    pub(crate) fn lower(self) -> u8 {
        self.0 as u8
    }

    /// May a name go on behind this byte?
    #[inline(always)]
    pub(crate) fn is_name(self) -> bool {
        self.0 & Self::NAME != 0
    }

    /// Is this byte, which stops elsewhere, copied behind a name?
    #[inline(always)]
    pub(crate) fn goes_on_name(self) -> bool {
        self.0 & Self::NAME_INSIDE != 0
    }
}

static COPIED: [Copied; 256] = {
    let mut table = [Copied(0); 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let flags = match class_of(byte) {
            Class::Word => Copied::NAME,
            Class::Digit | Class::Dot => Copied::NAME | Copied::NAME_INSIDE | Copied::STOP,
            Class::Letter => Copied::NAME | Copied::STOP,
            Class::Plain => 0,
            _ => Copied::STOP,
        };
        table[at] = Copied(flags | byte.to_ascii_lowercase() as u16);
        at += 1;
    }
    table
};

/// White space as the server's lexer sees it: also vertical tab and form feed.
#[inline(always)]
pub(crate) fn is_space(byte: u8) -> bool {
    CLASS[byte as usize] as u8 == Class::Space as u8
}
