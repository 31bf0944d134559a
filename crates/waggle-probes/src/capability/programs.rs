//! Which programs, maps and helper functions does the kernel accept?
//!
//! libbpf can tell whether a program type exists; only a real load tells whether a program of it
//! would be let in here, and with which error not.

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::ProgramType;
use libbpf_rs::libbpf_sys as sys;

use super::{Fact, Facts, Rights};

/// One program type and how its smallest program is loaded.
struct Kind {
    name: &'static str,
    program_type: ProgramType,
    /// The expected attach type; 0 where the kernel asks for none.
    attach: sys::bpf_attach_type,
    /// Kernel functions to aim at, the first that exists, for types that are checked against one.
    targets: &'static [&'static CStr],
    flags: u32,
    needed: bool,
}

impl Kind {
    const fn plain(name: &'static str, program_type: ProgramType) -> Self {
        Self {
            name,
            program_type,
            attach: 0,
            targets: &[],
            flags: 0,
            needed: false,
        }
    }

    const fn aimed(
        name: &'static str,
        program_type: ProgramType,
        attach: sys::bpf_attach_type,
        targets: &'static [&'static CStr],
    ) -> Self {
        Self {
            name,
            program_type,
            attach,
            targets,
            flags: 0,
            needed: false,
        }
    }
}

/// Functions that fentry programs are tried on: made for it, or else what a network probe hooks.
const FUNCTIONS: &[&CStr] = &[c"bpf_fentry_test1", c"tcp_sendmsg"];

const KINDS: [Kind; 14] = [
    Kind {
        needed: true,
        ..Kind::plain("kprobe", ProgramType::Kprobe)
    },
    Kind::plain("tracepoint", ProgramType::Tracepoint),
    Kind::plain("raw_tracepoint", ProgramType::RawTracepoint),
    Kind::plain("perf_event", ProgramType::PerfEvent),
    Kind::aimed(
        "tracing_fentry",
        ProgramType::Tracing,
        sys::BPF_TRACE_FENTRY,
        FUNCTIONS,
    ),
    Kind::aimed(
        "tracing_fexit",
        ProgramType::Tracing,
        sys::BPF_TRACE_FEXIT,
        FUNCTIONS,
    ),
    Kind::aimed(
        "tracing_tp_btf",
        ProgramType::Tracing,
        sys::BPF_TRACE_RAW_TP,
        &[c"sched_switch"],
    ),
    Kind::aimed("lsm", ProgramType::Lsm, sys::BPF_LSM_MAC, &[c"file_open"]),
    Kind::plain("socket_filter", ProgramType::SocketFilter),
    Kind::plain("cgroup_skb", ProgramType::CgroupSkb),
    Kind::plain("sched_cls", ProgramType::SchedCls),
    Kind::plain("xdp", ProgramType::Xdp),
    Kind::plain("struct_ops", ProgramType::StructOps),
    Kind {
        flags: sys::BPF_F_SLEEPABLE,
        ..Kind::plain("syscall", ProgramType::Syscall)
    },
];

/// Tries every program type.
pub(super) fn types(rights: &Rights, has_btf: bool) -> Facts {
    let answer = |kind: &Kind| {
        if !rights.can_load {
            return rights.not_tried(kind.name);
        }
        if !kind.targets.is_empty() && !has_btf {
            let remedy = "use a kernel with BTF (CONFIG_DEBUG_INFO_BTF=y)";
            return Fact::no(kind.name, "needs the kernel's BTF", remedy);
        }
        if kind.program_type == ProgramType::StructOps {
            return struct_ops(kind.name);
        }
        match load(kind) {
            Ok(_) => Fact::yes(kind.name, ""),
            Err(refusal) => refusal.fact(kind.name, rights),
        }
    };
    let fact = |kind: &Kind| Fact {
        needed: kind.needed,
        ..answer(kind)
    };
    Facts(KINDS.iter().map(fact).collect())
}

/// A program of this type implements a kernel interface, so libbpf's look is as far as one gets.
fn struct_ops(name: &'static str) -> Fact {
    match ProgramType::StructOps.is_supported() {
        Ok(true) => Fact::yes(name, ""),
        Ok(false) => Fact::no(
            name,
            "unknown to this kernel",
            "use Linux 5.6 or newer, with BTF",
        ),
        Err(error) => Fact::unknown(name, error.to_string(), ""),
    }
}

/// Why a program was not let in.
struct Refusal {
    error: io::Error,
    /// The verifier's own words, if it came so far.
    log: String,
}

impl Refusal {
    fn fact(&self, name: &'static str, rights: &Rights) -> Fact {
        let code = self.error.raw_os_error().unwrap_or(0);
        let said = self.log.lines().map(str::trim).find(|line| {
            !line.is_empty() && !line.starts_with("processed ") && !line.starts_with("0:")
        });
        let reason = match said {
            Some(said) => format!("{said} ({})", errno_name(code)),
            None => format!("refused without a word ({})", errno_name(code)),
        };
        let remedy = match code {
            libc::EPERM | libc::EACCES if rights.seccomp_filter => {
                "allow bpf() in the container's seccomp profile"
            }
            libc::EPERM | libc::EACCES => {
                "watching does not need it; the rights suffice, so this kernel's policy forbids it \
                 (lockdown, a security module, the hypervisor)"
            }
            libc::ENOENT | libc::ESRCH => "use a kernel that has the function it is tried on",
            libc::EINVAL if said.is_none() => "use a kernel that is configured with it",
            _ => "see the kernel's log (dmesg); watching needs the type kprobe only",
        };
        Fact::no(name, reason, remedy)
    }
}

/// Loads `r0 = 0; exit` as a program of this kind; it is gone when the descriptor closes.
fn load(kind: &Kind) -> Result<OwnedFd, Refusal> {
    let refusal = |code: i32, log: &[c_char]| {
        // SAFETY: the buffer is zeroed and one longer than the kernel was told, so it ends.
        let log = unsafe { CStr::from_ptr(log.as_ptr()) }
            .to_string_lossy()
            .into_owned();
        Refusal {
            error: io::Error::from_raw_os_error(code),
            log,
        }
    };
    let program = [
        sys::bpf_insn {
            code: 0xb7,
            ..Default::default()
        },
        sys::bpf_insn {
            code: 0x95,
            ..Default::default()
        },
    ];
    let mut log: [c_char; 4097] = [0; 4097];
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as u64,
        expected_attach_type: kind.attach,
        prog_flags: kind.flags,
        attach_btf_id: target(kind).map_err(|code| refusal(code, &[0]))?,
        log_level: 1,
        log_size: 4096,
        log_buf: log.as_mut_ptr(),
        ..Default::default()
    };
    // SAFETY: every pointer is to a local that outlives the call, with the lengths given.
    let fd = unsafe {
        sys::bpf_prog_load(
            kind.program_type as u32,
            c"waggle_try".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            &raw mut options,
        )
    };
    if fd < 0 {
        return Err(refusal(-fd, &log));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The BTF id of the first of the kind's targets that the kernel has; 0 if it aims at none.
fn target(kind: &Kind) -> Result<u32, i32> {
    let mut code = 0;
    for name in kind.targets {
        // SAFETY: the name is a C string; libbpf adds the prefix of the attach type itself.
        let id = unsafe { sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), kind.attach) };
        match u32::try_from(id) {
            Ok(id) if id > 0 => return Ok(id),
            _ => code = -id,
        }
    }
    if code == 0 { Ok(0) } else { Err(code) }
}

/// The symbol of an error number, as manuals and searches have it.
pub(super) fn errno_name(code: i32) -> String {
    match code {
        libc::EPERM => "EPERM".into(),
        libc::ENOENT => "ENOENT".into(),
        libc::ESRCH => "ESRCH".into(),
        libc::EACCES => "EACCES".into(),
        libc::EBUSY => "EBUSY".into(),
        libc::ENODEV => "ENODEV".into(),
        libc::EINVAL => "EINVAL".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::EOPNOTSUPP => "EOPNOTSUPP".into(),
        // The kernel's own "not supported", which it lets slip out to programs.
        524 => "ENOTSUPP".into(),
        other => format!("error {other}"),
    }
}
