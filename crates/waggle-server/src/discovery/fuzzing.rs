//! Every text that is read of a process, for a fuzzer and for the test of its corpus.
//!
//! Invariant: whatever the bytes, [`process`] ends, and panics only for a fault of this crate.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::option_files::Settings;
use super::sockets::{listening_tcp, listening_unix};
use super::whereabouts::{control_group, plain_name};
use super::{last_pid, started_ticks};
use crate::process;

/// Takes the input for a command line, the option files, and each of the kernel's texts.
pub fn process(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let arguments: Vec<String> = text.split('\0').map(str::to_owned).collect();
    let read = |path: &str| Some(format!("{text}\n!include {path}\n!includedir {path}"));
    let list = |directory: &str| vec![format!("{directory}/a.cnf"); 3];
    let settings = Settings::from(&arguments, read, list);
    assert_ne!(settings.port, Some(0));
    let inodes: HashSet<u64> = (1..100).collect();
    for path in text
        .lines()
        .filter_map(|line| listening_unix(line, &inodes))
    {
        assert!(path.starts_with('/'));
    }
    for line in text.lines() {
        std::hint::black_box(listening_tcp(line, &inodes));
    }
    if let (Some(group), _) = control_group(&text) {
        assert!(group.chars().count() <= 4096);
    }
    assert!(plain_name(&text).is_none_or(|name| name.len() <= 64));
    std::hint::black_box((
        last_pid(&text),
        started_ticks(input),
        process::mapping_base(&text, 1),
    ));
    let link = OsString::from_vec(input.to_vec());
    std::hint::black_box(process::without_deleted_mark(PathBuf::from(link)));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_is_answered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/process");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).expect("the corpus is there") {
            let path = entry.expect("a file of the corpus").path();
            super::process(&std::fs::read(path).expect("it can be read"));
            files += 1;
        }
        assert!(files >= 4, "{files} files");
    }
}
