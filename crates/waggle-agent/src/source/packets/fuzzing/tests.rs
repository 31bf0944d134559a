//! Seeded mutations of a conversation of every kind.

use super::super::flows::talk::*;
use super::*;

/// The conversation as records for [`traffic`].
fn records(talk: &Talk) -> Vec<u8> {
    let mut out = Vec::new();
    for said in &talk.said {
        let kind = match said.flags {
            flags if flags & SYN != 0 => b's',
            flags if flags & FIN != 0 => b'f',
            _ => b'd',
        };
        out.push(if said.to_server { 0 } else { 0x80 });
        out.push(kind);
        out.extend((said.payload.len() as u16).to_le_bytes());
        out.extend(&said.payload);
    }
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for flag in [
        0,
        DEPRECATE_EOF,
        DEPRECATE_EOF | 1 << 25,
        DEPRECATE_EOF | 1 << 5,
        1 << 26,
    ] {
        let mut talk = Talk::logged_in(flag);
        talk.query("SELECT 1", &[b"\x01", COLUMN, &eof(2), b"\x01x", &eof(2)]);
        talk.query(
            "SELECT 2; DO 3",
            &[b"\x01", COLUMN, b"\x01x", &end(0x0a, 0), &ok(1, 2, 0)],
        );
        talk.client(0, b"\x16SELECT ?");
        talk.server(1, &[b"\0\x05\0\0\0\x01\0\x01\0\0\0\0", COLUMN, COLUMN]);
        talk.client(0, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\x08\0");
        talk.server(1, &[b"\x01", COLUMN, b"\0\0\x01x", &end(2, 0)]);
        talk.query("LOAD DATA LOCAL", &[b"\xfb/etc/file"]);
        talk.client(2, b"1\tx\n");
        talk.client(3, b"");
        talk.server(4, &[&ok(1, 2, 0)]);
        talk.query("DO 1", &[NO_TABLE]);
        talk.close();
        all.push(records(&talk));
    }
    all
}

#[test]
fn a_conversation_of_every_kind_is_understood() {
    let outcome = traffic(&seeds()[1]);
    assert!(outcome.statements >= 5, "{outcome:?}");
}

#[test]
fn no_mutation_makes_it_panic() {
    let seeds = seeds();
    let mut dice = Dice(7);
    let mut statements = 0;
    for round in 0..10_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=dice.below(6) {
            let at = dice.below(bytes.len());
            let other = &seeds[dice.below(seeds.len())];
            match dice.below(6) {
                0 => bytes[at] = dice.below(256) as u8,
                1 => bytes[at] ^= 1 << dice.below(8),
                2 => bytes.truncate(at + 1),
                3 => drop(bytes.splice(at..at, *b"\x80g\x05\0")),
                4 => bytes[at] = *b"sfrgoa"[dice.below(6)..].first().unwrap_or(&b's'),
                _ => {
                    let from = dice.below(other.len());
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        statements += traffic(&bytes).statements;
    }
    assert!(
        statements > 5_000,
        "mutations come past the login: {statements}"
    );
}
