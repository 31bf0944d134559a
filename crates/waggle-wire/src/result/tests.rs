use super::*;
use crate::packet::tests::{Script, framed, reading};
use crate::rows::tests::definition;
use proptest::prelude::*;

const END_MORE: &[u8] = b"\xfe\0\0\x08\0\x02\0";
const END_LAST: &[u8] = b"\xfe\0\0\x02\0\x01\0";

fn terms(deprecates_eof: bool) -> Terms {
    Terms {
        deprecates_eof,
        may_omit_columns: false,
        in_transaction: false,
    }
}

fn drain(channel: &mut Channel<Script>, deprecates_eof: bool) -> Result<Summary, Error> {
    read(channel, &mut terms(deprecates_eof), None, Rows::Skip)
}

fn collect(
    channel: &mut Channel<Script>,
    deprecates_eof: bool,
    encoding: Encoding,
) -> Result<Vec<Row>, Error> {
    let mut kept = Kept::new(encoding);
    let rows = Rows::First(&mut kept);
    read(channel, &mut terms(deprecates_eof), None, rows).map(|_| kept.rows)
}

fn answer(packets: &[&[u8]]) -> Channel<Script> {
    let mut sequence = 0;
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.extend(framed(packet, &mut sequence));
    }
    let mut channel = reading(bytes, 1000);
    channel.logged_in();
    channel
}

#[test]
fn counts_all_results_of_a_multi_statement() {
    let column = definition("a", 3, 0, 0);
    let packets: [&[u8]; 9] = [
        b"\x01",
        &column,
        b"\x011",
        b"\x012",
        END_MORE,
        b"\0\x03\x09\x0a\0\x01\0", // 3 affected, id 9, more, 1 warning
        b"\x01",
        &column,
        END_LAST,
    ];
    let summary = drain(&mut answer(&packets), true).unwrap();
    let expected = Summary {
        results: 3,
        result_sets: 2,
        rows: 2,
        affected: 3,
        last_insert_id: 9,
        warnings: 4,
    };
    assert_eq!(summary, expected);
    let rows = collect(&mut answer(&packets), true, Encoding::Text).unwrap();
    assert_eq!(rows, [[Some(b"1".to_vec())], [Some(b"2".to_vec())]]);
}

#[test]
fn columns_that_were_left_out_are_the_prepared_ones() {
    let terms = Terms {
        may_omit_columns: true,
        ..terms(true)
    };
    let small = Column::parse(&definition("a", 1, 0, 0)).unwrap();
    let wide = definition("a", 2, 0, 0);
    let without: [&[u8]; 3] = [b"\x01\0", b"\0\0\x05", END_LAST];
    let with: [&[u8]; 4] = [b"\x01\x01", &wide, b"\0\0\x05\x01", END_LAST];
    let mut columns = vec![small];
    let mut execute = |packets: &[&[u8]], skips: bool| {
        let mut kept = Kept::new(Encoding::Binary);
        let rows = match skips {
            true => Rows::Skip,
            false => Rows::First(&mut kept),
        };
        let mut terms = terms;
        read(&mut answer(packets), &mut terms, Some(&mut columns), rows)?;
        Ok::<_, Error>(kept.rows)
    };
    assert_eq!(execute(&without, false).unwrap(), [[Some(b"5".to_vec())]]);
    assert_eq!(execute(&with, false).unwrap(), [[Some(b"261".to_vec())]]);
    // Skipping an execution keeps what it says about the columns.
    columns = vec![small];
    let mut execute = |packets: &[&[u8]], rows: Rows<'_>| {
        let mut terms = terms;
        read(&mut answer(packets), &mut terms, Some(&mut columns), rows).map(|_| ())
    };
    execute(&with, Rows::Skip).unwrap();
    let mut kept = Kept::new(Encoding::Binary);
    let later: [&[u8]; 3] = [b"\x01\0", b"\0\0\x05\x01", END_LAST];
    execute(&later, Rows::First(&mut kept)).unwrap();
    assert_eq!(kept.rows, [[Some(b"261".to_vec())]]);
    // Never seen: refused, and the answer is consumed.
    columns.clear();
    let mut channel = answer(&without);
    let mut kept = Kept::new(Encoding::Binary);
    let rows = Rows::First(&mut kept);
    kept_is_refused(read(&mut channel, &mut { terms }, Some(&mut columns), rows));
    assert!(
        matches!(channel.packet(), Err(Error::Io(_))),
        "all was read"
    );
}

fn kept_is_refused(outcome: Result<Summary, Error>) {
    assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
}

#[test]
fn reads_the_older_form_with_eof_packets() {
    let column = definition("a", 3, 0, 0);
    let packets: [&[u8]; 5] = [
        b"\x01",
        &column,
        b"\xfe\0\0\x02\0",
        b"\x0217",
        b"\xfe\x01\0\x02\0",
    ];
    let summary = drain(&mut answer(&packets), false).unwrap();
    assert_eq!((summary.rows, summary.warnings), (1, 1));
}

#[test]
fn keeps_binary_rows() {
    let column = definition("a", 1, 0, 0);
    let packets: [&[u8]; 4] = [b"\x01", &column, b"\0\0\x05", END_LAST];
    let rows = collect(&mut answer(&packets), true, Encoding::Binary).unwrap();
    assert_eq!(rows, [[Some(b"5".to_vec())]]);
}

#[test]
fn an_error_may_come_after_rows() {
    let column = definition("a", 3, 0, 0);
    let error: &[u8] = b"\xff\x25\x05#70100Query execution was interrupted";
    for packets in [
        &[&b"\x01"[..], &column, b"\x011", error][..],
        &[b"\x01", error],
        &[b"\x01", &column, END_MORE, error],
    ] {
        let drained = drain(&mut answer(packets), true).unwrap_err();
        assert_eq!(drained.errno(), Some(1317));
        let collected = collect(&mut answer(packets), true, Encoding::Binary);
        assert!(collected.is_err());
    }
}

#[test]
fn a_request_for_a_file_is_refused() {
    let mut channel = answer(&[b"\xfb/etc/passwd", b"\0\0\0\x02\0\0\0"]);
    // The server's second packet answers ours: sequence 2.
    let second = 4 + b"\xfb/etc/passwd".len();
    channel.transport.incoming[second + 3] = 2;
    let error = drain(&mut channel, true).unwrap_err();
    assert!(error.to_string().contains("LOAD DATA LOCAL"), "{error}");
    assert_eq!(channel.transport.writes, [b"\0\0\0\x01"]);
}

/// An answer whose packets after the first follow `ours` packets of this side.
fn uploading(packets: &[&[u8]], ours: u8) -> Channel<Script> {
    let mut channel = answer(packets);
    let mut at = 4 + packets[0].len();
    for (i, packet) in packets[1..].iter().enumerate() {
        channel.transport.incoming[at + 3] = 2 + i as u8 + ours - 1;
        at += 4 + packet.len();
    }
    channel
}

/// What `load` gives for these packets of the server, with two fills of three rows in all.
fn loaded(channel: &mut Channel<Script>) -> Result<Summary, Error> {
    let mut terms = Terms {
        deprecates_eof: true,
        may_omit_columns: false,
        in_transaction: false,
    };
    let mut fills = [(&b"1\n2\n"[..], 2), (b"3\n", 1)].into_iter();
    load(channel, &mut terms, &mut |buffer| {
        let (bytes, rows) = fills.next().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        rows
    })
}

#[test]
fn rows_are_sent_to_a_server_that_asks_for_them() {
    let mut channel = uploading(&[b"\xfbrows", b"\0\x03\0\x02\0\0\0"], 3);
    assert_eq!(loaded(&mut channel).unwrap().affected, 3);
    let sent: [&[u8]; 3] = [b"\x04\0\0\x011\n2\n", b"\x02\0\0\x023\n", b"\0\0\0\x03"];
    assert_eq!(channel.transport.writes, sent);
}

#[test]
fn rows_that_the_server_left_out_or_cut_are_an_error() {
    for (ok, stored, warnings) in [
        (b"\0\x02\0\x02\0\x01\0", 2, 1),
        (b"\0\x03\0\x02\0\x07\0", 3, 7),
    ] {
        let error = loaded(&mut uploading(&[b"\xfbrows", ok], 3)).unwrap_err();
        let counts = format!("3 rows were sent, the server stored {stored} and gave {warnings}");
        assert!(error.to_string().contains(&counts), "{error}");
    }
}

#[test]
fn a_server_that_fails_the_rows_is_heard_after_them() {
    let error = b"\xff\x6a\x04#HY000table full";
    let mut channel = uploading(&[b"\xfbrows", error], 3);
    assert_eq!(loaded(&mut channel).unwrap_err().errno(), Some(1130));
    assert_eq!(
        channel.transport.writes.len(),
        3,
        "the rows came to their end"
    );
    // Refused at once: nothing is sent.
    let mut channel = answer(&[b"\xff\x6c\x0f#42000Loading local data is disabled"]);
    assert_eq!(loaded(&mut channel).unwrap_err().errno(), Some(3948));
    assert!(channel.transport.writes.is_empty());
    let mut channel = answer(&[b"\0\0\0\x02\0\0\0"]);
    assert!(matches!(loaded(&mut channel), Err(Error::Unsupported(_))));
}

#[test]
fn rows_go_to_one_request_only() {
    let more = b"\0\x03\0\x0a\0\0\0";
    let mut channel = uploading(&[b"\xfbrows", more, b"\xfb/etc/passwd"], 3);
    let last = framed(b"\0\0\0\x02\0\0\0", &mut 7);
    channel.transport.incoming.extend(last);
    kept_is_refused(loaded(&mut channel));
    assert_eq!(channel.transport.writes.len(), 4);
    assert_eq!(channel.transport.writes[3][..3], [0, 0, 0]);
}

#[test]
fn a_large_fill_leaves_in_bounded_packets() {
    let mut channel = uploading(&[b"\xfbrows", b"\0\x01\0\x02\0\0\0"], 4);
    let rows = vec![b'x'; 2 * UPLOAD_BYTES_MAX + 5];
    let mut terms = Terms {
        deprecates_eof: true,
        may_omit_columns: false,
        in_transaction: false,
    };
    let mut left = Some(&rows);
    load(&mut channel, &mut terms, &mut |buffer| {
        left.take().map_or(0, |rows| {
            buffer.extend_from_slice(rows);
            1
        })
    })
    .unwrap();
    let lengths: Vec<usize> = channel.transport.writes.iter().map(Vec::len).collect();
    assert_eq!(lengths, [UPLOAD_BYTES_MAX + 4, UPLOAD_BYTES_MAX + 4, 9, 4]);
}

proptest! {
    #[test]
    fn any_packets_are_answered(
        packets in proptest::collection::vec(
            (prop_oneof![Just(0u8), Just(1), Just(0xfb), Just(0xfe), Just(0xff), any::<u8>()],
             proptest::collection::vec(any::<u8>(), 0..20)), 0..12),
        columns in 0u8..4, deprecates_eof in any::<bool>(), is_text in any::<bool>(),
    ) {
        let packets: Vec<Vec<u8>> =
            packets.into_iter().map(|(first, rest)| [&[first], &rest[..]].concat()).collect();
        let first = [columns];
        let mut script = vec![&first[..]];
        script.extend(packets.iter().map(Vec::as_slice));
        let _ = drain(&mut answer(&script), deprecates_eof);
        let encoding = if is_text { Encoding::Text } else { Encoding::Binary };
        let _ = collect(&mut answer(&script), deprecates_eof, encoding);
    }
}
