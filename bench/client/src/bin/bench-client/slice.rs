//! One client for a few seconds: its CPU time, and what the server answered meanwhile.
//!
//! The window begins when the client has started, connected, prepared and compiled its script, and
//! ends before it stops, so that start-up is in nobody's figure. Statements in the window are the
//! server's own count; over the whole run they are compared with the client's own report.

use std::io::Read;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use crate::clients::statements_per_event;
use crate::plan::{Args, Cell, Client};
use crate::servers::Server;

/// How long a client gets from its start to its first statements.
const START_LIMIT: Duration = Duration::from_secs(60);
/// What a client runs before the window: scripts are compiled, connections are warm.
const WARM_UP: Duration = Duration::from_secs(1);
/// What it runs after the window at least, so that the window ends while it is at full load.
const AFTER_S: u32 = 1;
/// Connections that start within a second on a busy processor: the run is longer by their start,
/// since a client's own clock begins when the first of them is at work.
const STARTED_PER_SECOND: u32 = 64;
/// The client's report and the server's count may differ by so much: statements in flight at the
/// end, settings at login, reading the counter.
const COUNTS_DIFFER_MAX: f64 = 0.02;

/// What one run gave.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Slice {
    /// In the window, per statement.
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    pub(crate) qps: f64,
    /// In the window.
    pub(crate) statements: u64,
    pub(crate) window_s: f64,
    /// Context switches a statement, over the whole run.
    pub(crate) switches: f64,
    /// Largest resident set.
    pub(crate) rss_bytes: u64,
    /// CPU of the whole process per statement of its own report: start-up included.
    pub(crate) whole_run_us: f64,
    /// The client's own count over the server's, both of the whole run.
    pub(crate) counted_ratio: f64,
    /// CPU of the server per statement, in the window.
    pub(crate) server_us: f64,
}

impl Slice {
    pub(crate) fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Counters at one moment.
struct Reading {
    at: Instant,
    user_s: f64,
    system_s: f64,
    server_s: f64,
    questions: u64,
}

/// Runs `client` on `server` and measures it.
pub(crate) fn measure(
    client: Client,
    args: &Args,
    cell: &Cell,
    server: &mut Server,
) -> anyhow::Result<Slice> {
    let before = server.questions()?;
    let start = cell.connections / STARTED_PER_SECOND;
    let seconds = args.seconds + WARM_UP.as_secs() as u32 + AFTER_S + start;
    let mut command = client.command(args, cell, server, seconds)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let window = window(args, cell, server, &mut child, before);
    if window.is_err() {
        let _ = child.kill();
    }
    let mut output = String::new();
    let mut errors = String::new();
    child
        .stdout
        .take()
        .context("a pipe")?
        .read_to_string(&mut output)?;
    child
        .stderr
        .take()
        .context("a pipe")?
        .read_to_string(&mut errors)?;
    let (status, usage) = waited(&child)?;
    let said = || {
        let last = |text: &str| text.lines().rev().take(4).collect::<Vec<_>>().join(" / ");
        format!("{command:?} said: {} {}", last(&errors), last(&output))
    };
    let (first, last) = window.with_context(said)?;
    ensure!(status == 0, "status {status}; {}", said());
    let after = server.questions()?;
    let (reported, _) = client.reported(&output).with_context(said)?;
    let served = after.saturating_sub(before + 1);
    let counted_ratio = reported as f64 / served.max(1) as f64;
    let statements = last.questions - first.questions;
    let per = |value: f64| value * 1e6 / statements.max(1) as f64;
    let window_s = last.at.duration_since(first.at).as_secs_f64();
    Ok(Slice {
        user_us: per(last.user_s - first.user_s),
        system_us: per(last.system_s - first.system_s),
        qps: statements as f64 / window_s,
        statements,
        window_s,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as f64 / reported.max(1) as f64,
        rss_bytes: usage.ru_maxrss as u64 * 1024,
        whole_run_us: (seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)) * 1e6
            / reported.max(1) as f64,
        counted_ratio,
        server_us: per(last.server_s - first.server_s),
    })
}

/// True when the client's count and the server's agree.
pub(crate) fn counts_agree(slice: &Slice) -> bool {
    (slice.counted_ratio - 1.0).abs() <= COUNTS_DIFFER_MAX
}

fn window(
    args: &Args,
    cell: &Cell,
    server: &mut Server,
    child: &mut Child,
    before: u64,
) -> anyhow::Result<(Reading, Reading)> {
    let begun = Instant::now();
    // Every connection has executed about one event, so all have been prepared.
    let enough = u64::from(cell.connections * statements_per_event(cell.workload)) + 200;
    while server.questions()? < before + enough {
        if let Some(status) = exited(child)? {
            bail!("it ended before it was at work, with status {status}");
        }
        ensure!(
            begun.elapsed() < START_LIMIT,
            "it was not at work after {START_LIMIT:?}"
        );
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    let first = Reading::take(child, server)?;
    sleep(Duration::from_secs(u64::from(args.seconds)));
    let last = Reading::take(child, server)?;
    ensure!(exited(child)?.is_none(), "it ended inside of the window");
    Ok((first, last))
}

impl Reading {
    fn take(child: &Child, server: &mut Server) -> anyhow::Result<Reading> {
        let (user_s, system_s) = process_cpu(child.id())?;
        let (server_user_s, server_system_s) = process_cpu(server.pid)?;
        Ok(Reading {
            at: Instant::now(),
            user_s,
            system_s,
            server_s: server_user_s + server_system_s,
            questions: server.questions()?,
        })
    }
}

/// User and system time of a process, of all its threads, in seconds.
pub(crate) fn process_cpu(pid: u32) -> anyhow::Result<(f64, f64)> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    // The name in brackets may hold blanks; user and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').context("a name in brackets")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next =
        || -> anyhow::Result<f64> { Ok(fields.next().context("a short stat file")?.parse()?) };
    // SAFETY: sysconf takes a number and gives one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok((next()? / ticks, next()? / ticks))
}

/// The exit status of a child that has ended, which stays to be waited for.
fn exited(child: &Child) -> anyhow::Result<Option<i32>> {
    // SAFETY: an all-zero siginfo is a valid value; WNOWAIT leaves the child as it is.
    let (result, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (
            libc::waitid(libc::P_PID, child.id(), &mut info, flags),
            info,
        )
    };
    ensure!(result == 0, "waitid: {}", std::io::Error::last_os_error());
    // SAFETY: waitid filled the fields of a child's end, or left zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then_some(status))
}

/// Waits for a child; its status and what it used.
pub(crate) fn waited(child: &Child) -> anyhow::Result<(i32, libc::rusage)> {
    // SAFETY: the child has not been waited for, so its number is its own; the places are valid.
    let (waited, status, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let mut status = 0;
        let waited = libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage);
        (waited, status, usage)
    };
    ensure!(waited > 0, "wait4: {}", std::io::Error::last_os_error());
    Ok((status, usage))
}

pub(crate) fn seconds_of(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}
