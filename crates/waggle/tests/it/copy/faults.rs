//! What goes wrong around a copy: a clear error or a correct continuation, never a wrong table.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use waggle_need::{is_root, need};
use waggle_server::Flavour;
use waggle_server::cpu::process_rss_bytes_peak;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use super::core::fill;
use super::{PATIENCE, Running, Stage, flavours};

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A small file system in memory; gone when dropped.
struct SmallDisk {
    /// Whose view of the file systems has it; this process' own without.
    server: Option<u32>,
    path: PathBuf,
}

impl SmallDisk {
    fn mount(server: Option<u32>, path: &Path, mib: u32) -> SmallDisk {
        let disk = SmallDisk {
            server,
            path: path.to_owned(),
        };
        let options = format!("size={mib}m,mode=0777");
        disk.run(&["mount", "-t", "tmpfs", "-o", &options, "waggle-test"]);
        disk
    }

    fn grow(&self, mib: u32) {
        self.run(&["mount", "-o", &format!("remount,size={mib}m")]);
    }

    fn run(&self, words: &[&str]) {
        let status = self.command(words).status().unwrap();
        assert!(status.success(), "{words:?} {}", self.path.display());
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = match self.server {
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.args(["-t", &pid.to_string(), "-m", words[0]]);
                command
            }
            None => Command::new(words[0]),
        };
        command.args(&words[1..]).arg(&self.path);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.command(&["umount", "-l"]).status();
    }
}

#[test]
fn a_full_disk_at_the_target_ends_the_copy_which_goes_on_with_room() {
    if !need("root", is_root(), "a small disk has to be mounted") {
        return;
    }
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 60_000);
        // Where the server sees it, which may be inside of a root of its own.
        let seen = stage.server.datadir().join("b");
        let seen = stage.server.path_in_server(&seen).unwrap();
        let root = stage.server.program().root.clone();
        let database = match root {
            Some(root) => root.join(seen.strip_prefix("/").unwrap()),
            None => seen,
        };
        let disk = SmallDisk::mount(Some(stage.server.pid()), &database, 8);
        let args = ["--until", "caught-up", "--slice", "1", "--ranges", "1"];
        let full = stage.copy(&args);
        assert_eq!(full.status.code(), Some(1), "{flavour}: {}", words(&full));
        assert!(
            words(&full).contains("make room"),
            "{flavour}: {}",
            words(&full)
        );
        let kept: u64 = stage
            .value("SELECT SUM(rows_copied) FROM waggle_copy.ranges")
            .map_or(0, |rows| rows.parse().unwrap());
        assert_eq!(
            stage.value("SELECT COUNT(*) FROM b.t").unwrap(),
            kept.to_string()
        );
        disk.grow(256);
        stage.run(&["UPDATE a.t SET k = k + 1 WHERE id < 3000"]);
        assert_eq!(stage.copied(&args)["rows"], 60_000);
        stage.assert_equal("a.t", "b.t");
        // Closed before its files are gone.
        stage.run(&["DROP TABLE b.t"]);
    }
}

#[test]
fn a_full_disk_for_the_spool_ends_the_copy_which_goes_on_with_room() {
    if !need("root", is_root(), "a small disk has to be mounted") {
        return;
    }
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)",
            "INSERT INTO a.t VALUES (1, 'x')",
        ]);
        let path = stage.directory.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let _disk = SmallDisk::mount(None, &path, 4);
        let spool = ["--spool", "disk/spool", "--spool-max", "1"];
        let mut copier = stage.begin(&[&["--until", "stopped"], &spool[..]].concat());
        stage.wait("SELECT v FROM b.t", |v| v == "x");
        let filler = path.join("filler");
        let _ = std::fs::write(&filler, vec![1; 8 << 20]);
        stage.run(&["INSERT INTO a.t (v) SELECT REPEAT('y', 900000) FROM a.t"]);
        let deadline = Instant::now() + PATIENCE;
        while !copier.is_over() {
            assert!(Instant::now() < deadline, "{flavour}: it goes on");
            stage.run(&["INSERT INTO a.t (v) VALUES (REPEAT('z', 300000))"]);
        }
        let output = copier.end();
        assert_eq!(
            output.status.code(),
            Some(1),
            "{flavour}: {}",
            words(&output)
        );
        assert!(
            words(&output).contains("free some space"),
            "{flavour}: {}",
            words(&output)
        );
        std::fs::remove_file(filler).unwrap();
        // One transaction is larger than the spool was allowed to be.
        let roomy = ["--spool", "disk/spool", "--spool-max", "2"];
        stage.copied(&[&["--until", "caught-up"], &roomy[..]].concat());
        stage.assert_equal("a.t", "b.t");
    }
}

/// Ends every session of the server but one.
fn end_sessions(connection: &mut Connection) {
    let own = connection.connection_id();
    let sessions = connection
        .query_rows(b"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root'")
        .unwrap();
    for row in sessions {
        let id = String::from_utf8(row[0].clone().unwrap()).unwrap();
        if id != own.to_string() {
            // It may have ended by itself.
            let _ = connection.query(format!("KILL {id}").as_bytes());
        }
    }
}

#[test]
fn lost_sessions_are_opened_anew() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 40_000);
        // It does not end by itself, however quick it is.
        let slow = [
            "--until",
            "stopped",
            "--range-rows",
            "5000",
            "--max-rate",
            "4",
        ];
        let mut copier = stage.begin(&[&slow[..], &["--slice", "1"]].concat());
        let mut connection = stage.connect();
        let done = "SELECT COALESCE(SUM(rows_copied), 0) FROM waggle_copy.ranges";
        let mut before = 0;
        for _ in 0..3 {
            let rows = stage.wait(done, |rows| {
                let rows = rows.parse::<u64>().unwrap();
                rows > before || rows == 40_000
            });
            before = rows.parse().unwrap();
            end_sessions(&mut connection);
            stage.run(&["UPDATE a.t SET k = k + 1 WHERE id % 97 = 0"]);
        }
        // The last change is there, and all rows are.
        let is_same = "SELECT (SELECT SUM(k) FROM a.t) = (SELECT SUM(k) FROM b.t)";
        stage.wait(is_same, |is_same| is_same == "1");
        assert!(!copier.is_over(), "{flavour}: {}", words(&copier.end()));
        copier.kill();
        stage.copied(&["--until", "caught-up"]);
        stage.assert_equal("a.t", "b.t");
    }
}

#[test]
fn sessions_outlive_the_servers_patience() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 1000);
        stage.run(&["SET GLOBAL wait_timeout = 1"]);
        let file = stage.directory.path().join("pause");
        std::fs::write(&file, "").unwrap();
        let copier = stage.begin(&["--until", "caught-up", "--pause-file", "pause"]);
        // Its readers hold a snapshot and wait.
        let idle = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                    WHERE COMMAND = 'Sleep' AND TIME >= 2";
        stage.wait(idle, |count| count.parse::<u64>().unwrap() > 1);
        std::fs::remove_file(&file).unwrap();
        let output = copier.end();
        assert!(output.status.success(), "{flavour}: {}", words(&output));
        stage.assert_equal("a.t", "b.t");
    }
}

/// Another server, whose packets are small.
fn small_packets(flavour: Flavour) -> Sandbox {
    let mut spec = SandboxSpec::new(flavour)
        .set("log-bin", "binlog")
        .set("server-id", "2")
        .set("max-allowed-packet", "1048576");
    if flavour == Flavour::MySql {
        spec = spec
            .set("gtid-mode", "ON")
            .set("enforce-gtid-consistency", "ON");
    }
    Sandbox::start(&spec).expect("a server")
}

#[test]
fn a_value_larger_than_a_packet_is_copied_or_named() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let target = small_packets(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE TABLE a.t (id INT PRIMARY KEY, v LONGBLOB)",
            "INSERT INTO a.t VALUES (1, REPEAT('x', 3000000)), (2, 'y')",
        ]);
        let to = target.dsn_of("a").to_string();
        let copy = || {
            Command::new(env!("CARGO_BIN_EXE_waggle"))
                .args(["copy", "--json", "--to", &to])
                .args(["--from", &stage.server.dsn_of("a").to_string()])
                .current_dir(stage.directory.path())
                .output()
                .unwrap()
        };
        let mut at_target = Connection::connect(&target.dsn_socket()).unwrap();
        let is_equal = |connection: &mut Connection| {
            let sql = b"SELECT id, SHA2(v, 256) FROM a.t ORDER BY id";
            connection.query_rows(sql).unwrap() == stage.connect().query_rows(sql).unwrap()
        };
        let first = copy();
        match first.status.success() {
            true => assert!(is_equal(&mut at_target)),
            false => assert!(
                words(&first).contains("max_allowed_packet"),
                "{}",
                words(&first)
            ),
        }
        stage.run(&["UPDATE a.t SET v = REPEAT('z', 3000000) WHERE id = 2"]);
        let second = copy();
        assert_eq!(second.status.code(), Some(1), "{}", words(&second));
        assert!(
            words(&second).contains("max_allowed_packet"),
            "{}",
            words(&second)
        );
        at_target
            .query(b"SET GLOBAL max_allowed_packet = 67108864")
            .unwrap();
        let third = copy();
        assert!(third.status.success(), "{}", words(&third));
        assert!(is_equal(&mut at_target), "{flavour}");
    }
}

#[test]
fn another_list_of_tables_is_refused_before_anything_is_touched() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.t (id INT PRIMARY KEY)",
            "CREATE TABLE a.s (id INT PRIMARY KEY)",
        ]);
        stage.copied(&["--tables", "t"]);
        let owner = "SELECT owner FROM waggle_copy.jobs";
        let before = stage.value(owner);
        let other = stage.copy(&["--tables", "s"]);
        assert_eq!(other.status.code(), Some(2), "{}", words(&other));
        assert!(words(&other).contains("--job"), "{}", words(&other));
        assert_eq!(stage.value(owner), before);
        let found = stage.rows("SHOW TABLES IN b");
        assert_eq!(found.len(), 1);
    }
}

#[test]
#[ignore = "takes a minute: cargo test ... copy::faults::a_thousand -- --ignored --nocapture"]
fn a_thousand_tables_take_little_memory() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&["CREATE DATABASE a", "CREATE DATABASE b"]);
        let mut source = stage.connect();
        for table in 0..1000 {
            for sql in [
                format!("CREATE TABLE a.t{table} (id INT PRIMARY KEY, v VARCHAR(100), KEY v (v))"),
                format!("INSERT INTO a.t{table} VALUES (1, 'x'), (2, NULL), ({table} + 3, 'y')"),
            ] {
                source.query(sql.as_bytes()).unwrap();
            }
        }
        let began = Instant::now();
        let mut copier: Running = stage.begin(&["--until", "caught-up"]);
        let mut peak = 0;
        while !copier.is_over() {
            peak = peak.max(process_rss_bytes_peak(copier.pid()).unwrap_or(0));
        }
        let output = copier.end();
        assert!(output.status.success(), "{}", words(&output));
        eprintln!(
            "{flavour}: 1,000 tables in {:.1} s, {} MiB: {}",
            began.elapsed().as_secs_f64(),
            peak >> 20,
            String::from_utf8_lossy(&output.stdout)
        );
        assert!((1..128 << 20).contains(&peak), "{peak} bytes");
        for table in [0, 500, 999] {
            stage.assert_equal(&format!("a.t{table}"), &format!("b.t{table}"));
        }
    }
}
