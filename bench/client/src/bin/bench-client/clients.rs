//! How each client is called for one cell, and how many statements it says it sent.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use waggle_bench_client::statements::Workload;

use crate::plan::{Args, Cell, Client, Transport, name};
use crate::servers::{Server, beside};

/// Where Debian's package puts sysbench's scripts.
const SCRIPTS: &str = "/usr/share/sysbench";

impl Client {
    /// The command that loads `server` for `seconds` seconds.
    pub(crate) fn command(
        self,
        args: &Args,
        cell: &Cell,
        server: &Server,
        seconds: u32,
    ) -> anyhow::Result<Command> {
        let script = format!("oltp_{}", name(&cell.workload));
        let threads = format!("--threads={}", cell.connections);
        let time = format!("--time={seconds}");
        let tables = [
            format!("--tables={}", args.tables),
            format!("--table-size={}", args.table_size),
        ];
        let mut command = match self {
            Client::Sysbench => Command::new(&args.sysbench),
            Client::Waggle
            | Client::WaggleThreads
            | Client::WaggleScript
            | Client::WaggleSysbench => Command::new(&args.waggle),
            Client::Bare | Client::BareUring => Command::new(beside("bare-loop")?),
        };
        match self {
            Client::WaggleSysbench | Client::Sysbench => {
                if self == Client::WaggleSysbench {
                    command.arg("sysbench");
                }
                command.arg(script).args([threads, time]).args(tables);
                command
                    .args(server.sysbench_options(cell.transport))
                    // The native workloads' own; sysbench's `special` spares the server misses.
                    .args(["--rand-type=uniform", "run"]);
            }
            Client::Waggle | Client::WaggleThreads | Client::WaggleScript => {
                let installed = PathBuf::from(SCRIPTS).join(&script).with_extension("lua");
                match self {
                    Client::Waggle => command.args(["bench", &script]),
                    Client::WaggleThreads => command.args(["bench", &script, "--io=threads"]),
                    _ => command.arg("bench").arg(installed),
                };
                command.args(["run", "--no-record", "--report-interval=0", "--json"]);
                command.args([threads, time]).args(tables);
                command.arg("--dsn").arg(server.dsn(cell.transport));
            }
            Client::Bare | Client::BareUring => {
                match cell.transport {
                    Transport::Socket => command.arg("--socket").arg(&server.socket),
                    Transport::Tcp => command.arg(format!("--port={}", server.port)),
                };
                command.arg(format!("--connections={}", cell.connections));
                command.arg(format!("--seconds={seconds}"));
                command.arg(format!("--workload={}", name(&cell.workload)));
                command.args(tables);
                if self == Client::BareUring {
                    command.args(["--wait=uring", "--threads=2"]);
                }
            }
        }
        Ok(command)
    }

    /// Statements and seconds in the client's own report.
    pub(crate) fn reported(self, output: &str) -> anyhow::Result<(u64, f64)> {
        match self {
            Client::Sysbench | Client::WaggleSysbench => {
                let field = |label: &str| {
                    let found = output
                        .lines()
                        .find_map(|line| line.trim().strip_prefix(label));
                    found
                        .map(|value| value.trim().trim_end_matches('s').to_owned())
                        .with_context(|| format!("its report has no {label:?}"))
                };
                Ok((field("total:")?.parse()?, field("total time:")?.parse()?))
            }
            _ => {
                let report: serde_json::Value = serde_json::from_str(output)?;
                let queries = report["queries"]
                    .as_u64()
                    .context("its report has no queries")?;
                let seconds = report["duration_s"].as_f64();
                Ok((queries, seconds.context("its report has no duration_s")?))
            }
        }
    }
}

/// Statements of one event, BEGIN and COMMIT included.
pub(crate) fn statements_per_event(workload: Workload) -> u32 {
    match workload {
        Workload::PointSelect => 1,
        Workload::ReadOnly => 16,
        Workload::ReadWrite => 20,
    }
}
