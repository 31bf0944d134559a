//! The flags of bench-client and what follows from them.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use waggle_bench_client::statements::Workload;

/// Compare the client cost of waggle with that of sysbench, paired and interleaved.
#[derive(Debug, Parser)]
#[command(name = "bench-client", max_term_width = 100)]
pub(crate) struct Args {
    /// Point selects and read-only at 8 connections on the Unix socket of MySQL, nothing else
    #[arg(long)]
    pub(crate) quick: bool,
    /// Connections of each cell
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64, 512])]
    pub(crate) connections: Vec<u32>,
    /// What is sent
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Workload::PointSelect, Workload::ReadOnly, Workload::ReadWrite])]
    pub(crate) workloads: Vec<Workload>,
    /// How the server is reached
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Transport::Socket, Transport::Tcp])]
    pub(crate) transports: Vec<Transport>,
    /// Which servers
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Flavour::Mysql, Flavour::Mariadb, Flavour::Null])]
    pub(crate) servers: Vec<Flavour>,
    /// Which clients; sysbench is always one, the others are compared with it
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Client::Sysbench, Client::Waggle, Client::WaggleSysbench,
                              Client::Bare, Client::BareUring])]
    pub(crate) clients: Vec<Client>,
    /// Rounds of each cell; every client runs once a round, in random order
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) rounds: u32,
    /// Seconds that are measured of each run, after its start and a second of warm-up
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Tables
    #[arg(long, default_value_t = 4)]
    pub(crate) tables: u32,
    /// Rows of each table [default: 100000; with --prepare 100000]
    #[arg(long, default_value_t = 100_000)]
    pub(crate) table_size: u32,
    /// Compare loading tables instead of running statements (10 tables unless --tables is given)
    #[arg(long)]
    pub(crate) prepare: bool,
    /// Threads that load (--prepare)
    #[arg(long, default_value_t = 4)]
    pub(crate) threads: u32,
    /// The waggle to measure
    #[arg(long, default_value = "target/release/waggle", value_name = "PATH")]
    pub(crate) waggle: PathBuf,
    /// The sysbench to measure
    #[arg(long, default_value = "sysbench", value_name = "PATH")]
    pub(crate) sysbench: PathBuf,
    /// Where the result is filed, as DATE-client.md and .json; none: standard output only
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Socket,
    Tcp,
}

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavour {
    Mysql,
    Mariadb,
    /// Answers from memory: the client is what limits.
    Null,
}

/// A program that loads a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// What the others are compared with, with its own scripts.
    Sysbench,
    /// `waggle bench` with its own workload.
    Waggle,
    /// The same with a thread for each connection.
    WaggleThreads,
    /// `waggle bench` with the script that sysbench installed.
    WaggleScript,
    /// `waggle sysbench` with sysbench's arguments, and so with the script sysbench installed.
    WaggleSysbench,
    /// The floor of a thread a connection: no script, no clocks, no histograms.
    Bare,
    /// The floor of two threads with io_uring, each on its processor if there are two.
    BareUring,
}

/// One combination that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) connections: u32,
    pub(crate) transport: Transport,
}

impl Args {
    /// The servers to start, in order.
    pub(crate) fn flavours(&self) -> Vec<Flavour> {
        match self.quick {
            true => vec![Flavour::Mysql],
            false => self.servers.clone(),
        }
    }

    /// What is measured on each server.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        if self.quick {
            return [Workload::PointSelect, Workload::ReadOnly]
                .map(|workload| Cell {
                    workload,
                    connections: 8,
                    transport: Transport::Socket,
                })
                .to_vec();
        }
        let mut cells = Vec::new();
        for &transport in &self.transports {
            for &workload in &self.workloads {
                for &connections in &self.connections {
                    cells.push(Cell {
                        workload,
                        connections,
                        transport,
                    });
                }
            }
        }
        cells
    }

    /// The clients, sysbench first.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let mut clients = vec![Client::Sysbench];
        for &client in &self.clients {
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
        clients
    }
}

/// The name on the command line and in the result.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}
