//! Which eBPF programs does a process hold, and what has each cost so far?
//!
//! The kernel tells both: the programs behind a process's descriptors in `/proc/PID/fdinfo`, each
//! program's runs and run time by its id. So the cost of an agent's programs is read from outside,
//! also of one that is not waggle. Neighbour: [`crate::kernel::RunTimeStats`], without which the
//! kernel counts nothing.
//!
//! Invariant: a reading changes nothing, in the kernel or in the process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use crate::kernel;

/// A program and what it has cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    /// The kernel's number for it.
    pub id: u32,
    /// Its name, at most 15 characters.
    pub name: String,
    /// Where it runs: `probe` (after a trap, or at a kernel function), `tracepoint`, `perf event`
    /// or another word.
    pub kind: &'static str,
    /// Runs while the kernel counted them.
    pub runs: u64,
    /// Time in these runs, ns; without the trap that led there.
    pub ns: u64,
}

/// The programs that process `pid` holds a descriptor of, by id.
///
/// # Errors
/// The process is gone, or is not ours to look at.
pub fn held_by(pid: u32) -> io::Result<Vec<ProgramCost>> {
    let mut ids = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor may be closed between the listing and the look.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        if let Some((id, kind)) = program_of(&text) {
            ids.insert(id, kind);
        }
    }
    Ok(ids
        .into_iter()
        .filter_map(|(id, kind)| cost(id, kind))
        .collect())
}

/// Id and kind of the program that a descriptor stands for, by its `fdinfo`; links name a program
/// too, but not its type.
fn program_of(text: &str) -> Option<(u32, &'static str)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(':')?.trim().parse::<u32>().ok()
    };
    Some((field("prog_id")?, kind(field("prog_type")?)))
}

fn kind(number: u32) -> &'static str {
    match number {
        libbpf_sys::BPF_PROG_TYPE_KPROBE => "probe",
        libbpf_sys::BPF_PROG_TYPE_TRACEPOINT | libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT => {
            "tracepoint"
        }
        libbpf_sys::BPF_PROG_TYPE_PERF_EVENT => "perf event",
        libbpf_sys::BPF_PROG_TYPE_SOCKET_FILTER => "socket filter",
        libbpf_sys::BPF_PROG_TYPE_TRACING => "tracing",
        _ => "other",
    }
}

/// What the kernel knows of the program with this id; `None` if it is gone.
fn cost(id: u32, kind: &'static str) -> Option<ProgramCost> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) };
    if fd < 0 {
        return None;
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    let info = kernel::program_info(program.as_fd())?;
    let name = info.name.iter().take_while(|c| **c != 0);
    Some(ProgramCost {
        id,
        name: name.map(|c| char::from(c.cast_unsigned())).collect(),
        kind,
        runs: info.run_cnt,
        ns: info.run_time_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1033\nprog_type:\t2\n\
                           prog_jited:\t1\nprog_tag:\tdd1b6e1d3a4c1c62\nmemlock:\t4096\n\
                           prog_id:\t77\nrun_time_ns:\t12\nrun_cnt:\t3\n";

    #[test]
    fn a_programs_descriptor_tells_its_id_and_kind() {
        assert_eq!(program_of(PROGRAM), Some((77, "probe")));
    }

    #[test]
    fn links_maps_and_files_are_no_programs() {
        for text in [
            "pos:\t0\nlink_type:\tuprobe_multi\nlink_id:\t5\nprog_tag:\tdd1b\nprog_id:\t77\n",
            "pos:\t0\nmap_type:\t27\nmax_entries:\t8388608\nmap_id:\t4\n",
            "pos:\t0\nflags:\t0100000\n",
            "prog_id:\nprog_type:\tx\n",
            "",
        ] {
            assert_eq!(program_of(text), None, "{text}");
        }
    }

    #[test]
    fn damaged_text_never_panics() {
        let bytes = PROGRAM.as_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1 << bit;
                program_of(&String::from_utf8_lossy(&damaged));
                program_of(&String::from_utf8_lossy(&damaged[..at]));
            }
        }
    }

    #[test]
    fn a_process_without_programs_holds_none_and_a_missing_one_is_an_error() {
        assert_eq!(held_by(std::process::id()).unwrap(), []);
        assert!(held_by(u32::MAX).is_err());
    }
}
