//! Makes up a run and writes its run directory, page included, to look at while working on it:
//! `cargo run -p waggle-report --example lab-page -- waggle-runs [KIND]`. KIND is `lab` (the
//! default), `variant` (a short lab run that uses every variant of the document and whose A/A check
//! failed), `study`, `study-variant` or `bench`.

#[path = "../tests/it/bench_example.rs"]
mod bench_example;
#[path = "../tests/it/example.rs"]
mod example;
#[path = "../tests/it/study_example.rs"]
mod study_example;

use std::path::Path;

use waggle_report::lab::LabReport;
use waggle_report::run::{Outcome, RunDir, RunError};
use waggle_report::study::StudyReport;

fn main() -> Result<(), RunError> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| "waggle-runs".to_owned());
    let root = Path::new(&root);
    match arguments.next().as_deref() {
        Some("variant") => {
            let mut report = example::every_variant();
            report.aa_clean = false;
            lab(root, &report)
        }
        Some("study") => study(root, &study_example::realistic_study()),
        Some("study-variant") => study(root, &study_example::every_study_variant()),
        Some("bench") => {
            println!("{}", bench_example::write(root, false).display());
            Ok(())
        }
        _ => lab(root, &example::realistic()),
    }
}

fn lab(root: &Path, report: &LabReport) -> Result<(), RunError> {
    let mut run = RunDir::create(root, "lab", "made-up")?;
    for window in &report.windows {
        run.append(window)?;
    }
    println!("{}", run.write_lab(report)?.display());
    run.finish(Outcome::Done, None).map(|_| ())
}

fn study(root: &Path, report: &StudyReport) -> Result<(), RunError> {
    let mut run = RunDir::create(root, "lab", "made-up-study")?;
    for window in report.cells.iter().flat_map(|cell| &cell.windows) {
        run.append(window)?;
    }
    println!("{}", run.write_study(report)?.display());
    run.finish(Outcome::Done, None).map(|_| ())
}
