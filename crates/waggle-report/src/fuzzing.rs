//! A run directory from elsewhere, for a fuzzer and for the test of its corpus.
//!
//! Invariant: whatever the files hold, [`read`] ends, and panics only for a fault of this crate.

use std::path::Path;

use crate::document::Document;
use crate::run::{
    FORMAT_VERSION, LAB_FILE, PROFILE_FILE, RESULT_FILE, RUN_FILE, Run, SAMPLES_FILE, STUDY_FILE,
    TRACE_FILE, TUNE_FILE,
};
use crate::summary;

/// What a run directory may hold; a part of the input begins with the place in this list.
const FILES: [&str; 8] = [
    RUN_FILE,
    SAMPLES_FILE,
    LAB_FILE,
    STUDY_FILE,
    TRACE_FILE,
    TUNE_FILE,
    RESULT_FILE,
    PROFILE_FILE,
];
/// Stands before each part, and before it the place of its file as a letter from `a` on.
const MARK: &[u8] = b"=====";

/// Takes the input apart: what each file of the directory holds. A run without facts has some.
#[must_use]
pub fn files(input: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![(
        RUN_FILE,
        format!("{{\"format_version\":{FORMAT_VERSION},\"verb\":\"bench\"}}").into_bytes(),
    )];
    let mut rest = input;
    while let Some(at) = mark_in(rest) {
        let Some((&letter, body)) = rest[at + MARK.len()..].split_first() else {
            break;
        };
        let end = mark_in(body).unwrap_or(body.len());
        let name = FILES[usize::from(letter.wrapping_sub(b'a')) % FILES.len()];
        files.push((name, body[..end].to_vec()));
        rest = &body[end..];
    }
    files
}

fn mark_in(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MARK.len()).position(|found| found == MARK)
}

/// Opens the run and makes every form of it. Gives how many there were.
pub fn read(directory: &Path) -> u32 {
    let Ok(run) = Run::open(directory) else {
        return 0;
    };
    let mut forms = 0;
    let mut count = |had: bool| forms += u32::from(had);
    count(summary::text(&run, false).is_ok());
    if let Ok(samples) = run.samples() {
        count(true);
        std::hint::black_box(samples);
    }
    if let Ok(document) = Document::read(&run) {
        count(document.html().is_some());
        count(document.markdown().is_some());
        count(document.windows_csv().is_some());
        count(document.results_csv().is_some());
        count(document.json(&run).is_ok());
    }
    for name in run.histogram_names() {
        count(run.histogram(&name).is_ok());
    }
    forms
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_is_answered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/run");
        let (mut inputs, mut forms) = (0, 0);
        for entry in std::fs::read_dir(folder).expect("the corpus is there") {
            let input = std::fs::read(entry.expect("a file of the corpus").path());
            let directory = tempfile::tempdir().expect("a directory");
            for (name, body) in super::files(&input.expect("it can be read")) {
                std::fs::write(directory.path().join(name), body).expect("a file");
            }
            forms += super::read(directory.path());
            inputs += 1;
        }
        // Runs that nothing can be made of would test little.
        assert!(
            inputs >= 4 && forms > 2 * inputs,
            "{forms} forms of {inputs} runs"
        );
    }
}
