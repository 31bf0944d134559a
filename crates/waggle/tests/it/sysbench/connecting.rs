//! How a run gets its connections, and what it says when it gets none.

use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use super::bed::{Bed, Counts, Tool, both};
use super::{Said, scripts};

/// Connects and asks.
const ONE: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event() con:query('SELECT 1') end
";

/// What each connection is.
const WHICH: &str = "
    function thread_init()
      con = sysbench.sql.driver():connect()
      local _, cipher = con:query_row(\"SHOW SESSION STATUS LIKE 'Ssl_cipher'\")
      local _, compressed = con:query_row(\"SHOW SESSION STATUS LIKE 'Compression'\")
      print(string.format('cipher=%s compression=%s ',
        cipher ~= nil and cipher ~= '' and 'some' or 'none', compressed))
      local port = con:query_row('SELECT @@port')
      print('port=' .. port .. ' ')
    end
    function event() con:query('SELECT 1') end
";

fn run(tool: Tool, line: &str) -> Said {
    let directory = scripts();
    std::fs::write(directory.path().join("one.lua"), ONE).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    tool.run(&words, directory.path())
}

/// The place, the number of the error, and all lines of the failure but the system's words.
fn failure(said: &Said) -> Vec<String> {
    let lines = said.stdout.lines().filter(|line| line.contains("FATAL: "));
    let known = lines.map(|line| match line.strip_prefix("FATAL: error ") {
        Some(rest) => {
            let (number, words) = rest.split_once(": ").expect("a number and words");
            assert!(!words.is_empty(), "{said:?}");
            format!("FATAL: error {number}")
        }
        None => line.to_owned(),
    });
    known.collect()
}

#[test]
fn a_server_that_is_not_there_is_told_as_sysbench_tells_it() {
    for (options, number) in [
        ("--mysql-socket=/no/such.sock", 2002),
        ("--mysql-host=127.0.0.1 --mysql-port=1", 2002),
        ("--mysql-host=no.such.host.invalid", 2005),
    ] {
        let line = format!("one.lua run --events=1 --threads=1 {options}");
        let ours = run(Tool::Waggle, &line);
        assert_eq!(ours.code, Some(1));
        let told = failure(&ours);
        assert_eq!(told[1], format!("FATAL: error {number}"), "{ours:?}");
        let last = [
            "FATAL: `thread_init' function failed: one.lua:2: connection creation failed",
            "FATAL: Thread initialization failed!",
        ];
        assert_eq!(told[2..], last, "{ours:?}");
        if both().is_some() {
            let theirs = run(Tool::Sysbench, &line);
            assert_eq!(
                (theirs.code, failure(&theirs)),
                (ours.code, told),
                "{options}"
            );
        }
    }
}

#[test]
fn a_database_that_is_not_there_is_told_as_sysbench_tells_it() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("one.lua", ONE);
    let line = "one.lua run --events=1 --mysql-db=nowhere";
    let ours = bed.run(Tool::Waggle, line);
    let wanted = "FATAL: error 1049: Unknown database 'nowhere'\n";
    assert!(ours.stdout.contains(wanted), "{ours:?}");
    if both().is_some() {
        let theirs = bed.run(Tool::Sysbench, line);
        let told = |said: &Said| {
            said.stdout
                .split("Initializing worker")
                .nth(1)
                .map(str::to_owned)
        };
        assert_eq!(told(&ours), told(&theirs));
        assert_eq!(ours.code, theirs.code);
    }
}

#[test]
fn a_postgresql_that_is_not_there_is_told_in_the_same_lines() {
    let line = "one.lua run --events=1 --db-driver=pgsql --pgsql-host=127.0.0.1 --pgsql-port=1";
    let ours = run(Tool::Waggle, line);
    assert_eq!(ours.code, Some(1));
    let told = failure(&ours);
    assert!(
        told[0].starts_with("FATAL: Connection to database failed: "),
        "{told:?}"
    );
    assert!(told[1].ends_with("one.lua:2: connection creation failed"));
    assert_eq!(told[2], "FATAL: Thread initialization failed!");
}

#[test]
fn tls_and_compression_are_on_when_they_are_asked_for() {
    let Some(bed) = Bed::open(Flavour::MySql, &[("skip_networking", "0")]) else {
        return;
    };
    bed.script("which.lua", WHICH);
    let port = bed.server.port().expect("it has TCP");
    let password = bed.password();
    let line = format!(
        "which.lua run --events=1 --mysql-user=root {password} --mysql-host=127.0.0.1 \
         --mysql-port={port}"
    );
    for (options, cipher, compression) in [
        ("", "none", "OFF"),
        ("--mysql-ssl=on", "some", "OFF"),
        ("--mysql-compression=on", "none", "ON"),
        ("--mysql-ssl=on --mysql-compression=on", "some", "ON"),
        ("--dialect=1.1", "none", "OFF"),
        ("--dialect=1.1 --mysql-ssl=required", "some", "OFF"),
        (
            "--dialect=1.1 --mysql-ssl=preferred --mysql-compression \
             --mysql-compression-algorithms=zstd",
            "some",
            "ON",
        ),
    ] {
        let line = format!("{line} {options}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = Tool::Waggle.run(&words, bed.directory.path());
        let wanted = format!("cipher={cipher} compression={compression} ");
        assert!(said.stdout.contains(&wanted), "{options}: {said:?}");
        assert_eq!(Counts::of(&said.stdout).events, 1);
    }
}

#[test]
fn tls_that_the_server_does_not_have_is_an_error() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("one.lua", ONE);
    let said = bed.run(Tool::Waggle, "one.lua run --events=1 --mysql-ssl=on");
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("FATAL: error 2026: TLS: "), "{said:?}");
}

#[test]
fn servers_take_turns() {
    let (Some(one), Some(two)) = (
        Bed::open(Flavour::MariaDb, &[("skip_networking", "0")]),
        Bed::open(Flavour::MariaDb, &[("skip_networking", "0")]),
    ) else {
        return;
    };
    one.script("which.lua", WHICH);
    let (first, second) = (&one.server, &two.server);
    // sysbench has one password for all servers.
    let same = format!(
        "ALTER USER root@localhost IDENTIFIED BY '{}'",
        first.password().expose()
    );
    let mut session = Connection::connect(&second.dsn_socket()).unwrap();
    session.query(same.as_bytes()).unwrap();
    let same = same.replace("localhost", "127.0.0.1");
    session.query(same.as_bytes()).unwrap();
    let password = one.password();
    let port = |server: &Sandbox| server.port().expect("it has TCP");
    let sockets = format!(
        "--mysql-socket={},{}",
        first.socket().display(),
        second.socket().display()
    );
    let ports = format!(
        "--mysql-host=127.0.0.1 --mysql-port={},{}",
        port(first),
        port(second)
    );
    let hosts = format!(
        "--mysql-host=127.0.0.1,127.0.0.2 --mysql-port={},{}",
        port(first),
        port(second)
    );
    for (options, everywhere) in [(&sockets, true), (&ports, true), (&hosts, false)] {
        let line =
            format!("which.lua run --threads=4 --events=4 --mysql-user=root {password} {options}");
        let words: Vec<&str> = line.split_whitespace().collect();
        for tool in both().map_or(vec![Tool::Waggle], |tools| tools.to_vec()) {
            let said = tool.run(&words, one.directory.path());
            if !everywhere {
                // Only one of the hosts is listened on; the other is really tried.
                let refused = "FATAL: unable to connect to MySQL server on host '127.0.0.2'";
                assert!(said.stdout.contains(refused), "{tool:?}: {said:?}");
                continue;
            }
            assert_eq!(said.code, Some(0), "{tool:?}: {said:?}");
            for server in [first, second] {
                let port = format!("port={} ", port(server));
                let seen = said.stdout.matches(&port).count();
                assert_eq!(seen, 2, "{tool:?} {options}: {said:?}");
            }
        }
    }
}

#[test]
fn a_configuration_file_stands_in_for_options() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("one.lua", ONE);
    let text = format!(
        "# a comment\nmysql-user=root\nmysql-password={}\nmysql_socket={}\nthreads=3\n\
         events=\"7\"\ntime=0\n",
        bed.server.password().expose(),
        bed.server.socket().display()
    );
    bed.script("run.cnf", &text);
    for tool in both().map_or(vec![Tool::Waggle], |tools| tools.to_vec()) {
        for (line, threads) in [
            ("--config-file=run.cnf one.lua run", 3),
            ("one.lua run --config-file=run.cnf --threads=2", 2),
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let said = tool.run(&words, bed.directory.path());
            assert_eq!(said.code, Some(0), "{tool:?}: {said:?}");
            let wanted = format!("Number of threads: {threads}\n");
            assert!(said.stdout.contains(&wanted), "{tool:?} {line}: {said:?}");
            assert_eq!(Counts::of(&said.stdout).events, 7);
        }
    }
    let lost = bed.run(
        Tool::Waggle,
        "one.lua run --config-file=no.cnf --events=1 --time=0",
    );
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert!(lost.stdout.contains("no.cnf: "), "{lost:?}");
}
