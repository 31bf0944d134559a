//! waggle: load MySQL, watch every statement from the kernel, and prove what the watching costs.
//!
//! `main` only routes: a verb is a folder with `args.rs` (flags to a checked plan) and `mod.rs`.

mod bench;
mod cli;
mod compare;
mod copy;
mod doctor;
mod experiment;
mod interrupt;
mod lab;
mod open_files;
mod preflight;
mod profile;
mod profiling;
mod report;
mod server;
mod sysbench;
mod trace;
mod tune;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cli::{Failure, Output};

/// Load MySQL and MariaDB, watch every statement from the kernel, and prove what the watching
/// costs.
#[derive(Debug, Parser)]
#[command(
    name = "waggle",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct Cli {
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Args),
    Server(server::Args),
    Bench(Box<bench::Args>),
    Watch(Box<watch::Args>),
    Lab(Box<lab::Args>),
    Trace(Box<trace::Args>),
    Tune(Box<tune::Args>),
    Profile(Box<profile::Args>),
    Report(report::Args),
    Compare(compare::Args),
    Copy(Box<copy::Args>),
    Sysbench(sysbench::Args),
}

fn main() -> ExitCode {
    if let Some(args) = sysbench::Args::of_process() {
        return sysbench::run(&args);
    }
    let cli = Cli::parse();
    let out = Output { json: cli.json };
    let result = match cli.verb {
        Verb::Doctor(args) => doctor::run(args, &out),
        Verb::Server(args) => server::run(args, &out),
        Verb::Bench(args) => bench::run(*args, &out),
        Verb::Watch(args) => watch::run(*args, &out),
        Verb::Lab(args) => lab::run(*args, &out),
        Verb::Trace(args) => trace::run(*args, &out),
        Verb::Tune(args) => tune::run(*args, &out),
        Verb::Profile(args) => profile::run(*args, &out),
        Verb::Report(args) => report::run(args, &out),
        Verb::Compare(args) => compare::run(args, &out),
        Verb::Copy(args) => copy::run(*args, &out),
        Verb::Sysbench(args) => return sysbench::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The error and its causes on stderr, one line where it fits.
fn complain(failure: &Failure) {
    eprintln!("waggle: {:#}", failure.error());
}
