//! Compiles each probe's BPF half and generates its Rust types from the shared header.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// One line a probe: the folder under `src/` that holds `probe.bpf.c` and `event.h`.
const PROBES: [&str; 1] = ["statement"];

/// Where the distribution keeps the machine's own headers (`asm/ptrace.h`).
const MULTIARCH: &str = "/usr/include/x86_64-linux-gnu";

fn clang_args() -> Vec<String> {
    let mut args = vec!["-Wall".into(), "-Werror".into(), "-mcpu=v3".into()];
    if Path::new(MULTIARCH).is_dir() {
        args.push(format!("-I{MULTIARCH}"));
    }
    args
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for probe in PROBES {
        let folder = PathBuf::from("src").join(probe);
        let source = folder.join("probe.bpf.c");
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{probe}.bpf.o")))
            .clang_args(clang_args())
            // Formatting generated code would need rustup's rustfmt component.
            .rustfmt("cat")
            .build_and_generate(out.join(format!("{probe}.skel.rs")));
        if let Err(error) = built {
            panic!(
                "compiling {}: {error:#}\nneeded: clang and linux-libc-dev \
                 (apt-get install clang linux-libc-dev)",
                source.display()
            );
        }
        println!("cargo::rerun-if-changed={}", source.display());
        println!(
            "cargo::rerun-if-changed={}",
            folder.join("event.h").display()
        );
    }
}
