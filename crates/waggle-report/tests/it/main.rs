//! The report crate from outside: run directories on real file systems, hostile run files, the
//! words of a lab report, the page and its code.

mod bench_example;
mod example;
mod hostile;
mod page;
mod profile;
mod profile_example;
mod run_dir;
mod study_example;
mod trace_example;
mod tune_example;
mod words;
