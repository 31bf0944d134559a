//! Conversations for tests: what both sides say, as segments, and what is made of them.

use super::super::frame::{ACK, End, FIN, SYN, Segment, mapped};
use super::super::losses::Losses;
use super::Flows;
use crate::source::Observation;
use crate::statement::{Statement, Text};

pub(crate) const LONG_PASSWORD: u64 = 1;
pub(crate) const DEPRECATE_EOF: u64 = 1 << 24;
/// Protocol 4.1, database, authentication plugins, several statements and results.
const BASE: u64 = 0x8 | 0x200 | 0x2000 | 0x8000 | 0x7_0000 | 0x8_0000 | LONG_PASSWORD;

/// One segment that somebody owns.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) to_server: bool,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
    pub(crate) time_ns: u64,
}

/// A connection whose both ends are the test.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    pub(crate) said: Vec<Said>,
    /// Numbers of the next bytes of the client and the server; they wrap around soon.
    next: [u32; 2],
    pub(crate) time_ns: u64,
    /// Bytes in a segment.
    pub(crate) segment_bytes: usize,
}

/// A packet in its frames.
pub(crate) fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut number = sequence;
    let mut rest = payload;
    loop {
        let (frame, later) = rest.split_at(rest.len().min(0xff_ffff));
        out.extend(&(frame.len() as u32).to_le_bytes()[..3]);
        out.push(number);
        out.extend(frame);
        if frame.len() < 0xff_ffff {
            return out;
        }
        number = number.wrapping_add(1);
        rest = later;
    }
}

/// Packets numbered from `first` on.
pub(crate) fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let numbered = payloads.iter().enumerate();
    numbered
        .flat_map(|(at, payload)| packet(first.wrapping_add(at as u8), payload))
        .collect()
}

/// An OK packet: affected rows, no insert id, status, warnings.
pub(crate) fn ok(affected: u8, status: u16, warnings: u16) -> Vec<u8> {
    done(0, affected, status, warnings)
}

/// The OK packet that ends rows.
pub(crate) fn end(status: u16, warnings: u16) -> Vec<u8> {
    done(0xfe, 0, status, warnings)
}

fn done(first: u8, affected: u8, status: u16, warnings: u16) -> Vec<u8> {
    let mut out = vec![first, affected, 0];
    out.extend(status.to_le_bytes());
    out.extend(warnings.to_le_bytes());
    out
}

/// The packet that ends rows or definitions for older clients.
pub(crate) fn eof(status: u16) -> Vec<u8> {
    let mut out = vec![0xfe, 0, 0];
    out.extend(status.to_le_bytes());
    out
}

pub(crate) const COLUMN: &[u8] = b"\x03def\0\0\0\x01c\0\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0";
pub(crate) const NO_TABLE: &[u8] = b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist";

impl Talk {
    /// A connection with nothing said yet.
    pub(crate) fn silent() -> Talk {
        Talk {
            said: Vec::new(),
            next: [u32::MAX - 300, u32::MAX - 2000],
            time_ns: 1_000_000,
            segment_bytes: 1460,
        }
    }

    /// From the first segment to the end of the login of `me` to `db`.
    pub(crate) fn logged_in(capabilities: u64) -> Talk {
        let mut talk = Talk::silent();
        talk.open();
        talk.greet(capabilities);
        talk.log_in(capabilities);
        talk
    }

    pub(crate) fn open(&mut self) {
        self.push(true, SYN, Vec::new());
        self.push(false, SYN | ACK, Vec::new());
    }

    pub(crate) fn greet(&mut self, capabilities: u64) {
        let flags = BASE | capabilities;
        // MariaDB shows by the missing bit that the upper half is there.
        let flags = if flags >> 32 != 0 {
            flags & !LONG_PASSWORD
        } else {
            flags
        };
        let mut out = b"\x0a9.7.4\0\x07\0\0\0abcdefgh\0".to_vec();
        out.extend((flags as u16).to_le_bytes());
        out.extend([45, 2, 0]);
        out.extend(((flags >> 16) as u16).to_le_bytes());
        out.extend([21, 0, 0, 0, 0, 0, 0]);
        out.extend(((flags >> 32) as u32).to_le_bytes());
        out.extend(b"ijklmnopqrst\0plug\0");
        self.server(0, &[&out]);
    }

    pub(crate) fn log_in(&mut self, capabilities: u64) {
        let flags = BASE | capabilities;
        let flags = if flags >> 32 != 0 {
            flags & !LONG_PASSWORD
        } else {
            flags
        };
        let mut out = (flags as u32).to_le_bytes().to_vec();
        out.extend([0, 0, 0, 64, 45]);
        out.extend([0; 19]);
        out.extend(((flags >> 32) as u32).to_le_bytes());
        out.extend(b"me\0\x04hushdb\0plug\0");
        self.client(1, &out);
        self.server(2, &[&ok(0, 2, 0)]);
    }

    fn push(&mut self, to_server: bool, flags: u8, payload: Vec<u8>) {
        let side = usize::from(!to_server);
        self.time_ns += 1000;
        let steps = u32::from(flags & (SYN | FIN) != 0) + payload.len() as u32;
        self.said.push(Said {
            to_server,
            sequence: self.next[side],
            acknowledged: self.next[1 - side],
            flags,
            payload,
            time_ns: self.time_ns,
        });
        self.next[side] = self.next[side].wrapping_add(steps);
    }

    /// Bytes as they are, cut into segments.
    pub(crate) fn say(&mut self, to_server: bool, bytes: &[u8]) {
        for piece in bytes.chunks(self.segment_bytes) {
            self.push(to_server, ACK, piece.to_vec());
        }
    }

    /// One packet of the client.
    pub(crate) fn client(&mut self, sequence: u8, payload: &[u8]) {
        self.say(true, &packet(sequence, payload));
    }

    /// Packets of the server, numbered from `first` on.
    pub(crate) fn server(&mut self, first: u8, payloads: &[&[u8]]) {
        self.say(false, &packets(first, payloads));
    }

    /// A query and the packets of its answer.
    pub(crate) fn query(&mut self, sql: &str, answer: &[&[u8]]) {
        self.client(0, &[b"\x03", sql.as_bytes()].concat());
        self.server(1, answer);
    }

    pub(crate) fn close(&mut self) {
        self.push(true, FIN | ACK, Vec::new());
        self.push(false, FIN | ACK, Vec::new());
    }
}

/// What was made of it: a line a statement, and what was lost.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub(crate) struct Heard {
    pub(crate) statements: Vec<String>,
    pub(crate) lost: Vec<(&'static str, u64)>,
    pub(crate) connections: usize,
}

fn line(statement: &Statement<'_>) -> String {
    let text = match statement.text {
        Text::Whole { sql, truncated } => {
            let shown = &sql[..sql.len().min(40)];
            let more = if truncated { "..." } else { "" };
            format!("`{}`{more}", String::from_utf8_lossy(shown))
        }
        _ => "unknown".to_owned(),
    };
    let show = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let work = &statement.work;
    let user = String::from_utf8_lossy(statement.user);
    let database = String::from_utf8_lossy(statement.database);
    let mut line = format!(
        "{} {user}/{database} {text} rows {} affected {} warnings {} error {} us {}",
        statement.command.unwrap_or_default(),
        show(work.rows_sent),
        show(work.rows_affected),
        show(work.warnings.map(u64::from)),
        show(work.error.map(u64::from)),
        show(statement.latency_ns.map(|ns| ns / 1000)),
    );
    if work.no_index == Some(true) {
        line += " no-index";
    }
    if work.in_transaction == Some(true) {
        line += " open";
    }
    line
}

/// Plays segments to a source that starts with them.
pub(crate) fn hear<'a>(said: impl IntoIterator<Item = &'a Said>) -> Heard {
    hear_with(said, |_, _| ())
}

/// The same; `before` is called before each segment, with its place.
pub(crate) fn hear_with<'a>(
    said: impl IntoIterator<Item = &'a Said>,
    before: impl Fn(&mut Flows, usize),
) -> Heard {
    let mut flows = Flows::new(64 << 10);
    let mut heard = Heard::default();
    for (at, said) in said.into_iter().enumerate() {
        before(&mut flows, at);
        let client = End {
            address: mapped([10, 0, 0, 9]),
            port: 50_000,
        };
        let server = End {
            address: mapped([10, 0, 0, 1]),
            port: 3306,
        };
        let segment = Segment {
            from: if said.to_server { client } else { server },
            to: if said.to_server { server } else { client },
            sequence: said.sequence,
            acknowledged: said.acknowledged,
            flags: said.flags,
            payload: &said.payload,
            time_ns: said.time_ns,
        };
        flows.segment(&segment, said.to_server, &mut |seen| {
            if let Observation::Statement(statement) = seen {
                assert_eq!(statement.host, b"10.0.0.9");
                heard.statements.push(line(&statement));
            }
        });
    }
    heard.lost = told(&mut flows.shared.losses);
    heard.connections = flows.count();
    let engines = flows.shared.engines.as_ref();
    assert!(engines.is_none_or(|engines| engines.lent() <= 2));
    heard
}

fn told(losses: &mut Losses) -> Vec<(&'static str, u64)> {
    let mut lost = Vec::new();
    losses.tell(&mut |seen| {
        if let Observation::Lost { cause, count } = seen {
            lost.push((cause, count));
        }
    });
    lost
}

/// A generator of test numbers; the same seed gives the same ones.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
