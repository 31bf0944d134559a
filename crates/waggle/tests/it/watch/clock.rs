//! The wall clock is set while servers are watched: counts, times and rates do not notice.
//!
//! The machine's clock is everybody's, so server and agent get one of their own: a library that is
//! loaded before all others answers for the wall clock and adds what a file says. Everything below
//! it, the kernel's monotonic clock and the probes, is real.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use waggle_server::Flavour;
use waggle_wire::Connection;

use super::faults::installed_data;
use super::stage::{
    Report, Running, can_watch, mariadb_program, run, settle, turn, waggle, wait_until,
};

/// Adds the nanoseconds in the file that `TEST_CLOCK` names to the wall clock.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *step;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		step = at;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(clock, time);
	if (result == 0 && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		time->tv_sec += *step / 1000000000;
	return result;
}

int gettimeofday(struct timeval *time, void *zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *where)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (where)
		*where = now.tv_sec;
	return now.tv_sec;
}
"#;

/// A wall clock that can be set.
struct Clock {
    library: PathBuf,
    step: PathBuf,
}

impl Clock {
    fn new(folder: &Path) -> Self {
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, LIBRARY).expect("a source");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
        let built = compiler.arg(&library).arg(&source).arg("-ldl").output();
        let built = built.expect("cc, which building waggle needs too");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        let step = folder.join("step");
        std::fs::write(&step, 0_i64.to_ne_bytes()).expect("a step");
        Self { library, step }
    }

    fn set(&self, hours: i64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(&self.step);
        let bytes = (hours * 3_600_000_000_000).to_ne_bytes();
        file.and_then(|f| f.write_all_at(&bytes, 0))
            .expect("a step");
    }

    fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("TEST_CLOCK", &self.step)
    }
}

/// What the server takes for the time, s since 1970.
fn now(client: &mut Connection) -> i64 {
    let rows = client.query_rows(b"SELECT UNIX_TIMESTAMP() AS here");
    let rows = rows.expect("the time");
    let text = String::from_utf8(rows[0][0].clone().expect("a time")).expect("text");
    text.split('.').next().expect("s").parse().expect("s")
}

#[test]
fn a_wall_clock_that_is_set_changes_no_count_no_time_and_no_rate() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::new(folder.path());
    let data = installed_data(folder.path());
    let socket = folder.path().join("s").display().to_string();
    let mut server = Command::new(mariadb_program());
    server.args(["--no-defaults", "--user=root", "--skip-networking"]);
    server.args([
        format!("--datadir={}", data.display()),
        format!("--socket={socket}"),
    ]);
    let server = Running::start(clock.of(&mut server));
    server.line("ready for connections");
    let dsn = format!("mysql://root@/?socket={socket}");
    let record = folder.path().join("runs");
    let (pid, runs) = (server.pid().to_string(), record.display().to_string());
    let mut watch = waggle(&["watch", "--json", "--pid", &pid, "--record", &runs]);
    watch.args(["--interval", "0.2", "--sample", "1"]);
    let watching = Running::start(clock.of(&mut watch));
    watching.line("watching ");
    let mut client = Connection::connect(&dsn.parse().expect("a DSN")).expect("a connection");
    let begun = now(&mut client);
    for hours in [0, 5, -5, 0] {
        // Across the step, and after it. It waits for an event: the server's time-outs are by the
        // kernel's clock, which is not set.
        run(&mut client, &["SELECT GET_LOCK('held', 0)"]);
        let mut other = Connection::connect(&dsn.parse().expect("a DSN")).expect("a connection");
        let across = std::thread::spawn(move || {
            run(
                &mut other,
                &["SELECT GET_LOCK('held', 100000)", "DO RELEASE_LOCK('held')"],
            );
            settle(&mut other);
        });
        wait_until("it waits", || {
            let sql = b"SELECT COUNT(*) AS looks FROM information_schema.processlist \
                        WHERE state = 'User lock'";
            client.query_rows(sql).expect("the process list")[0][0].as_deref() == Some(b"1")
        });
        clock.set(hours);
        let here = (now(&mut client) - begun) / 3600;
        assert!(
            (here - hours).abs() <= 1,
            "the server sees the step: {here} h, not {hours} h"
        );
        for _ in 0..25 {
            run(&mut client, &["SELECT 'x' AS marked"]);
        }
        run(&mut client, &["DO RELEASE_LOCK('held')"]);
        across.join().expect("who waits");
        // Views go on; and the next step comes after one that has seen this.
        let told_us = (begun + hours * 3600) * 1_000_000;
        wait_until("a view has the time that the clock tells", || {
            let last = times(&record).last().copied();
            last.is_some_and(|at| (at - told_us).abs() as f64 / 1e6 < BETWEEN)
        });
    }
    settle(&mut client);
    watching.signal(libc::SIGINT);
    let ended = watching.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    server.signal(libc::SIGKILL);
    server.end();
    check(&Report::parse(&ended.stdout), &ended.stderr, &record);
}

/// Longer than the test takes, and far shorter than a step, s.
const BETWEEN: f64 = 1800.0;

/// When the views were made that are recorded so far, by the clock, us.
fn times(record: &Path) -> Vec<i64> {
    let run_dir = std::fs::read_dir(record)
        .ok()
        .and_then(|mut runs| runs.next());
    let Some(run_dir) = run_dir else {
        return Vec::new();
    };
    let samples = run_dir.expect("an entry").path().join("samples.jsonl");
    let samples = std::fs::read_to_string(samples).unwrap_or_default();
    // The last line may be being written.
    let (whole, _) = samples.rsplit_once('\n').unwrap_or_default();
    whole
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["time_us"].as_i64())
        .map(|time| time.expect("a time"))
        .collect()
}

fn check(report: &Report, said: &str, record: &Path) {
    assert_eq!(
        report.count("select ? as marked"),
        100,
        "{}",
        report.listing()
    );
    assert_eq!(report.count("select get_lock(?, ?)"), 8);
    assert_eq!(report.count("do release_lock(?)"), 8);
    assert_eq!(report.count("select unix_timestamp() as here"), 5);
    let counted: u64 = report
        .digests()
        .iter()
        .filter_map(|d| d["count"].as_u64())
        .sum();
    assert_eq!((counted, report.lost()), (report.captured(), 0));
    assert_eq!(report.number("/degraded/latency_unknown"), 0);
    for digest in report.digests() {
        let longest_s = digest["latency_us"]["max"].as_f64().expect("a latency") / 1e6;
        assert!(longest_s < BETWEEN, "{digest}");
    }
    let load = report.0["servers"][0]["load"]["all"]
        .as_object()
        .expect("a load");
    let load_s: f64 = load.values().filter_map(Value::as_f64).sum();
    assert!(load_s < BETWEEN, "{load:?}");
    assert!(report.0["duration_s"].as_f64().expect("a duration") < BETWEEN);
    // Sessions, by the time that really passed: five hours would make less than a hundredth.
    let loads = said.lines().filter(|line| line.contains("load "));
    assert!(loads.count() > 0, "{said}");
    // The record says what the clock said, the steps among it.
    let times = times(record);
    let far = |pair: &[i64]| (pair[1] - pair[0]).unsigned_abs() as f64 / 1e6 > BETWEEN;
    assert!(
        times.windows(2).any(far),
        "the agent sees the step: {times:?}"
    );
}
