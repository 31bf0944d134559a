//! Every shape of command and answer, as bytes, and what is made of it.

use super::talk::*;

mod damage;
mod packed;
mod sessions;

/// Statements as they are expected, one a line; nothing is lost.
fn check(talk: &Talk, expected: &[&str]) {
    let heard = hear(&talk.said);
    assert_eq!(heard.statements, expected);
    assert_eq!(heard.lost, []);
}

const ROW: &[u8] = b"\x01x";

#[test]
fn queries_done_failed_and_with_rows_by_either_ending() {
    for flag in [DEPRECATE_EOF, 0] {
        let mut talk = Talk::logged_in(flag);
        talk.query("INSERT 1", &[&ok(3, 0x23, 1)]);
        talk.query("SELECT a.b", &[NO_TABLE]);
        let last = if flag == 0 { eof(0x11) } else { end(0x11, 0) };
        let mut answer = vec![&b"\x01"[..], COLUMN];
        let middle = eof(2);
        if flag == 0 {
            answer.push(&middle);
        }
        answer.extend([ROW, b"\xfb", ROW, &last]);
        talk.query("SELECT c", &answer);
        // An error amid rows.
        let cut = answer.len() - 1;
        answer[cut] = NO_TABLE;
        talk.query("SELECT d", &answer);
        talk.client(0, b"\x01");
        talk.close();
        check(
            &talk,
            &[
                "3 me/db `INSERT 1` rows 0 affected 3 warnings 1 error 0 us 1 no-index open",
                "3 me/db `SELECT a.b` rows 0 affected - warnings - error 1146 us 1",
                "3 me/db `SELECT c` rows 3 affected 0 warnings 0 error 0 us 1 no-index open",
                "3 me/db `SELECT d` rows 3 affected - warnings - error 1146 us 1",
            ],
        );
        assert_eq!(hear(&talk.said).connections, 0, "closed");
    }
}

#[test]
fn commands_without_a_text() {
    let mut talk = Talk::logged_in(0);
    talk.client(0, b"\x0e");
    talk.server(1, &[&ok(0, 2, 0)]);
    talk.client(0, b"\x09");
    talk.server(1, &[b"Uptime: 5  Threads: 1"]);
    talk.client(0, b"\x1b\x01\0");
    talk.server(1, &[&eof(2)]);
    talk.client(0, b"\x04t\0");
    talk.server(1, &[COLUMN, COLUMN, &eof(2)]);
    talk.client(0, b"\x02other");
    talk.server(1, &[&ok(0, 2, 0)]);
    talk.client(0, b"\x63no command");
    talk.server(1, &[NO_TABLE]);
    talk.query("USE `my``db` ;", &[&ok(0, 2, 0)]);
    talk.query("use missing", &[NO_TABLE]);
    talk.client(0, b"\x11you\0\x03abcnext\0\x21\0plug\0");
    talk.server(1, &[b"\xfeother_plugin\0salt\0"]);
    talk.client(2, b"proof");
    talk.server(3, &[&ok(0, 2, 0)]);
    talk.query("SELECT 1", &[&ok(0, 2, 0)]);
    let tail = "rows 0 affected 0 warnings 0 error 0 us 1";
    check(
        &talk,
        &[
            &format!("14 me/db `` {tail}"),
            "9 me/db `` rows 0 affected 0 warnings - error 0 us 1",
            &format!("27 me/db `` {tail}"),
            "4 me/db `` rows 0 affected 0 warnings - error 0 us 1",
            &format!("2 me/db `` {tail}"),
            "99 me/other `` rows 0 affected - warnings - error 1146 us 1",
            &format!("3 me/other `USE `my``db` ;` {tail}"),
            "3 me/my`db `use missing` rows 0 affected - warnings - error 1146 us 1",
            "17 me/my`db `` rows 0 affected 0 warnings - error 0 us 3",
            &format!("3 you/next `SELECT 1` {tail}"),
        ],
    );
}

#[test]
fn prepared_statements_know_their_text() {
    for flag in [DEPRECATE_EOF, 0] {
        let mut talk = Talk::logged_in(flag);
        let (middle, last) = match flag {
            0 => (Some(eof(2)), eof(2)),
            _ => (None, end(2, 0)),
        };
        let middle: Vec<&[u8]> = middle.iter().map(Vec::as_slice).collect();
        talk.client(0, b"\x16SELECT ?");
        let prepared = b"\0\x05\0\0\0\x01\0\x01\0\0\0\0";
        talk.server(
            1,
            &[&[&prepared[..], COLUMN][..], &middle, &[COLUMN], &middle].concat(),
        );
        let execute = b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\x08\0";
        talk.client(0, b"\x18\x05\0\0\0\0\0long data");
        talk.client(0, execute);
        let rows = [&[b"\x01", COLUMN][..], &middle, &[b"\0\0\x01x", &last]].concat();
        talk.server(1, &rows);
        // With a cursor: rows by fetches.
        talk.client(0, execute);
        let opened = if flag == 0 { eof(0x42) } else { end(0x42, 0) };
        talk.server(1, &[b"\x01", COLUMN, &opened]);
        talk.client(0, b"\x1c\x05\0\0\0\x02\0\0\0");
        talk.server(1, &[b"\0\0\x01x", b"\0\0\x01y", &last]);
        talk.client(0, b"\x1a\x05\0\0\0");
        talk.server(1, &[&ok(0, 2, 0)]);
        // Closed: its text is not known any more.
        talk.say(
            true,
            &[packet(0, b"\x19\x05\0\0\0"), packet(0, execute)].concat(),
        );
        talk.server(1, &[NO_TABLE]);
        let tail = "affected 0 warnings 0 error 0 us 1";
        check(
            &talk,
            &[
                "22 me/db `SELECT ?` rows 0 affected 0 warnings - error 0 us 1",
                &format!("23 me/db `SELECT ?` rows 1 {tail}"),
                &format!("23 me/db `SELECT ?` rows 0 {tail}"),
                &format!("28 me/db `SELECT ?` rows 2 {tail}"),
                &format!("26 me/db `` rows 0 {tail}"),
                "23 me/db unknown rows 0 affected - warnings - error 1146 us 1",
            ],
        );
    }
}

#[test]
fn mariadb_executes_what_it_has_just_prepared_in_bulk_too() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF | 1 << 34 | 1 << 32);
    let both = [
        packet(0, b"\x16INSERT ?"),
        packet(0, b"\x17\xff\xff\xff\xff\0\x01\0\0\0"),
    ];
    talk.say(true, &both.concat());
    talk.server(1, &[b"\0\x05\0\0\0\0\0\x01\0\0\0\0", COLUMN]);
    talk.server(1, &[&ok(1, 2, 0)]);
    talk.client(0, b"\xfa\x05\0\0\0\x80\0\x08\0\0\x01");
    // Progress is no error.
    talk.server(
        1,
        &[b"\xff\xff\xff\x01\x01\x02\0\0\0\x04copy", &ok(9, 2, 0)],
    );
    check(
        &talk,
        &[
            "22 me/db `INSERT ?` rows 0 affected 0 warnings - error 0 us 1",
            "23 me/db `INSERT ?` rows 0 affected 1 warnings 0 error 0 us 1",
            "250 me/db `INSERT ?` rows 0 affected 9 warnings 0 error 0 us 1",
        ],
    );
}

#[test]
fn definitions_may_be_left_out() {
    // MySQL's optional metadata, and MariaDB's cached.
    for flag in [1 << 25, 1 << 36] {
        let mut talk = Talk::logged_in(DEPRECATE_EOF | flag);
        talk.query("SELECT 1", &[b"\x01\x01", COLUMN, ROW, &end(2, 0)]);
        talk.query("SELECT 2", &[b"\x01\0", ROW, ROW, &end(2, 0)]);
        let tail = "affected 0 warnings 0 error 0 us 1";
        check(
            &talk,
            &[
                &format!("3 me/db `SELECT 1` rows 1 {tail}"),
                &format!("3 me/db `SELECT 2` rows 2 {tail}"),
            ],
        );
    }
}

#[test]
fn query_attributes_are_not_text() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF | 1 << 27);
    talk.client(0, b"\x03\0\x01SELECT 1");
    talk.server(1, &[&ok(0, 2, 0)]);
    talk.client(
        0,
        b"\x03\x01\x01\0\x01\xfd\0\x0btraceparent\x0500-aaSELECT 2",
    );
    talk.server(1, &[&ok(0, 2, 0)]);
    let tail = "rows 0 affected 0 warnings 0 error 0 us 1";
    check(
        &talk,
        &[
            &format!("3 me/db `SELECT 1` {tail}"),
            &format!("3 me/db `SELECT 2` {tail}"),
        ],
    );
}

#[test]
fn several_statements_in_one_command_are_told_apart() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    let (more, more_rows) = (ok(1, 0x0a, 0), end(0x0a, 0));
    let set: [&[u8]; 4] = [b"\x01", COLUMN, ROW, &more_rows];
    talk.query(
        "INSERT 1; CALL p(';'); SELECT 2;",
        &[
            &[&more[..]][..],
            &set,
            &set,
            &[&more],
            &set[..3],
            &[&end(2, 0)],
        ]
        .concat(),
    );
    // The second fails, and the third is not carried out.
    talk.query("DO 1; DO a.b; DO 3", &[&more, NO_TABLE]);
    talk.query("DO a.b; DO 3", &[NO_TABLE]);
    // A procedure's results are one statement's.
    talk.query("CALL p()", &[&set[..], &set, &[&ok(7, 2, 3)]].concat());
    let tail = "warnings 0 error 0";
    check(
        &talk,
        &[
            &format!("3 me/db `INSERT 1` rows 0 affected 1 {tail} us 1"),
            &format!("3 me/db `CALL p(';')` rows 2 affected 1 {tail} us 0"),
            &format!("3 me/db `SELECT 2;` rows 1 affected 0 {tail} us 0"),
            &format!("3 me/db `DO 1` rows 0 affected 1 {tail} us 1"),
            "3 me/db `DO a.b` rows 0 affected - warnings - error 1146 us 0",
            "3 me/db `DO a.b` rows 0 affected - warnings - error 1146 us 1",
            "3 me/db `CALL p()` rows 2 affected 7 warnings 3 error 0 us 1",
        ],
    );
}

#[test]
fn statements_beyond_what_is_kept_of_a_text_are_counted() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    let (more, last) = (ok(1, 0x0a, 0), ok(1, 2, 0));
    let long = format!("DO 1; DO '{}'; DO 3; DO 4", "x".repeat(70_000));
    talk.query(&long, &[&more, &more, &more, &last]);
    talk.query(&long[6..], &[&more, &more, NO_TABLE]);
    let heard = hear(&talk.said);
    let texts: Vec<_> = heard.statements.iter().map(|line| &line[8..16]).collect();
    let expected = [
        "`DO 1` r", "`DO 'xxx", "unknown ", "unknown ", "`DO 'xxx", "unknown ", "unknown ",
    ];
    assert_eq!(texts, expected);
    assert!(heard.statements[1].contains("`... rows"));
}

#[test]
fn a_local_file_is_part_of_its_statement() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    talk.query("LOAD DATA LOCAL", &[b"\xfb/etc/file"]);
    for number in 2..=255 {
        talk.client(number, b"1\tx\n");
    }
    talk.client(0, b"\x03SELECT is data here");
    talk.client(1, b"");
    talk.server(2, &[&ok(250, 2, 0)]);
    talk.query("DO 1", &[&ok(0, 2, 0)]);
    check(
        &talk,
        &[
            "3 me/db `LOAD DATA LOCAL` rows 0 affected 250 warnings 0 error 0 us 258",
            "3 me/db `DO 1` rows 0 affected 0 warnings 0 error 0 us 1",
        ],
    );
}

#[test]
fn packets_of_16_mib_and_more() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    talk.segment_bytes = 60_000;
    let sql = [b"\x03SELECT '", &vec![b'x'; 0xff_ffff + 70][..], b"'"].concat();
    let value = vec![0xfe; (1 << 24) + 100];
    talk.client(0, &sql);
    let mut answer = packets(2, &[b"\x01", COLUMN]);
    answer.extend(packet(4, &value));
    answer.extend(packet(6, &vec![1; 0xff_ffff]));
    answer.extend(packets(8, &[ROW, &end(2, 0)]));
    talk.say(false, &answer);
    let heard = hear(&talk.said);
    assert_eq!(heard.lost, []);
    let begin = format!("3 me/db `SELECT '{}`... rows 3 affected 0", "x".repeat(32));
    assert_eq!(heard.statements.len(), 1);
    assert!(heard.statements[0].starts_with(&begin), "{heard:?}");
}

#[test]
fn pipelined_commands_wait_for_each_other() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    let sent: Vec<u8> = [&b"\x03DO 1"[..], b"\x03DO 22", b"\x0e", b"\x03DO 333"]
        .iter()
        .flat_map(|payload| packet(0, payload))
        .collect();
    talk.say(true, &sent);
    for _ in 0..4 {
        talk.server(1, &[&ok(0, 2, 0)]);
    }
    let tail = "rows 0 affected 0 warnings 0 error 0 us 1";
    check(
        &talk,
        &[
            &format!("3 me/db `DO 1` {tail}"),
            &format!("3 me/db `DO 22` {tail}"),
            &format!("14 me/db `` {tail}"),
            &format!("3 me/db `DO 333` {tail}"),
        ],
    );
}
