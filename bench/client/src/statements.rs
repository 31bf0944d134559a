//! The statements of the three workloads, as execute packets that are patched in place.
//!
//! The same tables and statements as the workloads of sysbench that have these names; parameters
//! are uniform here. Invariant: sending a statement costs a few stores into a packet that is
//! already there.

use std::io::{Read, Write};

use anyhow::Context;

use crate::login;

/// Which statements run, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// One row by its primary key, in no transaction.
    PointSelect,
    /// Ten of these and four range selects between BEGIN and COMMIT.
    ReadOnly,
    /// The same with two updates, a delete and an insert.
    ReadWrite,
}

/// How a parameter of a statement is made.
#[derive(Debug, Clone, Copy)]
enum Param {
    Id,
    RangeStart,
    /// The parameter before it, plus 99.
    RangeEnd,
    /// The id of the statement before.
    SameId,
    Text(usize),
}

use Param::{Id, RangeEnd, RangeStart, SameId, Text};

type Step = (&'static str, &'static [Param], usize);

const SELECTS: [Step; 5] = [
    ("SELECT c FROM sbtest{} WHERE id=?", &[Id], 10),
    (
        "SELECT c FROM sbtest{} WHERE id BETWEEN ? AND ?",
        &[RangeStart, RangeEnd],
        1,
    ),
    (
        "SELECT SUM(k) FROM sbtest{} WHERE id BETWEEN ? AND ?",
        &[RangeStart, RangeEnd],
        1,
    ),
    (
        "SELECT c FROM sbtest{} WHERE id BETWEEN ? AND ? ORDER BY c",
        &[RangeStart, RangeEnd],
        1,
    ),
    (
        "SELECT DISTINCT c FROM sbtest{} WHERE id BETWEEN ? AND ? ORDER BY c",
        &[RangeStart, RangeEnd],
        1,
    ),
];

const WRITES: [Step; 4] = [
    ("UPDATE sbtest{} SET k=k+1 WHERE id=?", &[Id], 1),
    ("UPDATE sbtest{} SET c=? WHERE id=?", &[Text(119), Id], 1),
    ("DELETE FROM sbtest{} WHERE id=?", &[Id], 1),
    (
        "INSERT INTO sbtest{} (id, k, c, pad) VALUES (?, ?, ?, ?)",
        &[SameId, Id, Text(119), Text(59)],
        1,
    ),
];

/// A statement on the server and its packet here.
struct Statement {
    packet: Vec<u8>,
    /// Where each parameter's value is.
    params: Vec<(usize, Param)>,
}

/// The statements of one connection, in the order of an event.
pub struct Statements {
    steps: Vec<Statement>,
    at: usize,
    rows: u32,
    last_id: u32,
    random: u64,
}

impl Statements {
    /// Prepares the statements of `workload` on table `table` of `rows` rows.
    ///
    /// # Errors
    /// When the server does not know the table.
    pub fn prepare(
        stream: &mut (impl Read + Write),
        workload: Workload,
        table: u32,
        rows: u32,
        seed: u64,
        deprecates_eof: bool,
    ) -> anyhow::Result<Statements> {
        let begin = [("BEGIN", &[][..], 1)];
        let commit = [("COMMIT", &[][..], 1)];
        let steps: Vec<Step> = match workload {
            Workload::PointSelect => vec![(SELECTS[0].0, SELECTS[0].1, 1)],
            Workload::ReadOnly => [&begin[..], &SELECTS, &commit].concat(),
            Workload::ReadWrite => [&begin[..], &SELECTS, &WRITES, &commit].concat(),
        };
        let mut made = Vec::new();
        for (text, params, count) in steps {
            let text = text.replace("{}", &table.to_string());
            // MySQL prepares no BEGIN.
            if params.is_empty() {
                made.push(Statement::text(&text));
                continue;
            }
            let id = prepare(stream, &text, deprecates_eof)
                .with_context(|| format!("preparing {text}"))?;
            for _ in 0..count {
                made.push(Statement::prepared(id, params));
            }
        }
        Ok(Statements {
            steps: made,
            at: 0,
            rows,
            last_id: 1,
            random: seed | 1,
        })
    }

    /// The next statement's packet, its parameters drawn; true with the last one of an event.
    #[inline]
    pub fn draw(&mut self) -> (&[u8], bool) {
        let at = self.at;
        self.at = if at + 1 == self.steps.len() {
            0
        } else {
            at + 1
        };
        let (mut range_start, mut new_id) = (1, self.last_id);
        for index in 0..self.steps[at].params.len() {
            let (place, param) = self.steps[at].params[index];
            let value = match param {
                Id => {
                    new_id = self.number();
                    new_id
                }
                RangeStart => {
                    range_start = self.number();
                    range_start
                }
                RangeEnd => range_start + 99,
                SameId => self.last_id,
                // Ten digits of the text change.
                Text(_) => {
                    let digits = u64::from(self.number()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    for (i, byte) in self.steps[at].packet[place + 1..][..10]
                        .iter_mut()
                        .enumerate()
                    {
                        *byte = b'0' + ((digits >> (6 * i)) % 10) as u8;
                    }
                    continue;
                }
            };
            self.steps[at].packet[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
        self.last_id = new_id;
        (&self.steps[at].packet, self.at == 0)
    }

    /// After an error: the next statement is the first of an event.
    pub fn restart(&mut self) {
        self.at = 0;
    }

    fn number(&mut self) -> u32 {
        // xorshift64: a few cycles, good enough to spread reads over a table.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * u64::from(self.rows)) >> 32) as u32 + 1
    }
}

impl Statement {
    fn text(text: &str) -> Statement {
        Statement {
            packet: framed(&[&[0x03], text.as_bytes()].concat()),
            params: Vec::new(),
        }
    }

    fn prepared(id: u32, params: &[Param]) -> Statement {
        let mut body = vec![0x17];
        body.extend_from_slice(&id.to_le_bytes());
        // No cursor, one execution.
        body.extend_from_slice(&[0, 1, 0, 0, 0]);
        body.extend(vec![0; params.len().div_ceil(8)]);
        body.push(1);
        for param in params {
            // MYSQL_TYPE_STRING and MYSQL_TYPE_LONG.
            body.extend_from_slice(&[if matches!(param, Text(_)) { 0xfe } else { 3 }, 0]);
        }
        let mut places = Vec::new();
        for param in params {
            places.push((4 + body.len(), *param));
            match param {
                Text(length) => {
                    body.push(*length as u8);
                    body.extend(vec![b'5'; *length]);
                }
                _ => body.extend_from_slice(&[0; 4]),
            }
        }
        Statement {
            packet: framed(&body),
            params: places,
        }
    }
}

/// The packet of a command, with its header.
fn framed(body: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = (body.len() as u32).to_le_bytes();
    [&[a, b, c, 0], body].concat()
}

fn prepare(
    stream: &mut (impl Read + Write),
    text: &str,
    deprecates_eof: bool,
) -> anyhow::Result<u32> {
    let answer = login::command(stream, 0x16, text.as_bytes())?;
    let number = |at: usize| u16::from_le_bytes([answer[at], answer[at + 1]]);
    anyhow::ensure!(answer.len() >= 12, "the answer to a prepare is too short");
    for count in [number(7), number(5)] {
        let ends = u16::from(count > 0 && !deprecates_eof);
        for _ in 0..count + ends {
            login::receive(stream)?;
        }
    }
    Ok(u32::from_le_bytes([
        answer[1], answer[2], answer[3], answer[4],
    ]))
}
