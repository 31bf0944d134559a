//! What to run, checked nowhere yet: the plain data a [`Load`](crate::Load) starts from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waggle_stats::arrivals::Arrivals;
use waggle_wire::Dsn;

use crate::{OptionValue, Script};

/// Receives what scripts print: thread index and line.
pub type LogSink = Arc<dyn Fn(u32, &str) + Send + Sync>;

/// A load to run against one server.
#[derive(Clone)]
pub struct LoadSpec {
    /// The server.
    pub dsn: Dsn,
    /// The workload.
    pub script: Script,
    /// Options of the workload by name (`-` and `_` are the same), as typed.
    pub options: BTreeMap<String, String>,
    /// Worker threads, each with its own Lua state and its own connection.
    pub threads: u32,
    /// Seed of all random values. Thread `n` of two runs with one seed draws the same values.
    pub seed: u64,
    /// Server errors that restart the event instead of ending the load.
    pub ignore_errors: IgnoreErrors,
    /// How often one event may be restarted in a row before the load ends with an error.
    pub restart_limit: u32,
    /// The longest wait for an answer; a server that is silent for longer counts as lost.
    pub statement_timeout: Option<Duration>,
    /// How long `stop` waits for events in flight before it shuts their sockets down.
    pub stop_grace: Duration,
    /// Leave the workers waiting after they connected; [`Load::resume`](crate::Load::resume)
    /// lets them go.
    pub start_paused: bool,
    /// Set it to end a running `prepare` or `cleanup` at the next statement.
    pub cancel: Arc<AtomicBool>,
    /// Where `print` of a script goes; `None`: standard error.
    pub log: Option<LogSink>,
    /// Events to run in all, over all threads; `None`: until stopped.
    pub event_limit: Option<u64>,
    /// When events are due; `None`: closed loop, each begins when the thread's last one ended.
    pub arrivals: Option<Arrivals>,
    /// What happens to events that are due while every thread is busy.
    pub overflow: Overflow,
    /// After a lost connection (an ignored error of that kind): how long to try to get it back.
    pub reconnect_limit: Duration,
    /// Keep a latency histogram for each prepared statement and each kind of text statement.
    pub statement_latency: bool,
    /// Never prepare on the server: put the parameters into the text.
    pub client_prepare: bool,
    /// Which sysbench a script expects.
    pub dialect: Dialect,
    /// How workers wait for the server.
    pub io: WaitBy,
    /// The scheduler moves the threads of rings. Else each stays on its processor, unless the CPU
    /// quota of a control group makes them fewer than processors.
    pub floating: bool,
    /// The caller's own options, by name with underscores: scripts see them in `sysbench.opt`
    /// beside those they declare, and cannot declare them again.
    pub general_options: BTreeMap<String, OptionValue>,
    /// The command line, as scripts see it in `sysbench.cmdline.argv`.
    pub argv: Vec<String>,
}

/// Which sysbench a script was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Dialect {
    /// 1.0.20, with the API of 0.5 beside its own: what distributions ship.
    V1_0,
    /// 1.1.0 of the development branch.
    #[default]
    V1_1,
}

/// How workers wait for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WaitBy {
    /// Through rings where this kernel has them and there are more workers than processors, else
    /// as threads.
    #[default]
    Auto,
    /// Each worker is a thread.
    Threads,
    /// Workers share a thread per processor, each on a stack of its own, and wait in an io_uring
    /// together. A script that blocks (`os.execute`) blocks its neighbours.
    Ring,
}

/// What happens to events that are due while every thread is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Overflow {
    /// They wait, as long as it takes.
    #[default]
    Queue,
    /// Those above this many waiting ones are dropped, oldest first, and counted.
    Drop {
        /// Most events that may wait.
        waiting: u64,
    },
    /// More than this many waiting ones end the load, with a report.
    Abort {
        /// Most events that may wait.
        waiting: u64,
    },
}

impl LoadSpec {
    /// One thread, the usual ignored errors, and limits longer than a lock wait time-out.
    pub fn new(dsn: Dsn, script: Script) -> LoadSpec {
        LoadSpec {
            dsn,
            script,
            options: BTreeMap::new(),
            threads: 1,
            seed: 1,
            ignore_errors: IgnoreErrors::default(),
            restart_limit: 1000,
            // innodb_lock_wait_timeout is 50 s unless changed; below it, waits would look like
            // a lost server.
            statement_timeout: Some(Duration::from_secs(120)),
            stop_grace: Duration::from_secs(10),
            start_paused: false,
            cancel: Arc::new(AtomicBool::new(false)),
            log: None,
            event_limit: None,
            arrivals: None,
            overflow: Overflow::Queue,
            reconnect_limit: Duration::from_secs(30),
            statement_latency: false,
            client_prepare: false,
            dialect: Dialect::default(),
            io: WaitBy::default(),
            floating: false,
            general_options: BTreeMap::new(),
            argv: Vec::new(),
        }
    }
}

impl fmt::Debug for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadSpec")
            .field("dsn", &self.dsn)
            .field("script", &self.script.name())
            .field("options", &self.options)
            .field("threads", &self.threads)
            .field("seed", &self.seed)
            .field("ignore_errors", &self.ignore_errors)
            .finish_non_exhaustive()
    }
}

/// Which server errors restart the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreErrors {
    /// Every server error.
    All,
    /// These error numbers.
    Only(BTreeSet<u16>),
}

impl IgnoreErrors {
    /// True when this error restarts the event.
    pub fn contains(&self, errno: u16) -> bool {
        match self {
            IgnoreErrors::All => true,
            IgnoreErrors::Only(errnos) => errnos.contains(&errno),
        }
    }
}

/// Deadlock (1213), changed record (1020) and lock wait time-out (1205).
impl Default for IgnoreErrors {
    fn default() -> Self {
        IgnoreErrors::Only(BTreeSet::from([1213, 1020, 1205]))
    }
}

/// `all`, `none`, or numbers with commas.
impl std::str::FromStr for IgnoreErrors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "all" => return Ok(IgnoreErrors::All),
            "" | "none" => return Ok(IgnoreErrors::Only(BTreeSet::new())),
            _ => {}
        }
        let errnos = text.split(',').map(|part| {
            part.trim().parse().map_err(|_| {
                format!("'{part}' is no server error number; give numbers with commas, or all")
            })
        });
        Ok(IgnoreErrors::Only(errnos.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for IgnoreErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IgnoreErrors::All => f.write_str("all"),
            IgnoreErrors::Only(errnos) if errnos.is_empty() => f.write_str("none"),
            IgnoreErrors::Only(errnos) => {
                let texts: Vec<String> = errnos.iter().map(u16::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_errors_are_parsed_and_printed() {
        assert_eq!("1213,1020, 1205".parse(), Ok(IgnoreErrors::default()));
        assert_eq!("all".parse(), Ok(IgnoreErrors::All));
        assert!(!"none".parse::<IgnoreErrors>().unwrap().contains(1213));
        assert_eq!(IgnoreErrors::default().to_string(), "1020,1205,1213");
        let error = "1213,deadlock".parse::<IgnoreErrors>().unwrap_err();
        assert!(
            error.contains("'deadlock' is no server error number"),
            "{error}"
        );
    }
}
