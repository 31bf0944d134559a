//! Sessions that are not plain: hidden, refused, of another protocol, ended or moved by the server.

use super::super::talk::*;
use super::check;

#[test]
fn what_tls_hides_is_counted() {
    let mut talk = Talk::silent();
    talk.open();
    talk.greet(DEPRECATE_EOF | 1 << 11);
    let mut request = (0x200_u32 | 1 << 11 | 1 << 15).to_le_bytes().to_vec();
    request.extend([0; 28]);
    talk.client(1, &request);
    let record = |length: u8| [&[0x17, 3, 3, 0, length][..], &vec![9; length.into()]].concat();
    // Keys, login, three commands, the end.
    for _ in 0..5 {
        talk.say(true, &record(60));
        talk.say(true, &record(60));
        talk.say(false, &record(80));
        talk.say(false, &record(80));
    }
    talk.say(true, &record(19));
    talk.say(false, &record(19));
    let heard = hear(&talk.said);
    assert_eq!((heard.statements.len(), heard.lost), (0, vec![("tls", 3)]));
    // Open before: from the next exchange on.
    let heard = hear(&talk.said[13..]);
    assert_eq!(heard.lost, vec![("tls", 3)]);
}

#[test]
fn other_protocols_and_refused_logins_are_left_alone() {
    // MySQL's X protocol: lengths of four bytes, and a type.
    let mut x = Talk::silent();
    x.open();
    x.say(false, b"\x05\0\0\0\x0b\x08\x05\x1a\0");
    for _ in 0..100 {
        x.say(true, b"\x06\0\0\0\x11SEL 1");
        x.say(false, b"\x02\0\0\0\x0c\0");
    }
    // A refused login, and a host that is not let in.
    let mut refused = Talk::silent();
    refused.open();
    refused.greet(0);
    refused.client(1, &[0, 2, 0, 0, 0, 0, 0, 0, 0]);
    refused.server(2, &[b"\xff\x15\x04#28000Access denied"]);
    refused.close();
    let mut shut = Talk::silent();
    shut.open();
    shut.server(0, &[b"\xff\x69\x04Host is blocked"]);
    shut.close();
    for talk in [x, refused, shut] {
        check(&talk, &[]);
        let late = hear(&talk.said[2..]);
        assert_eq!((late.statements, late.lost), (vec![], vec![]));
    }
    let mut replica = Talk::logged_in(0);
    replica.client(0, b"\x15register");
    replica.server(1, &[&ok(0, 2, 0)]);
    replica.client(0, b"\x12dump");
    replica.server(1, &[b"\0event", b"\0event", b"\xff\x10\x04gone"]);
    assert_eq!(hear(&replica.said).statements.len(), 1);
}

#[test]
fn a_server_that_ends_a_session_unasked_is_understood() {
    let mut talk = Talk::logged_in(0);
    talk.query("DO 1", &[&ok(0, 2, 0)]);
    talk.server(0, &[b"\xff\x87\x07#08S01idle"]);
    talk.close();
    assert_eq!(hear(&talk.said).lost, []);
    assert_eq!(hear(&talk.said).statements.len(), 1);
    // A statement that got no answer is counted.
    let mut talk = Talk::logged_in(0);
    talk.query("DO 1", &[&ok(0, 2, 0)]);
    talk.client(0, b"\x03KILL 7");
    talk.close();
    assert_eq!(hear(&talk.said).lost, [("no_answer", 1)]);
}

#[test]
fn an_ok_that_tells_the_database_is_believed() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF | 1 << 23);
    let changed = b"\0\0\0\x02\x40\0\0\0\x07\x01\x05\x04here";
    talk.query("/* hidden */ USE here", &[changed]);
    talk.query("DO 1", &[&ok(0, 2, 0)]);
    let heard = hear(&talk.said);
    assert!(
        heard.statements[1].starts_with("3 me/here `DO 1`"),
        "{heard:?}"
    );
}

#[test]
fn times_across_a_set_clock_are_not_told() {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    for sql in ["DO 1", "DO 2", "DO 3"] {
        talk.query(sql, &[&ok(0, 2, 0)]);
    }
    // The clock was set between the second statement's command and its answer.
    let heard = hear_with(&talk.said, |flows, at| {
        flows.shared.is_clock_doubtful = at == talk.said.len() - 3;
    });
    let known: Vec<_> = heard
        .statements
        .iter()
        .map(|line| line.ends_with("us 1"))
        .collect();
    assert_eq!(known, [true, false, true]);
    assert!(heard.statements[1].ends_with("us -"));
}
