//! Nothing that stands in a server binary makes the decoder fail otherwise than by saying so.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use proptest::prelude::*;
use waggle_need::skip;
use waggle_symbols::trace::{operands, trace};
use waggle_symbols::{Binary, Function, Hook, Marks, Site, StatementLayout, hook, recipe};

fn function(code: Vec<u8>) -> Function {
    Function {
        name: "f".to_owned(),
        // Near the top, so that sums of addresses are tried too.
        address: 0xffff_ffff_ffff_0000,
        file_offset: 0,
        code,
    }
}

proptest! {
    #[test]
    fn any_bytes_are_followed(code in proptest::collection::vec(any::<u8>(), 0..512)) {
        let function = function(code);
        let bytes = function.code.len();
        let _ = trace(&function);
        prop_assert!(operands(&function).count() <= bytes);
        for argument in 0..6 {
            if let Ok(site) = Site::find(&function, argument) {
                let end = site.function_offset + site.bytes.len() as u64;
                prop_assert!(end <= bytes as u64);
            }
        }
        if let Ok((site, registers)) = Site::find_holding(&function, &[1, 0]) {
            prop_assert_eq!(registers.len(), 2);
            prop_assert_eq!(registers[0], site.register);
            // A register cannot hold both.
            prop_assert_ne!(registers[0], registers[1]);
        }
    }
}

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

/// Whatever is damaged in the code that is decoded, or in the file's header, each field and hook
/// is found or has a reason.
#[test]
fn a_damaged_program_is_refused_or_decoded() {
    let program = Path::new("/usr/sbin/mariadbd");
    if !program.exists() {
        return skip("mariadb", "no server binary on this host");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    std::fs::copy(program, &path).expect("a copy");
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the copy");
    let binary = Binary::open(program, recipe::wanted).expect("a server binary");
    // Where the decoder looks: the header, and the beginnings of functions.
    let header = (0, vec![0u8; 512]);
    let mut places: Vec<(u64, Vec<u8>)> = binary
        .functions()
        .map(|f| (f.file_offset, f.code))
        .chain([header])
        .collect();
    let source = std::fs::File::open(program).expect("the program");
    for (offset, bytes) in &mut places {
        bytes.truncate(512);
        source.read_exact_at(bytes, *offset).expect("its bytes");
    }
    let mut random = Random(0x5eed);
    let mut refused = 0;
    for _ in 0..12 {
        for (offset, bytes) in &places {
            let mut damaged = bytes.clone();
            for _ in 0..random.below(4) {
                let at = random.below(damaged.len());
                damaged[at] = u8::try_from(random.below(256)).expect("a byte");
            }
            file.write_all_at(&damaged, *offset).expect("written");
        }
        let Ok(binary) = Binary::open(&path, recipe::wanted) else {
            refused += 1;
            continue;
        };
        for field in &StatementLayout::decode(&binary).fields {
            let why = field.found.as_ref().err();
            refused += u32::from(why.is_some());
            assert!(why.is_none_or(|why| !why.is_empty()));
        }
        let _ = Hook::ALL.map(|hook| hook.find(&binary));
        let _ = hook::owner_offset(&binary);
        let _ = Marks::find(&binary);
    }
    // The damage was where it was looked for.
    assert!(refused > 12, "{refused}");
}
