//! Segments that come twice, late, or never: nothing is made up, and what is missing is counted.

use super::super::super::frame::{End, Segment, mapped};
use super::super::talk::*;
use super::super::{CONNECTIONS_MAX, Flows, HELD_BYTES_MAX};
use super::ROW;

const STATEMENTS: usize = 40;

/// A conversation of statements of one size, each with a text of its own.
fn conversation(segment_bytes: usize) -> Talk {
    let mut talk = Talk::logged_in(DEPRECATE_EOF);
    talk.segment_bytes = segment_bytes;
    for number in 0..STATEMENTS {
        let rows = vec![ROW; number * 7];
        let last = end(2, 0);
        let answer = [&[b"\x01", COLUMN][..], &rows, &[&last]].concat();
        talk.query(&format!("SELECT {number:05} FROM t"), &answer);
    }
    talk
}

#[test]
fn segments_twice_and_out_of_order_change_nothing_but_times() {
    let without_times = |heard: Heard| -> Vec<String> {
        let lines = heard.statements.iter();
        lines
            .map(|line| line.split(" us ").next().unwrap_or_default().to_owned())
            .collect()
    };
    for seed in 1..200 {
        let mut dice = Dice(seed);
        let talk = conversation(20 + dice.below(100));
        let expected = without_times(hear(&talk.said));
        assert_eq!(expected.len(), STATEMENTS);
        // What the network may do: one direction's segments among themselves, and repeats. The
        // other side answers only what it has got.
        let mut played: Vec<Said> = Vec::new();
        let mut rest = &talk.said[..];
        while let Some(first) = rest.first() {
            let turn = rest
                .iter()
                .take_while(|said| said.to_server == first.to_server)
                .count();
            let (run, later) = rest.split_at(turn);
            let begin = played.len();
            for said in run {
                played.insert(begin + dice.below(played.len() - begin + 1), said.clone());
                if dice.below(4) == 0 {
                    let own: Vec<_> = played
                        .iter()
                        .filter(|old| old.to_server == said.to_server)
                        .collect();
                    let again = own[dice.below(own.len())].clone();
                    played.push(Said {
                        acknowledged: said.acknowledged,
                        ..again
                    });
                }
            }
            rest = later;
        }
        // The opening stays in place, or the connection is another.
        played.retain(|said| !said.payload.is_empty());
        let played = [&talk.said[..2], &played].concat();
        let heard = hear(&played);
        assert_eq!(heard.lost, [], "seed {seed}");
        assert_eq!(without_times(heard), expected, "seed {seed}");
    }
}

#[test]
fn whatever_is_missing_is_counted_and_the_rest_is_right() {
    let lost = |heard: &Heard| heard.lost.iter().map(|(_, count)| count).sum::<u64>() as usize;
    for seed in 1..400 {
        let mut dice = Dice(seed);
        let talk = conversation(30 + dice.below(200));
        let expected = hear(&talk.said).statements;
        // After the first statements and before the last ones, so that all can be known.
        let quarter = talk.said.len() / 4;
        let begin = quarter + dice.below(quarter);
        let most = [1, 3, 20, quarter][dice.below(4)];
        let length = 1 + dice.below(most);
        let kept = talk.said.iter().enumerate();
        let played: Vec<_> = kept
            .filter(|(at, _)| !(begin..begin + length).contains(at))
            .map(|(_, said)| said.clone())
            .collect();
        let heard = hear(&played);
        for line in &heard.statements {
            let text = |line: &str| line.split(" us ").next().map(str::to_owned);
            let same = expected.iter().any(|known| text(known) == text(line));
            // Bytes may be missing amid a text that is known to be cut, or of rows.
            assert!(same || line.contains("..."), "seed {seed}: {line}");
        }
        assert_eq!(
            heard.statements.len() + lost(&heard),
            STATEMENTS,
            "seed {seed}, {length} segments from {begin}: {:?}",
            heard.lost
        );
    }
}

#[test]
fn a_repeated_opening_is_the_same_connection_and_a_new_one_is_not() {
    let talk = conversation(1000);
    let mut twice = talk.said.clone();
    twice.insert(2, talk.said[0].clone());
    twice.insert(3, talk.said[1].clone());
    assert_eq!(hear(&twice).statements.len(), STATEMENTS);
    let mut again = Talk::silent();
    again.time_ns += 1;
    let mut other = conversation(1000).said;
    for said in &mut other {
        said.sequence = said.sequence.wrapping_add(99_999);
        said.acknowledged = said.acknowledged.wrapping_add(99_999);
    }
    let heard = hear(talk.said.iter().chain(&other));
    assert_eq!(
        (heard.statements.len(), heard.connections),
        (2 * STATEMENTS, 1)
    );
    assert_eq!(heard.lost, []);
}

/// Plays one connection's segments as many connections', in turn.
fn play_many(talk: &Talk, connections: u32) -> Flows {
    let mut flows = Flows::new(64 << 10);
    for said in &talk.said {
        for number in 0..connections {
            let client = End {
                address: mapped((0x0a00_0000 | number).to_be_bytes()),
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
                time_ns: said.time_ns + u64::from(number),
            };
            flows.segment(&segment, said.to_server, &mut |_| ());
            assert!(flows.count() <= CONNECTIONS_MAX);
            assert!(flows.held_bytes <= HELD_BYTES_MAX);
        }
    }
    let held = flows
        .flows
        .values()
        .map(|flow| flow.held_bytes())
        .sum::<usize>();
    assert_eq!(flows.held_bytes, held);
    flows
}

#[test]
fn memory_is_bounded_over_many_connections() {
    // More connections than are known at a time.
    let mut talk = Talk::silent();
    talk.open();
    play_many(&talk, CONNECTIONS_MAX as u32 + 3000);
    // Holes on all of them.
    let mut talk = Talk::logged_in(0);
    let whole = talk.said.len();
    talk.segment_bytes = 40_000;
    talk.client(0, &[b'x'; 100_000]);
    talk.said.remove(whole);
    play_many(&talk, 500);
    // A large statement leaves nothing behind.
    let mut talk = Talk::logged_in(0);
    talk.segment_bytes = 10_000;
    talk.query(&"x".repeat(60_000), &[&ok(0, 2, 0)]);
    for flow in play_many(&talk, 10).flows.values() {
        let kept = flow.session.client.framer.held_bytes() + flow.session.spare.capacity();
        assert!(kept <= 16 << 10, "{kept}");
        assert!(flow.session.is_confirmed);
    }
}
