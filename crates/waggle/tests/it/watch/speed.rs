//! At the server's full speed: nothing lost, or lost and counted; and attached and detached over
//! and over without a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use waggle_probes::statement::{Fit, Options, Program, StatementProbe};
use waggle_server::Flavour;
use waggle_server::cpu::process_rss_bytes;
use waggle_server::process::from_pid;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Value;

use super::stage::{Watching, connect, flavours, run, server, settle, turn, wait_until};

/// Clients of the load.
const CLIENTS: u64 = 8;
/// What each of them runs: more in all than the ring that a watch has by default can hold.
const EACH: u64 = 10_000;

/// Point selects on `CLIENTS` connections until told to stop; each thread returns how many.
pub(super) struct PointSelects {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl PointSelects {
    pub(super) fn start(server: &Sandbox, clients: u64, each: Option<u64>) -> Self {
        let mut admin = connect(server);
        let rows: Vec<String> = (1..=1000)
            .map(|id| format!("({id}, 'value {id}')"))
            .collect();
        let fill = format!("INSERT INTO speed VALUES {}", rows.join(","));
        run(
            &mut admin,
            &[
                "CREATE TABLE speed (id INT PRIMARY KEY, v VARCHAR(40))",
                &fill,
            ],
        );
        settle(&mut admin);
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number: u64| {
            let (stop, mut connection) = (Arc::clone(&stop), connect(server));
            let mut statement = connection
                .prepare(b"SELECT v FROM speed WHERE id = ?")
                .expect("a statement");
            std::thread::spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) && each.is_none_or(|each| count < each) {
                    let id = ((count * 7 + number * 131) % 1000 + 1).cast_signed();
                    let rows = connection.execute(&mut statement, &[Value::Int(id)]);
                    assert_eq!(rows.expect("no statement fails").rows, 1);
                    count += 1;
                }
                settle(&mut connection);
                count
            })
        };
        Self {
            threads: (0..clients).map(client).collect(),
            stop,
        }
    }

    /// Waits until every client did its share. Returns the number of statements.
    fn wait(self) -> u64 {
        self.threads
            .into_iter()
            .map(|t| t.join().expect("a client"))
            .sum()
    }

    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }
}

const SELECT: &str = "select v from speed where id = ?";

#[test]
fn nothing_is_lost_at_full_speed() {
    let _turn = turn();
    for flavour in flavours() {
        let server = server(flavour);
        let watching = Watching::start(server.pid(), &[]);
        let executed = PointSelects::start(&server, CLIENTS, Some(EACH)).wait();
        let report = watching.interrupt();
        assert_eq!(executed, CLIENTS * EACH);
        assert_eq!(
            report.count(SELECT),
            executed,
            "{flavour}\n{}",
            report.listing()
        );
        assert_eq!(report.lost(), 0, "{flavour}");
    }
}

#[test]
fn what_a_full_ring_loses_is_counted() {
    let _turn = turn();
    for flavour in flavours() {
        let server = server(flavour);
        let watching = Watching::start(server.pid(), &["--ring-kib", "64"]);
        let executed = PointSelects::start(&server, CLIENTS, Some(EACH)).wait();
        let report = watching.interrupt();
        let (lost, hits) = (report.lost(), report.number("/hits"));
        assert!(
            lost > 0,
            "{flavour}: 64 KiB should not do for {executed} statements"
        );
        let seen = report.captured() + report.number("/other_commands");
        assert_eq!(seen + lost, hits, "{flavour}");
        // The load, and before it one CREATE and one INSERT.
        assert!(
            hits >= executed + 2,
            "{flavour}: {hits} hits of {executed} statements"
        );
    }
}

/// Links and programs this process holds open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .count()
}

/// Attaches and detaches so many times while the server works.
fn attachments_leave_nothing_behind(cycles: usize) {
    /// What a server's memory may move by itself under load.
    const RSS_SLACK_BYTES: u64 = 8 << 20;
    let _turn = turn();
    for flavour in flavours()
        .into_iter()
        .filter(|f| *f == Flavour::MySql || !has_mysql())
    {
        let server = server(flavour);
        let process = from_pid(server.pid()).expect("the server");
        let exe = process.exe_file();
        let fit = Fit::of(&exe).expect("a server binary");
        let site = fit.site.clone().expect("a site");
        let pid = server.pid().cast_signed();
        let load = PointSelects::start(&server, 1, None);
        let mut probe = StatementProbe::load(&fit.layout, &site, &Options::default()).unwrap();
        let mut events = probe.events().unwrap();
        let mut seen = 0;
        let mut cycle = |probe: &mut StatementProbe| {
            probe
                .attach(pid, &exe, Program::Capture)
                .expect("attaching");
            let before = probe.counters().unwrap().hits;
            wait_until("a statement ended", || {
                probe.counters().unwrap().hits > before
            });
            probe.detach();
            seen += events.consume(usize::MAX, |_| {}) as u64;
        };
        for _ in 0..20 {
            cycle(&mut probe);
        }
        let (rss, open) = (process_rss_bytes(server.pid()).unwrap(), descriptors());
        for _ in 0..cycles {
            cycle(&mut probe);
        }
        let counters = probe.counters().unwrap();
        assert_eq!(seen + counters.ring_full, counters.hits, "{flavour}");
        let grown = process_rss_bytes(server.pid()).unwrap().saturating_sub(rss);
        assert!(
            grown <= RSS_SLACK_BYTES,
            "{flavour}: the server grew by {grown} bytes"
        );
        // Other tests of this binary open and close theirs meanwhile.
        assert!(descriptors() < open + 100, "{flavour}: descriptors leak");
        assert!(load.end() > 0);
        println!("{flavour}: {cycles} cycles, {} hits", counters.hits);
    }
}

#[test]
fn three_hundred_attachments_leave_nothing_behind() {
    attachments_leave_nothing_behind(300);
}

#[test]
#[ignore = "takes minutes: cargo test ... watch::speed::ten_thousand -- --ignored --nocapture"]
fn ten_thousand_attachments_leave_nothing_behind() {
    attachments_leave_nothing_behind(10_000);
}

fn has_mysql() -> bool {
    flavours().contains(&Flavour::MySql)
}
