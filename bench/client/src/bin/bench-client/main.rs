//! bench-client: what waggle's client costs beside sysbench's, in one paired, interleaved run.
//!
//! `plan` says what to measure, `servers` starts the servers, `clients` knows how each client is
//! called and what it reports, `slice` measures one for a few seconds, `pairing` alternates them,
//! `report` files the result, `prepare` compares loading. Invariant: clients are compared within a
//! round only, where they ran one after the other on the same server and the same tables.

mod clients;
mod pairing;
mod plan;
mod prepare;
mod report;
mod servers;
mod slice;

use std::process::ExitCode;

use clap::Parser;

use plan::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = if args.prepare {
        prepare::run(&args)
    } else {
        pairing::run(&args)
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-client: {error:#}");
            ExitCode::from(1)
        }
    }
}
