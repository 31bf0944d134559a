//! Nothing that stands in a program's file makes the search for functions, boundaries, static
//! probes or redo logs fail otherwise than by saying so.

use std::fs;
use std::path::Path;
use std::process::Command;

use waggle_symbols::function::Program;
use waggle_symbols::{Binary, boundary, redo, usdt};

/// A generator with a seed, so that what failed once fails again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below a usize")
    }
}

/// Looks for everything; returns how much was found.
fn look(path: &Path) -> usize {
    let Ok(program) = Program::open(path) else {
        return 0;
    };
    let mut found = 0;
    for name in ["work", "main", "outer", "nothing::here(int)"] {
        let Ok(function) = program.function(name) else {
            continue;
        };
        found += 1;
        for at in 0..32 {
            let address = function.address.wrapping_add(at);
            found += usize::from(boundary::at_address(&function, address).is_ok());
            let _ = boundary::behind(&function, address);
            let _ = program.around(address);
            let _ = program.starting_at(address);
        }
        let _ = boundary::at_offset(&program, function.file_offset, &function.code[..1]);
    }
    for probe in usdt::probes(&program) {
        found += usize::from(probe.site(&program).is_ok());
        let _ = probe.semaphore_offset(&program);
    }
    let _ = program.address("progress");
    let _ = program.image(0x5000, 0x9000, 0x1000);
    assert!(redo::mysql(&program).is_err(), "it has no redo log");
    if let Ok(binary) = Binary::open(path, redo::wanted) {
        assert!(redo::mariadb(&program, &binary).is_err());
    }
    found
}

#[test]
fn a_damaged_program_is_refused_or_searched() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("points");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets/points.c");
    let status = Command::new("cc")
        .args(["-O2", "-pthread", "-rdynamic", "-o"])
        .arg(&path)
        .arg(source)
        .status()
        .expect("cc");
    assert!(status.success());
    let whole = fs::read(&path).expect("the program");
    let all = look(&path);
    assert!(all > 20, "{all}");
    let mut random = Random(0x5eed);
    let mut changed = 0;
    for round in 0..400 {
        let mut bytes = whole.clone();
        // The header and its tables more often than the rest.
        let bound = if round % 2 == 0 { 1024 } else { bytes.len() };
        for _ in 0..=random.below(6) {
            let from = match round % 3 {
                0 => bytes.len() - bound.min(4096),
                _ => 0,
            };
            let at = from + random.below(bound.min(bytes.len() - from));
            bytes[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        if round % 7 == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        fs::write(&path, &bytes).expect("written");
        changed += usize::from(look(&path) != all);
    }
    // The damage was where it was looked for.
    assert!(changed > 40, "{changed}");
}
