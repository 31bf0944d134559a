//! What one copy costs: `copy_cost FROM_DSN TO_DSN RANGES SLICE_MIB`, built with optimisation.
//!
//! Prints rows, bytes, wall time and CPU time of the copy phase. Neighbour: `waggle copy bench`,
//! which pairs the whole program with the floor.

use std::error::Error;
use std::sync::Arc;

use waggle_copy::progress::Job;
use waggle_copy::throttle::Limits;
use waggle_copy::{Control, Plan, Until, job};
use waggle_wire::Dsn;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, ranges, slice] = args.as_slice() else {
        return Err("usage: copy_cost FROM_DSN TO_DSN RANGES SLICE_MIB".into());
    };
    let (source, target): (Dsn, Dsn) = (source.parse()?, target.parse()?);
    let plan = Plan {
        target_schema: target.database.clone(),
        source,
        target,
        job: Job::new("cost")?,
        tables: Vec::new(),
        until: Until::Copied,
        workers: ranges.parse()?,
        slice_bytes: slice.parse::<u64>()? << 20,
        range_rows: 1_000_000,
        defers_keys: true,
        json_as_text: false,
        verifies: false,
        limits: Limits::default(),
        spool: std::env::temp_dir().join(format!("copy-cost-{}", std::process::id())),
        spool_bytes_max: 1 << 30,
    };
    let outcome = job::run(&plan, &Arc::new(Control::new()), &mut |finding| {
        eprintln!("{finding}")
    });
    std::fs::remove_dir_all(&plan.spool)?;
    let outcome = outcome?;
    let gib = outcome.bytes as f64 / (1u64 << 30) as f64;
    println!(
        "{} rows, {} bytes, copy {:.3} s, copier {:.3} s of CPU, {:.3} s a GiB",
        outcome.rows,
        outcome.bytes,
        outcome.copy_s,
        outcome.copier_cpu_s,
        outcome.copier_cpu_s / gib
    );
    Ok(())
}
