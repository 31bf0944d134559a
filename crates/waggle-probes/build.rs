//! Compiles each probe's BPF half and generates its Rust types from the shared header.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// One line an object: its name, the folder under `src/` that holds `probe.bpf.c` and `event.h`,
/// and what the preprocessor is told.
const PROBES: &[(&str, &str, &str)] = &[
    ("burn", "burn", ""),
    ("call", "call", ""),
    ("latch", "latch", ""),
    ("lock", "lock", ""),
    ("point", "point", ""),
    ("statement", "statement", ""),
    // With the breakdown of time: only for kernels that describe their types.
    ("statement_times", "statement", "-DSTATEMENT_TIMES"),
    ("sample", "sample", ""),
    ("sched", "sched", ""),
    ("timeline", "timeline", ""),
];

/// Where the distribution keeps the machine's own headers (`asm/ptrace.h`).
const MULTIARCH: &str = "/usr/include/x86_64-linux-gnu";

fn clang_args() -> Vec<String> {
    let mut args = vec!["-Wall".into(), "-Werror".into(), "-mcpu=v3".into()];
    if Path::new(MULTIARCH).is_dir() {
        args.push(format!("-I{MULTIARCH}"));
    }
    args
}

/// Stands for rustfmt, which not every toolchain has. It has to take all of its input before it
/// writes: the generator does not read meanwhile, so `cat` alone would block at 64 KiB.
fn write_formatter(out: &Path) -> PathBuf {
    let path = out.join("unformatted.sh");
    let script = "#!/bin/sh\ncat > \"$0.$$\" && cat \"$0.$$\" && rm \"$0.$$\"\n";
    fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .expect("OUT_DIR can be written");
    path
}

/// The files in C of a folder.
fn parts_of(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("the folder can be read");
    let files = files.map(|file| file.expect("an entry").path());
    let is_c = |path: &PathBuf| path.extension().is_some_and(|end| end == "c" || end == "h");
    files.filter(is_c).collect()
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let formatter = write_formatter(&out);
    for part in parts_of(Path::new("src/bpf")) {
        println!("cargo::rerun-if-changed={}", part.display());
    }
    for &(probe, folder, define) in PROBES {
        let folder = PathBuf::from("src").join(folder);
        let source = folder.join("probe.bpf.c");
        let mut args = clang_args();
        args.extend((!define.is_empty()).then(|| define.to_owned()));
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{probe}.bpf.o")))
            .clang_args(args)
            .rustfmt(&formatter)
            .build_and_generate(out.join(format!("{probe}.skel.rs")));
        if let Err(error) = built {
            panic!(
                "compiling {}: {error:#}\nneeded: clang and linux-libc-dev \
                 (apt-get install clang linux-libc-dev)",
                source.display()
            );
        }
        for part in parts_of(&folder) {
            println!("cargo::rerun-if-changed={}", part.display());
        }
    }
}
