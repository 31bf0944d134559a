//! Compressed conversations, cut anywhere, and connections that were open before.

use std::io::Write;

use super::super::talk::*;
use super::ROW;
use waggle_wire::Compression;

/// `bytes` in one frame, packed if there is something to gain.
fn frame(compression: Compression, sequence: u8, bytes: &[u8]) -> Vec<u8> {
    let packed = match compression {
        _ if bytes.len() < 50 => None,
        Compression::Zlib => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            Some(encoder.finish().unwrap())
        }
        Compression::Zstd => Some(zstd::bulk::compress(bytes, 3).unwrap()),
        Compression::Off => None,
    };
    let length = if packed.is_some() { bytes.len() } else { 0 };
    let data = packed.unwrap_or_else(|| bytes.to_vec());
    let mut out = (data.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend(&(length as u32).to_le_bytes()[..3]);
    out.extend(data);
    out
}

fn conversation(compression: Compression, segment_bytes: usize) -> Talk {
    let flag = match compression {
        Compression::Zlib => 1 << 5,
        Compression::Zstd => 1 << 26,
        Compression::Off => 0,
    };
    let mut talk = Talk::logged_in(DEPRECATE_EOF | flag);
    talk.segment_bytes = segment_bytes;
    let sql = format!("\x03SELECT '{}'", "wide ".repeat(40));
    for text in ["\x03DO 1", &sql] {
        let command = packet(0, text.as_bytes());
        talk.say(true, &frame(compression, 0, &command));
        let mut answer = packets(1, &[b"\x01", COLUMN]);
        // Numbers within compressed frames go their own way.
        answer.extend(packets(9, &[ROW; 100]));
        answer.extend(packet(3, &end(2, 0)));
        // A frame ends anywhere.
        let (head, tail) = answer.split_at(answer.len() / 3);
        talk.say(false, &frame(compression, 1, head));
        talk.say(false, &frame(compression, 2, tail));
    }
    talk
}

#[test]
fn compressed_conversations_are_read_however_they_are_cut() {
    for compression in [Compression::Zlib, Compression::Zstd] {
        for segment_bytes in [7, 100, 1460] {
            let talk = conversation(compression, segment_bytes);
            let heard = hear(&talk.said);
            assert_eq!(heard.lost, []);
            let [short, long] = heard.statements.as_slice() else {
                panic!("{heard:?}");
            };
            assert!(
                short.starts_with("3 me/db `DO 1` rows 100 affected 0"),
                "{short}"
            );
            assert!(long.starts_with("3 me/db `SELECT 'wide wide"), "{long}");
            // Open before: the same without a name.
            let login = talk
                .said
                .iter()
                .position(|said| said.payload.ends_with(b"plug\0"));
            let late = &talk.said[login.unwrap_or(0) + 3..];
            if segment_bytes == 1460 {
                let heard = hear(late);
                assert!(
                    heard
                        .statements
                        .iter()
                        .all(|line| line.starts_with("3 / `"))
                );
                assert!(!heard.statements.is_empty(), "{compression} {heard:?}");
            }
        }
    }
}

/// Everything that a connection may say, by whether rows end the old way.
fn plain(flag: u64) -> Talk {
    let mut talk = Talk::logged_in(flag);
    let (middle, last) = match flag & DEPRECATE_EOF {
        0 => (Some(eof(2)), eof(2)),
        _ => (None, end(2, 0)),
    };
    let middle: Vec<&[u8]> = middle.iter().map(Vec::as_slice).collect();
    let query = |sql: &str| match flag & 1 << 27 {
        0 => format!("\x03{sql}"),
        _ => format!("\x03\0\x01{sql}"),
    };
    for _ in 0..2 {
        talk.client(0, b"\x16SELECT ?");
        let prepared = b"\0\x05\0\0\0\x01\0\x01\0\0\0\0";
        let parts = [&[&prepared[..], COLUMN][..], &middle, &[COLUMN], &middle];
        talk.server(1, &parts.concat());
        talk.client(0, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\x08\0");
        talk.server(
            1,
            &[&[b"\x01", COLUMN][..], &middle, &[b"\0\0\x01x", &last]].concat(),
        );
        talk.client(0, query("SELECT 7").as_bytes());
        talk.server(
            1,
            &[&[b"\x01", COLUMN][..], &middle, &[ROW, ROW, &last]].concat(),
        );
        talk.client(0, query("DO 1").as_bytes());
        talk.server(1, &[&ok(0, 2, 0)]);
    }
    talk
}

#[test]
fn a_connection_that_was_open_before_is_read_from_its_next_command_on() {
    for flag in [0, DEPRECATE_EOF, 1 << 27, DEPRECATE_EOF | 1 << 27] {
        let talk = plain(flag);
        let all = hear(&talk.said).statements;
        assert_eq!(all.len(), 8);
        // SYN, SYN, greeting, login, OK: then command and answer in turn.
        for from in 3..talk.said.len() {
            let heard = hear(&talk.said[from..]);
            assert_eq!(heard.lost, [], "from {from}");
            // From the middle of an exchange: from the next.
            let commands = talk.said[from..].iter().filter(|said| said.to_server);
            let expected = commands.count() - usize::from(from == 3);
            let known: Vec<_> = all[all.len() - expected..].to_vec();
            assert_eq!(heard.statements.len(), expected, "from {from}");
            for (heard, known) in heard.statements.iter().zip(&known) {
                let anonymous = known.replacen("me/db", "/", 1);
                let untold = anonymous.replacen("`SELECT ?`", "unknown", 1);
                assert!(
                    *heard == anonymous || *heard == untold,
                    "{heard}, not {anonymous}"
                );
            }
        }
    }
}
