//! The run: every cell on every server, clients in random order, round by round.
//!
//! Invariant: a ratio is of two runs of one round. What a machine did to one round it did to both.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;
use waggle_stats::compare::{CONFIDENCE, Estimate, Interval};

use crate::plan::{Args, Cell, Client, Flavour, name};
use crate::report;
use crate::servers::{STATEMENTS, Server};
use crate::slice::{self, Slice};

/// What one cell gave.
#[derive(Debug, Serialize)]
pub(crate) struct CellResult {
    pub(crate) server: String,
    pub(crate) version: String,
    pub(crate) transport: String,
    pub(crate) workload: String,
    pub(crate) connections: u32,
    /// By client, a slice a round; a round in which the client failed is absent in all.
    pub(crate) rounds: BTreeMap<String, Vec<Slice>>,
    /// Why a client has no figures here.
    pub(crate) failed: BTreeMap<String, String>,
    /// Every client against sysbench.
    pub(crate) ratios: BTreeMap<String, Ratios>,
}

/// A client against sysbench, by pairs of one round.
#[derive(Debug, Serialize)]
pub(crate) struct Ratios {
    /// CPU per statement, user and system.
    pub(crate) cpu: Option<Interval>,
    pub(crate) user: Option<Interval>,
    pub(crate) system: Option<Interval>,
    pub(crate) qps: Option<Interval>,
}

/// Measures everything and files it; false when a client failed or counted wrong.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let mut results = Vec::new();
    let mut shuffle = Shuffle::seeded();
    for flavour in args.flavours() {
        let mut server = Server::start(flavour, &args.waggle, &STATEMENTS)?;
        eprintln!("{} {} is up", name(&flavour), server.version);
        if flavour != Flavour::Null {
            fill(args, &server)?;
        }
        for cell in args.cells() {
            let result = measure(args, &cell, &mut server, &mut shuffle)?;
            eprint!("{}", report::cell_lines(&result));
            results.push(result);
            // What there is survives whatever ends the run.
            report::file(args, &results)?;
        }
    }
    print!("{}", report::markdown(args, &results)?);
    let failed = results.iter().any(|result| !result.failed.is_empty());
    let miscounted = results
        .iter()
        .flat_map(|result| result.rounds.values().flatten())
        .any(|slice| !slice::counts_agree(slice));
    if miscounted {
        eprintln!("a client's own count is not the server's: see counted_ratio in the result");
    }
    Ok(!failed && !miscounted)
}

/// The tables, made by sysbench for all clients.
fn fill(args: &Args, server: &Server) -> anyhow::Result<()> {
    eprintln!("filling {} tables of {} rows", args.tables, args.table_size);
    let output = std::process::Command::new(&args.sysbench)
        .arg("oltp_read_write")
        .args(server.sysbench_options(crate::plan::Transport::Socket))
        .arg(format!("--tables={}", args.tables))
        .arg(format!("--table-size={}", args.table_size))
        .args(["--threads=2", "prepare"])
        .output()
        .context("starting sysbench; is it installed?")?;
    anyhow::ensure!(
        output.status.success(),
        "sysbench prepare failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn measure(
    args: &Args,
    cell: &Cell,
    server: &mut Server,
    shuffle: &mut Shuffle,
) -> anyhow::Result<CellResult> {
    let mut rounds: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    let mut failed = BTreeMap::new();
    let mut clients = args.clients();
    for _ in 0..args.rounds {
        let mut order = clients.clone();
        shuffle.shuffle(&mut order);
        for client in order {
            match slice::measure(client, args, cell, server) {
                Ok(slice) => rounds.entry(name(&client)).or_default().push(slice),
                Err(error) if client != Client::Sysbench => {
                    eprintln!("{} is left out: {error:#}", name(&client));
                    failed.insert(name(&client), format!("{error:#}"));
                    rounds.remove(&name(&client));
                    clients.retain(|other| *other != client);
                }
                // Without it there is nothing to compare with.
                Err(error) => return Err(error.context("sysbench failed")),
            }
        }
    }
    let base = &rounds[&name(&Client::Sysbench)];
    let ratios = rounds
        .iter()
        .map(|(client, slices)| (client.clone(), Ratios::of(slices, base)))
        .collect();
    Ok(CellResult {
        server: name(&server.flavour),
        version: server.version.clone(),
        transport: name(&cell.transport),
        workload: name(&cell.workload),
        connections: cell.connections,
        rounds,
        failed,
        ratios,
    })
}

impl Ratios {
    fn of(slices: &[Slice], base: &[Slice]) -> Ratios {
        let of = |figure: fn(&Slice) -> f64| {
            let pairs = slices.iter().zip(base);
            ratio(pairs.map(|(slice, base)| (figure(slice), figure(base))))
        };
        Ratios {
            cpu: of(Slice::cpu_us),
            user: of(|slice| slice.user_us),
            system: of(|slice| slice.system_us),
            qps: of(|slice| slice.qps),
        }
    }
}

/// The geometric mean of the ratios of pairs and its interval; `None` for fewer than two pairs.
pub(crate) fn ratio(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Interval> {
    let logs: Vec<f64> = pairs
        .filter(|(value, base)| *value > 0.0 && *base > 0.0)
        .map(|(value, base)| (value / base).ln())
        .collect();
    let n = logs.len();
    if n < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    let estimate = Estimate {
        value: mean,
        standard_error: (square / (n - 1) as f64 / n as f64).sqrt(),
        df: (n - 1) as f64,
        n,
    };
    Some(estimate.interval(CONFIDENCE).map(f64::exp))
}

/// An order that nobody chose.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    pub(crate) fn seeded() -> Shuffle {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Shuffle(now.map_or(1, |now| now.as_nanos() as u64) | 1)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            items.swap(last, (self.0 >> 32) as usize % (last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_pairs_is_free_of_what_the_pairs_share() {
        let rounds = [(1.0, 2.0), (10.0, 20.0), (3.0, 6.0)];
        let found = ratio(rounds.into_iter()).unwrap();
        assert!((found.estimate - 0.5).abs() < 1e-12 && found.half_width() < 1e-12);
        let spread = ratio([(1.0, 2.0), (2.0, 2.0), (1.5, 2.0)].into_iter()).unwrap();
        assert!(spread.low < spread.estimate && spread.estimate < spread.high);
        assert_eq!(ratio([(1.0, 2.0)].into_iter()), None);
    }

    #[test]
    fn a_shuffle_keeps_all() {
        let mut items: Vec<u32> = (0..10).collect();
        Shuffle(7).shuffle(&mut items);
        assert_ne!(items, (0..10).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..10).collect::<Vec<_>>());
    }
}
