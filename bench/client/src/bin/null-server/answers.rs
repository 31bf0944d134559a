//! Every answer there is, made once: what the statements of the workloads get.
//!
//! Invariant: an answer is complete, with its sequence numbers, for a command in one packet.

/// What a statement is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// OK, no row affected.
    Done,
    /// OK, one row affected.
    Changed,
    /// One row of c.
    Row,
    /// A row of c for each of the range.
    Rows,
    /// One number.
    Sum,
}

/// The number of kinds, and of forms: text or binary, rows end in EOF or OK.
const KINDS: usize = 5;
const FORMS: usize = 4;

/// All answers.
pub(crate) struct Answers {
    by_kind: [[Vec<u8>; FORMS]; KINDS],
}

const TYPE_LONGLONG: u8 = 0x08;
const TYPE_STRING: u8 = 0xfe;
const TYPE_VAR_STRING: u8 = 0xfd;

impl Answers {
    pub(crate) fn new(range_size: usize) -> Answers {
        let forms = |kind| {
            std::array::from_fn(|form| answer(kind, range_size, form & 1 != 0, form & 2 != 0))
        };
        Answers {
            by_kind: [Kind::Done, Kind::Changed, Kind::Row, Kind::Rows, Kind::Sum].map(forms),
        }
    }

    #[inline]
    pub(crate) fn of(&self, kind: Kind, binary: bool, deprecates_eof: bool) -> &[u8] {
        &self.by_kind[kind as usize][usize::from(binary) | usize::from(deprecates_eof) << 1]
    }
}

impl Kind {
    /// By the words of a statement of the workloads.
    pub(crate) fn of(statement: &str) -> Kind {
        let text = statement.trim_start().to_ascii_uppercase();
        let word = text.split([' ', '\n', '(', ';']).next().unwrap_or_default();
        match word {
            "SELECT" if text.contains("SUM(") || text.contains("COUNT(") => Kind::Sum,
            "SELECT" if text.contains("BETWEEN") => Kind::Rows,
            "SELECT" => Kind::Row,
            "INSERT" | "UPDATE" | "DELETE" | "REPLACE" => Kind::Changed,
            _ => Kind::Done,
        }
    }

    /// Columns of its rows.
    pub(crate) fn columns(self) -> u16 {
        u16::from(matches!(self, Kind::Row | Kind::Rows | Kind::Sum))
    }

    /// The definition of its column.
    pub(crate) fn definition(self) -> Vec<u8> {
        match self {
            Kind::Sum => definition("sbtest1", "SUM(k)", TYPE_LONGLONG, 20),
            _ => definition("sbtest1", "c", TYPE_STRING, 480),
        }
    }
}

/// Appends a packet with its header.
pub(crate) fn put(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    out.extend_from_slice(&[a, b, c, sequence]);
    out.extend_from_slice(payload);
}

/// Rows of two texts, as SHOW answers.
pub(crate) fn pairs(rows: &[(&str, &str)], deprecates_eof: bool) -> Vec<u8> {
    let definitions =
        ["Variable_name", "Value"].map(|name| definition("", name, TYPE_VAR_STRING, 1024));
    let rows: Vec<Vec<u8>> = rows
        .iter()
        .map(|(name, value)| [text(name.as_bytes()), text(value.as_bytes())].concat())
        .collect();
    result(&definitions, &rows, deprecates_eof)
}

fn answer(kind: Kind, range_size: usize, binary: bool, deprecates_eof: bool) -> Vec<u8> {
    let row = |value: &[u8]| match binary {
        // A zero and a bitmap of nulls stand before the values.
        true => [&[0, 0], value].concat(),
        false => value.to_vec(),
    };
    let c = text("68487932199-96439406143-".repeat(5).as_bytes());
    let rows = match kind {
        Kind::Done | Kind::Changed => {
            let mut out = Vec::new();
            let affected = u8::from(kind == Kind::Changed);
            put(&mut out, 1, &[0, affected, 0, 2, 0, 0, 0]);
            return out;
        }
        Kind::Row => vec![row(&c)],
        Kind::Rows => vec![row(&c); range_size],
        Kind::Sum if binary => vec![row(&501_234_u64.to_le_bytes())],
        Kind::Sum => vec![row(&text(b"501234"))],
    };
    result(&[kind.definition()], &rows, deprecates_eof)
}

fn result(definitions: &[Vec<u8>], rows: &[Vec<u8>], deprecates_eof: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 0u8;
    let mut next = |out: &mut Vec<u8>, payload: &[u8]| {
        sequence = sequence.wrapping_add(1);
        put(out, sequence, payload);
    };
    next(&mut out, &[definitions.len() as u8]);
    for definition in definitions {
        next(&mut out, definition);
    }
    if !deprecates_eof {
        next(&mut out, EOF);
    }
    for row in rows {
        next(&mut out, row);
    }
    next(
        &mut out,
        if deprecates_eof {
            &[0xfe, 0, 0, 2, 0, 0, 0]
        } else {
            EOF
        },
    );
    out
}

/// The packet that ends definitions and rows where OK does not.
pub(crate) const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];

/// A text with its length before it; none here is longer than 250 bytes.
fn text(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

pub(crate) fn definition(table: &str, name: &str, kind: u8, length: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for part in ["def", "sbtest", table, table, name, name] {
        out.extend(text(part.as_bytes()));
    }
    out.push(0x0c);
    // Binary for numbers, utf8mb4 for text.
    let charset: u16 = if kind == TYPE_LONGLONG { 63 } else { 45 };
    out.extend_from_slice(&charset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[kind, 1, 0, 0, 0, 0]);
    out
}

/// The definition of a parameter.
pub(crate) fn parameter() -> Vec<u8> {
    definition("", "?", TYPE_VAR_STRING, 0)
}
