//! Logs of several servers, whole, in pieces and damaged.

use super::*;

const MYSQL: &str = "\
/usr/sbin/mysqld, Version: 9.7.4 (MySQL Community Server). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time                 Id Command    Argument
# Time: 2026-11-21T15:14:37.000001Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    18
# Query_time: 1.500000  Lock_time: 0.000004 Rows_sent: 2  Rows_examined: 10 Thread_id: 18 \
Errno: 1062 Killed: 0 Bytes_received: 70 Bytes_sent: 57 Read_first: 1 Created_tmp_disk_tables: 1 \
Created_tmp_tables: 3 Start: 2026-11-21T15:14:35.500001Z End: 2026-11-21T15:14:37.000001Z
use shop;
SET timestamp=1795274075;
select a
# not a header;
from t;
# Time: 2026-11-21T15:14:38.000001Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    18
# Query_time: 0.000010  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1795274078;
# administrator command: Quit;
# Time: 2026-11-21T15:14:39.000001Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    19
# Query_time: 0.000010  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1795274079;
use other;
";

const MARIADB: &str = "\
# Time: 261121 15:14:37
# User@Host: root[root] @ localhost []
# Thread_id: 5  Schema: my shop  QC_hit: No
# Query_time: 0.000123  Lock_time: 0.000001  Rows_sent: 1  Rows_examined: 7
# Rows_affected: 3  Bytes_sent: 57
# Tmp_tables: 2  Tmp_disk_tables: 1  Tmp_table_sizes: 0
# Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: No
# Filesort: No  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: No
#
# explain: id select_type
SET timestamp=1795274077;
SET timestamp=5;
# User@Host: root[root] @ localhost []
# Thread_id: 6  Schema:   QC_hit: No
# Query_time: 2.000000  Lock_time: 0.000001  Rows_sent: 1  Rows_examined: 7
SET last_insert_id=7,insert_id=8,timestamp=1795274078;
select 1;
";

const PERCONA: &str = "\
# Time: 2026-11-21T15:14:37.000001Z
# User@Host: root[root] @ localhost []  Id:     9
# Schema: test  Last_errno: 1205  Killed: 0
# Query_time: 0.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 0  Rows_affected: 4
# Bytes_sent: 57  Tmp_tables: 1  Tmp_disk_tables: 0  Tmp_table_sizes: 0
# InnoDB_trx_id: 0
# Full_scan: No  Full_join: Yes  Tmp_table: No  Tmp_table_on_disk: No
#   InnoDB_IO_r_ops: 0  InnoDB_IO_r_bytes: 0  InnoDB_IO_r_wait: 0.000000
# Log_slow_rate_type: query  Log_slow_rate_limit: 1
SET timestamp=1795274077;
delete from t;
";

fn parse(text: &[u8], piece: usize) -> Vec<Entry> {
    let mut parser = Parser::default();
    let mut entries = Vec::new();
    let mut each = |entry: &Entry| entries.push(entry.clone());
    for bytes in text.chunks(piece) {
        parser.feed(bytes, &mut each);
    }
    parser.finish(&mut each);
    entries
}

fn texts(entries: &[Entry]) -> Vec<String> {
    let text = |entry: &Entry| String::from_utf8_lossy(entry.text()).into_owned();
    entries.iter().map(text).collect()
}

#[test]
fn mysql_with_extra_fields() {
    let entries = parse(MYSQL.as_bytes(), 4096);
    let expected = [
        "select a\n# not a header;\nfrom t",
        "administrator command: Quit",
        "use other",
    ];
    assert_eq!(texts(&entries), expected);
    let first = &entries[0];
    assert_eq!((&*first.user, &*first.host), (&b"app"[..], &b"web1"[..]));
    assert_eq!(
        (&*first.database, first.connection_id),
        (&b"shop"[..], Some(18))
    );
    assert_eq!(
        (first.query_ns, first.lock_ns),
        (Some(1_500_000_000), Some(4000))
    );
    assert_eq!(
        (first.rows_sent, first.rows_examined, first.error),
        (Some(2), Some(10), Some(1062))
    );
    assert_eq!(
        (first.tmp_tables, first.tmp_disk_tables),
        (Some(3), Some(1))
    );
    assert_eq!(
        (first.bytes_received, first.bytes_sent),
        (Some(70), Some(57))
    );
    assert_eq!(first.end_ns(), Some(1_795_274_077_000_001_000));
    assert_eq!((entries[1].command(), first.command()), (Some(1), None));
    assert_eq!(
        (&*entries[2].database, entries[2].error),
        (&b"shop"[..], None)
    );
}

#[test]
fn mariadb_with_its_verbosity() {
    let entries = parse(MARIADB.as_bytes(), 4096);
    assert_eq!(texts(&entries), ["SET timestamp=5", "select 1"]);
    let first = &entries[0];
    assert_eq!(
        (&*first.database, first.connection_id),
        (&b"my shop"[..], Some(5))
    );
    assert_eq!((first.rows_affected, first.tmp_tables), (Some(3), Some(2)));
    assert_eq!((first.full_scan, first.full_join), (Some(1), Some(0)));
    // Its own time is in a time zone nobody knows; that of the start is not.
    assert_eq!(first.end_ns(), Some(1_795_274_077_000_123_000));
    assert_eq!(
        (&*entries[1].database, entries[1].full_scan),
        (&b""[..], None)
    );
    assert_eq!(entries[1].end_ns(), Some(1_795_274_080_000_000_000));
}

#[test]
fn perconas_extended_form() {
    let entries = parse(PERCONA.as_bytes(), 4096);
    assert_eq!(texts(&entries), ["delete from t"]);
    let first = &entries[0];
    assert_eq!((&*first.database, first.error), (&b"test"[..], Some(1205)));
    assert_eq!((first.rows_affected, first.full_join), (Some(4), Some(1)));
}

#[test]
fn the_same_in_pieces_of_any_size() {
    let all = [MYSQL, MARIADB, PERCONA].concat();
    let whole = parse(all.as_bytes(), usize::MAX);
    assert_eq!(whole.len(), 6);
    for piece in [1, 2, 3, 7, 64, 1000] {
        assert_eq!(parse(all.as_bytes(), piece), whole, "{piece}");
    }
}

#[test]
fn half_an_entry_waits_for_the_rest() {
    let first_end = MARIADB.find("=5;\n").unwrap() + 4;
    let next_header_end = first_end + MARIADB[first_end..].find('\n').unwrap() + 1;
    for end in 0..MARIADB.len() {
        let expected = usize::from(end == first_end || end >= next_header_end);
        assert_eq!(
            parse(&MARIADB.as_bytes()[..end], 4096).len(),
            expected,
            "{end}"
        );
    }
    assert_eq!(
        parse(&MARIADB.as_bytes()[100..], 4096).len(),
        1,
        "the first has no beginning"
    );
}

#[test]
fn a_text_of_any_bytes_and_length() {
    let head = "# User@Host: a[a] @ b []\n# Query_time: 1  Lock_time: 0\nSET timestamp=5;\n";
    let entry = |text: &[u8]| [head.as_bytes(), text, b";\n"].concat();
    let binary = b"insert into t values ('\xff\0;\n#;\x80')";
    let long = [b"select '".to_vec(), vec![b'x'; 5 << 20], b"'".to_vec()].concat();
    let exact = vec![b'y'; super::super::entry::TEXT_BYTES_MAX];
    let log = [entry(binary), entry(&long), entry(&exact), entry(b"do 1")].concat();
    let entries = parse(&log, 64 << 10);
    assert_eq!(entries.len(), 4);
    assert_eq!(
        (entries[0].text(), entries[0].is_truncated),
        (&binary[..], false)
    );
    assert_eq!(entries[1].text().len(), super::super::entry::TEXT_BYTES_MAX);
    assert!(entries[1].is_truncated && !entries[2].is_truncated);
    assert_eq!(
        (entries[2].text(), entries[3].text()),
        (&exact[..], &b"do 1"[..])
    );
}

/// Damage of any kind: nothing panics, nothing grows without bound, and what stands behind the
/// damage is understood again.
#[test]
fn damaged_logs_are_survived() {
    let mut random = crate::mutation::Random::new(0x0510_4106);
    for round in 0..6000 {
        let part = [MYSQL, MARIADB, PERCONA][round % 3];
        let mut bytes = part.as_bytes().to_vec();
        random.mutate(&mut bytes);
        bytes.extend_from_slice(b";\n");
        bytes.extend_from_slice(PERCONA.as_bytes());
        let entries = parse(&bytes, 1 + random.below(300));
        assert!(entries.len() <= 6, "{}", entries.len());
        let last = entries.last().map(Entry::text);
        assert_eq!(
            last,
            Some(&b"delete from t"[..]),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
    }
}
