//! waggle: load MySQL, watch every statement from the kernel, and prove what the watching costs.
//!
//! `main` only routes: a verb is a folder with `args.rs` (flags to a checked plan) and `mod.rs`.

mod account;
mod argv;
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
mod rights;
mod server;
mod sysbench;
mod trace;
mod tune;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cli::{Failure, Output};
use rights::Needs;
use waggle_foreign::printable_lines;

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

impl Verb {
    /// Whether scripts have to run in a process of their own, and as whom, if that was said.
    fn scripts_apart(&self) -> Option<Option<&str>> {
        let user = match self {
            Verb::Lab(args) => &args.load_user,
            Verb::Tune(args) => &args.load_user,
            // What keeps nothing can run them itself, if nobody was named.
            Verb::Bench(args) if args.needs() == Needs::Nothing => {
                return args.load_user.name().map(Some);
            }
            Verb::Bench(args) => &args.load_user,
            _ => return None,
        };
        Some(user.name())
    }

    /// What it may keep of what this process may do.
    fn needs(&self) -> Needs {
        match self {
            Verb::Report(_) | Verb::Compare(_) | Verb::Sysbench(_) => Needs::Nothing,
            Verb::Server(_) | Verb::Lab(_) | Verb::Tune(_) => Needs::Everything,
            Verb::Doctor(_) => Needs::Attach,
            Verb::Bench(args) => args.needs(),
            Verb::Watch(args) => args.needs(),
            Verb::Trace(args) => args.needs(),
            Verb::Profile(args) => args.needs(),
            Verb::Copy(args) => args.needs(),
        }
    }
}

fn main() -> ExitCode {
    // Before anything else: whoever lists processes reads what is left in them.
    let words = argv::take();
    if let Some(args) = sysbench::Args::of_process(&words) {
        return match rights::keep(Needs::Nothing) {
            Ok(()) => sysbench::run(&args),
            Err(failure) => failed(&failure),
        };
    }
    let cli = Cli::parse_from(words);
    let out = Output { json: cli.json };
    // Before anything is read, and before there is a second thread.
    let arranged = match cli.verb.scripts_apart() {
        Some(user) => rights::scripts_apart(user),
        None => Ok(()),
    };
    if let Err(failure) = arranged.and_then(|()| rights::keep(cli.verb.needs())) {
        return failed(&failure);
    }
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
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    complain(failure);
    ExitCode::from(failure.exit_code())
}

/// The error and its causes on stderr, one line where it fits.
fn complain(failure: &Failure) {
    let error = failure.error();
    let text = match rights::remedy(error) {
        Some(remedy) => format!("{error:#}; {remedy}"),
        None => format!("{error:#}"),
    };
    eprintln!("waggle: {}", printable_lines(&text));
}
