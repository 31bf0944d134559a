//! Everything that is read of a program file, for a fuzzer and for the test of its corpus.
//!
//! Invariant: whatever the file, [`program`] ends, and panics only for a fault of this crate.

use std::fs::File;
use std::path::Path;

use crate::latch::DataSymbols;
use crate::unwind::Frames;
use crate::{Binary, Hook, LatchLayout, LockLayout, Marks, StatementLayout};
use crate::{boundary, function, hook, mark, redo, usdt};

/// Reads the file as `doctor`, `watch`, `trace` and `profile` do. Gives how many answers it had.
pub fn program(path: &Path) -> u32 {
    let mut answers = 0;
    let mut count = |had: bool| answers += u32::from(had);
    if let Ok(binary) = Binary::open(path, |_| true) {
        count(true);
        for hook in Hook::ALL {
            count(hook.find(&binary).is_ok());
        }
        count(hook::owner_offset(&binary).is_some());
        count(mark::routine_end(&binary).is_ok());
        std::hint::black_box((StatementLayout::find(&binary), Marks::find(&binary)));
        if let Ok(program) = function::Program::open(path) {
            count(redo::mariadb(&program, &binary).is_ok());
        }
    }
    count(LatchLayout::open(path).is_ok());
    count(LockLayout::open(path).is_ok());
    count(DataSymbols::of(path).is_ok());
    if let Ok(program) = function::Program::open(path) {
        count(true);
        for probe in usdt::probes(&program) {
            count(probe.site(&program).is_ok());
        }
        count(redo::mysql(&program).is_ok());
        for address in [0, 0x1000, 0x40_1000] {
            if let Ok(function) = program.around(address) {
                std::hint::black_box(boundary::first(&function));
            }
        }
    }
    if let Ok(file) = File::open(path)
        && let Ok(frames) = Frames::read(&file, 10_000)
    {
        count(frames.function_of(0x1000).is_some());
    }
    answers
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_is_answered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/program");
        let (mut files, mut answers) = (0, 0);
        for entry in std::fs::read_dir(folder).expect("the corpus is there") {
            answers += super::program(&entry.expect("a file of the corpus").path());
            files += 1;
        }
        // Files that nothing can be read of would test little.
        assert!(
            files >= 3 && answers > files,
            "{answers} answers of {files} files"
        );
    }
}
