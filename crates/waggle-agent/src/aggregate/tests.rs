use super::*;
use crate::lock::{LockKind, LockObject, Party};
use crate::source::SourceKind;
use crate::statement::Work;
use crate::view::ServerView;

const CLOCKS: Clocks = Clocks {
    monotonic_ns: 1_000_000_000_000,
    realtime_ns: 1_700_000_000_000_000_000,
};

fn aggregate(settings: &Settings) -> Aggregate {
    Aggregate::new((ServerId(3), 1), settings, 7, &["ring_full"])
}

fn statement(sql: &[u8]) -> Statement<'_> {
    Statement {
        end_ns: CLOCKS.monotonic_ns,
        latency_ns: Some(50_000),
        connection_id: Some(8),
        thread: None,
        user: b"app",
        host: b"",
        database: b"shop",
        text: Text::Whole {
            sql,
            truncated: false,
        },
        command: Some(3),
        origin: None,
        times: None,
        work: Work::default(),
    }
}

fn view(aggregate: &mut Aggregate, clocks: Clocks) -> ServerView {
    let mut view = ServerView {
        id: ServerId(3),
        pid: 1,
        flavour: "mysql",
        version: "".into(),
        instance: "".into(),
        source: SourceKind::Uprobe,
        abilities: Default::default(),
        started_us: 0,
        started_ns: 0,
        ended: None,
        hits: 0,
        captured: 0,
        in_routines: 0,
        own: 0,
        lost: Vec::new(),
        degraded: Vec::new(),
        other_commands: 0,
        digests: Vec::new(),
        other: None,
        retired: None,
        load: LoadView::default(),
        waits: Vec::new(),
        waits_ended: Default::default(),
        deadlocks: Vec::new(),
        deadlock_count: 0,
        process: None,
        status: None,
    };
    aggregate.fill(&mut view, clocks);
    view
}

fn counted(view: &ServerView) -> u64 {
    let rest = [&view.other, &view.retired].into_iter().flatten();
    view.digests
        .iter()
        .chain(rest)
        .map(|d| d.latency.count())
        .sum()
}

fn observe(aggregate: &mut Aggregate, statement: Statement<'_>) {
    aggregate.observe(
        Observation::Statement(statement),
        CLOCKS,
        &mut Hearers::default(),
    );
}

#[test]
fn a_hundred_thousand_digests_stay_within_the_bound_and_every_statement_is_counted() {
    let mut aggregate = aggregate(&Settings::default());
    for n in 0..100_000 {
        let sql = format!("SELECT c{n} FROM t{n} WHERE id = 5");
        observe(&mut aggregate, statement(sql.as_bytes()));
    }
    let shown = view(&mut aggregate, CLOCKS);
    assert_eq!((shown.digests.len(), shown.captured), (2000, 100_000));
    assert_eq!(counted(&shown), 100_000);
    assert!(shown.degraded.contains(&("digests_beyond_bound", 98_000)));
    // A minute later the idle ones make room, and what is new has a digest of its own.
    let later = Clocks {
        monotonic_ns: CLOCKS.monotonic_ns + 61_000_000_000,
        ..CLOCKS
    };
    view(&mut aggregate, later);
    observe(&mut aggregate, statement(b"SELECT new FROM t"));
    let shown = view(&mut aggregate, later);
    assert_eq!(shown.digests.len(), 1);
    assert_eq!(&*shown.digests[0].fingerprint, "select new from t");
    let retired = shown.retired.as_ref().map(|r| r.latency.count());
    assert_eq!((retired, counted(&shown)), (Some(2000), 100_001));
}

#[test]
fn digests_that_are_used_are_never_retired() {
    let settings = Settings {
        digests_max: 8,
        ..Settings::default()
    };
    let mut aggregate = aggregate(&settings);
    for n in 0..8 {
        let sql = format!("SELECT c{n}");
        let mut used = statement(sql.as_bytes());
        used.end_ns += u64::from(n % 2 == 0) * 50_000_000_000;
        observe(&mut aggregate, used);
    }
    let later = Clocks {
        monotonic_ns: CLOCKS.monotonic_ns + 60_000_000_000,
        ..CLOCKS
    };
    view(&mut aggregate, later);
    let shown = view(&mut aggregate, later);
    assert_eq!((shown.digests.len(), counted(&shown)), (4, 8));
}

#[test]
fn bytes_that_are_no_text_and_names_that_are_no_utf8_are_counted_and_printable() {
    let mut aggregate = aggregate(&Settings::default());
    let mut binary = statement(b"\xff\xfe\x00\x1b[2Jselect \x80\x81 'a\xffb'");
    binary.user = b"\xc3\x28";
    binary.database = b"\x00\x07";
    observe(&mut aggregate, binary);
    observe(&mut aggregate, statement(b""));
    let shown = view(&mut aggregate, CLOCKS);
    assert_eq!((shown.digests.len(), counted(&shown)), (2, 2));
    for digest in &shown.digests {
        let texts = [&digest.fingerprint, &digest.database, &digest.user];
        assert!(
            texts.iter().all(|t| !t.chars().any(char::is_control)),
            "{digest:?}"
        );
    }
    assert!(shown.digests.iter().any(|d| &*d.fingerprint == "(no text)"));
}

#[test]
fn the_agents_own_statements_are_counted_apart() {
    let mut aggregate = aggregate(&Settings::default());
    let sessions = Arc::new(OwnSessions::default());
    aggregate.set_own(Arc::clone(&sessions));
    let asker = sessions.asker();
    sessions.note(asker, 8);
    observe(&mut aggregate, statement(b"/* waggle */ SELECT 1"));
    // A stranger with the same number, where the DSN is of another server.
    observe(&mut aggregate, statement(b"SELECT 1"));
    let mut other = statement(b"/* waggle */ SELECT 1");
    other.connection_id = Some(9);
    observe(&mut aggregate, other);
    let shown = view(&mut aggregate, CLOCKS);
    assert_eq!((shown.own, shown.captured, counted(&shown)), (1, 2, 2));
}

#[test]
fn commands_that_are_no_statements_are_not_captured() {
    let mut aggregate = aggregate(&Settings::default());
    for command in [1, 9, 14, 22, 24, 25, 26, 3, 23] {
        let mut other = statement(b"SELECT 1");
        other.command = Some(command);
        observe(&mut aggregate, other);
    }
    assert_eq!((aggregate.captured(), aggregate.other_commands()), (2, 7));
}

/// Everything that leaves the aggregate, as text.
fn everything(aggregate: &mut Aggregate) -> String {
    let samples = aggregate.take_samples();
    format!("{:?}{samples:?}", view(aggregate, CLOCKS))
}

#[test]
fn no_secret_leaves_even_with_literals_and_no_literal_without() {
    let secrets: &[(&str, u32)] = &[
        ("CREATE USER 'a' IDENTIFIED BY 'hunter2'", 0),
        ("CREATE USER a IDENTIFIED BY hunter2", 1064),
        ("create user a identified by 'hunter2", 1064),
        (r"ALTER USER 'a\' IDENTIFIED BY 'hunter2'", 0),
        ("SET PASSWORD FOR a = PASSWORD('hunter2')", 0),
        ("SET PASSWORD = hunter2", 1064),
        ("CHANGE MASTER TO MASTER_PASSWORD='hunter2'", 0),
        ("CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD=hunter2", 1064),
        ("/* x */ GRANT ALL ON *.* TO a IDENTIFIED BY 'hunter2'", 0),
        (
            "PREPARE s FROM 'CREATE USER a IDENTIFIED BY \"hunter2\"'",
            0,
        ),
        ("SELECT 1; SET PASSWORD = 'hunter2'", 0),
    ];
    for literals in [false, true] {
        let mut settings = Settings::default();
        settings.samples.one_in = 1;
        settings.samples.literals = literals;
        let mut aggregate = aggregate(&settings);
        for (sql, error) in secrets {
            let mut secret = statement(sql.as_bytes());
            secret.work.error = Some(*error);
            observe(&mut aggregate, secret);
        }
        let text = everything(&mut aggregate);
        assert!(!text.contains("hunter2"), "literals {literals}: {text}");
        observe(&mut aggregate, statement(b"SELECT 'ordinary literal'"));
        let text = everything(&mut aggregate);
        assert_eq!(text.contains("ordinary literal"), literals, "{text}");
    }
}

struct Collected(Vec<(String, bool)>);

impl Tap for Collected {
    fn statement(&mut self, seen: &Seen<'_>) {
        self.0.push((seen.text.to_string(), seen.redacted));
    }
}

#[test]
fn a_tap_sees_every_statement_also_beyond_the_bound_and_no_secret() {
    let settings = Settings {
        digests_max: 1,
        ..Settings::default()
    };
    let mut aggregate = aggregate(&settings);
    let mut tap = Collected(Vec::new());
    for sql in ["SELECT 5", "SELECT a", "SET PASSWORD = 'hunter2'"] {
        let seen = Observation::Statement(statement(sql.as_bytes()));
        aggregate.observe(
            seen,
            CLOCKS,
            &mut Hearers {
                tap: Some(&mut tap),
                ..Hearers::default()
            },
        );
    }
    let expected = [
        ("SELECT 5".to_owned(), false),
        ("SELECT a".to_owned(), false),
        ("set password (hidden)".to_owned(), true),
    ];
    assert_eq!(tap.0, expected);
}

#[test]
fn samples_are_slow_failed_or_random_and_bounded() {
    let mut settings = Settings::default();
    settings.samples.one_in = 10;
    settings.samples.slower = Some(std::time::Duration::from_millis(1));
    let mut aggregate = aggregate(&settings);
    for n in 0..100_000u32 {
        let mut one = statement(b"SELECT 1");
        one.latency_ns = Some(if n % 1000 == 0 { 2_000_000 } else { 1000 });
        one.work.error = Some(u32::from(n % 2000 == 1));
        observe(&mut aggregate, one);
    }
    let samples = aggregate.take_samples();
    let count = |reason| samples.iter().filter(|s| s.reason == reason).count();
    use crate::sample::Reason;
    assert_eq!((count(Reason::Slow), count(Reason::Failed)), (100, 50));
    assert_eq!(count(Reason::Random), 256);
    assert!(samples.is_sorted_by_key(|s| s.sequence));
    // One in ten of a hundred thousand, give or take; those beyond the bound are counted.
    let dropped = view(&mut aggregate, CLOCKS)
        .degraded
        .iter()
        .find(|(cause, _)| *cause == "samples_dropped")
        .map_or(0, |(_, count)| *count);
    assert!((9_000..11_000).contains(&(dropped + 256)), "{dropped}");
    assert!(aggregate.take_samples().is_empty());
}

#[test]
fn what_is_shed_is_marked_and_count_and_time_stay() {
    let mut aggregate = aggregate(&Settings::default());
    observe(&mut aggregate, statement(b"SELECT 1"));
    aggregate.shed_text(true);
    aggregate.shed_samples(true);
    let mut failed = statement(b"SELECT nothing");
    failed.work.error = Some(1054);
    observe(&mut aggregate, failed);
    assert!(aggregate.take_samples().is_empty());
    let shown = view(&mut aggregate, CLOCKS);
    assert!(shown.degraded.contains(&("text_shed", 1)));
    assert!(
        shown
            .digests
            .iter()
            .any(|d| &*d.fingerprint == "(text shed)")
    );
    assert_eq!(counted(&shown), 2);
    assert!((shown.load.all.total_s() - 100e-6).abs() < 1e-12);
    aggregate.shed_text(false);
    observe(&mut aggregate, statement(b"SELECT 1"));
    assert_eq!(counted(&view(&mut aggregate, CLOCKS)), 3);
}

#[test]
fn losses_waits_and_sums_are_kept_apart_by_cause_and_kind() {
    let mut aggregate = aggregate(&Settings::default());
    let mut take = |observation| aggregate.observe(observation, CLOCKS, &mut Hearers::default());
    take(Observation::Lost {
        cause: "tls",
        count: 4,
    });
    take(Observation::Hits(9));
    let wait = LockWait {
        id: 1,
        kind: LockKind::Metadata,
        waiter: Party::default(),
        blocker: Party::default(),
        object: LockObject::default(),
        since_us: 0,
        waited_us: 700,
        ended: true,
    };
    take(Observation::LockWait(wait.clone()));
    take(Observation::LockWait(LockWait {
        ended: false,
        ..wait
    }));
    take(Observation::Summed(Summed {
        statement: statement(b"SELECT 1"),
        count: 5,
        errors: 2,
        latency_ns: 1_000_000,
        bars: vec![(300_000, 5)],
        max_ns: 300_000,
        cpu_ns: Some(400_000),
        lock_ns: None,
        rows: [Some(5), None, None],
        warnings: Some(3),
        tmp_tables: Some((4, 1)),
        full_scans: None,
    }));
    assert_eq!(aggregate.take_waits().len(), 1);
    let shown = view(&mut aggregate, CLOCKS);
    assert_eq!(shown.lost, [("ring_full", 0), ("tls", 4)]);
    assert_eq!(shown.waits_ended, [(0, 0), (1, 700), (0, 0)]);
    assert_eq!((shown.hits, shown.captured, counted(&shown)), (9, 5, 5));
    let digest = &shown.digests[0];
    assert_eq!((digest.errors, digest.rows_sent), (2, Some(5)));
    assert_eq!(
        (digest.warnings, digest.tmp_tables),
        (Some(3), Some((4, 1)))
    );
    assert_eq!(digest.full_scans, None);
    assert!((digest.time.cpu_s - 400e-6).abs() < 1e-12);
    assert!((digest.time.unclassified_s - 600e-6).abs() < 1e-12);
}
