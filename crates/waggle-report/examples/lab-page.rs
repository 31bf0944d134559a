//! Makes up a lab run and writes its run directory, page included, to look at while working on
//! it: `cargo run -p waggle-report --example lab-page -- waggle-runs [variant]`. With `variant`, a
//! short run that uses every variant of the document and whose A/A check failed.

#[path = "../tests/it/example.rs"]
mod example;

use std::path::Path;

use waggle_report::run::{Outcome, RunDir, RunError};

fn main() -> Result<(), RunError> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| "waggle-runs".to_owned());
    let report = if arguments.next().is_some() {
        let mut report = example::every_variant();
        report.aa_clean = false;
        report
    } else {
        example::realistic()
    };
    let mut run = RunDir::create(Path::new(&root), "lab", "made-up")?;
    for window in &report.windows {
        run.append(window)?;
    }
    println!("{}", run.write_lab(&report)?.display());
    run.finish(Outcome::Done, None)?;
    Ok(())
}
