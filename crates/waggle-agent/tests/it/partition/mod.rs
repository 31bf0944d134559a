//! Do our digests and PERFORMANCE_SCHEMA's put the same statements together?
//!
//! Not the same ids and not the same texts: the same partition. Families of statements, which
//! differ in their literals, white space, comments and the case of keywords only, are carried out
//! on real servers; each family has to be one digest, and no two families the same, on both sides.
//! Where the two differ on purpose there is a named row in [`DIFFERENCES`], checked as well.

mod corpus;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waggle_digest::Fingerprinter;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use corpus::{DIFFERENCES, FAMILIES, SCHEMA, members};

const PATIENCE: Duration = Duration::from_secs(60);

struct Pair {
    connection: Connection,
    observer: Connection,
    /// The last event that was seen.
    event: u64,
}

impl Pair {
    /// The server's digest of `sql`, which is carried out; an error of its own does not matter.
    fn digest(&mut self, sql: &str) -> String {
        let _ = self.connection.query_rows(sql.as_bytes());
        let id = self.connection.connection_id();
        let history = format!(
            "SELECT h.event_id, h.digest FROM performance_schema.events_statements_history h \
             JOIN performance_schema.threads t USING (thread_id) WHERE t.processlist_id = {id} \
             AND h.nesting_event_level = 0 ORDER BY h.event_id DESC LIMIT 1"
        );
        let deadline = Instant::now() + PATIENCE;
        let mut before = (0, String::new());
        loop {
            let rows = (self.observer.query_rows(history.as_bytes())).expect("the history");
            let text = |at: usize| {
                let field = rows.first().and_then(|row| row[at].clone());
                String::from_utf8_lossy(&field.unwrap_or_default()).into_owned()
            };
            // An event is filed some time after its statement was answered.
            let seen = (text(0).parse().unwrap_or(0), text(1));
            // Its row is written without a lock: the number may be there before the digest that
            // replaces an older one's. What two looks agree on is whole.
            if seen.0 > self.event && seen == before {
                self.event = seen.0;
                assert!(!seen.1.is_empty(), "no digest of {sql}");
                return seen.1;
            }
            before = seen;
            assert!(Instant::now() < deadline, "no event of {sql}");
        }
    }
}

fn fingerprint(sql: &str) -> String {
    String::from_utf8_lossy(Fingerprinter::new().fingerprint(sql.as_bytes())).into_owned()
}

/// Statements by digest, as sets of their places.
fn partition(digests: &[String]) -> Vec<Vec<usize>> {
    let mut sets: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, digest) in digests.iter().enumerate() {
        sets.entry(digest).or_default().push(place);
    }
    let mut sets: Vec<_> = sets.into_values().collect();
    sets.sort();
    sets
}

fn check(flavour: Flavour) {
    let on = |name: &str| (format!("performance_schema{name}"), "ON".to_owned());
    let mut spec = SandboxSpec::new(flavour);
    spec.settings = vec![
        on(""),
        on("_consumer_events_statements_current"),
        on("_consumer_events_statements_history"),
    ];
    let sandbox = Sandbox::start(&spec).expect("a server");
    let mut pair = Pair {
        connection: Connection::connect(&sandbox.dsn()).expect("a connection"),
        observer: Connection::connect(&sandbox.dsn()).expect("a connection"),
        event: 0,
    };
    for sql in SCHEMA {
        pair.digest(sql);
    }
    let corpus: Vec<String> = FAMILIES.iter().flat_map(|family| members(family)).collect();
    assert!(corpus.len() >= 300, "{} statements", corpus.len());
    let theirs: Vec<String> = corpus.iter().map(|sql| pair.digest(sql)).collect();
    let ours: Vec<String> = corpus.iter().map(|sql| fingerprint(sql)).collect();
    let named = |sets: Vec<Vec<usize>>| -> Vec<Vec<&str>> {
        let name = |place: &usize| corpus[*place].as_str();
        sets.iter()
            .map(|set| set.iter().map(name).collect())
            .collect()
    };
    let (ours, theirs) = (named(partition(&ours)), named(partition(&theirs)));
    let only = |a: &[Vec<&str>], b: &[Vec<&str>]| -> Vec<String> {
        let missing = a.iter().filter(|set| !b.contains(set));
        missing.map(|set| format!("{set:?}")).collect()
    };
    let differences = (only(&ours, &theirs), only(&theirs, &ours));
    assert!(
        differences.0.is_empty() && differences.1.is_empty(),
        "{flavour}: only ours {:#?}\nonly theirs {:#?}",
        differences.0,
        differences.1
    );
    assert_eq!(ours.len(), FAMILIES.len());
    let mut wrong = Vec::new();
    for row in DIFFERENCES {
        let same = pair.digest(row.a) == pair.digest(row.b);
        let expected = if flavour == Flavour::MySql {
            row.mysql
        } else {
            row.mariadb
        };
        let ours = fingerprint(row.a) == fingerprint(row.b);
        if (ours, same) != (row.ours, expected) {
            wrong.push(format!("{}: ours {ours}, {flavour} {same}", row.name));
        }
        pair.digest("USE shop");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    sandbox.stop().expect("its end");
}

#[test]
fn our_digests_and_the_servers_make_one_partition() {
    let installed = installed_servers();
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        let is_here = installed.iter().any(|server| server.flavour == flavour);
        if need(flavour.name(), is_here, "no such server is installed") {
            check(flavour);
        }
    }
}
