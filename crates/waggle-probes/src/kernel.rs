//! What this kernel can do, found once, as data; and the few switches that are kernel-wide.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use libbpf_rs::libbpf_sys;

/// Where the kernel describes its own types. `WAGGLE_BTF` names another file, for tests.
pub fn btf_path() -> PathBuf {
    std::env::var_os("WAGGLE_BTF")
        .map_or_else(|| PathBuf::from("/sys/kernel/btf/vmlinux"), PathBuf::from)
}

/// Major and minor version of the running kernel.
pub fn version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    })
}

/// True if uprobes are attached by a link of their own kind, which filters by process.
///
/// The link exists since 6.6, but until 6.11 its process filter matched one thread only.
pub fn has_uprobe_multi() -> bool {
    version() >= (6, 11)
}

/// What libbpf said since the last [`take_messages`]; the verifier's log is among it.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// Keeps libbpf from writing to stderr: what it says goes into the error that follows.
pub(crate) fn collect_messages() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        if let Ok(mut messages) = MESSAGES.lock()
            && messages.len() < 1 << 20
        {
            messages.push_str(&text);
        }
    })));
}

/// The collected messages, last lines last.
pub(crate) fn take_messages() -> String {
    MESSAGES
        .lock()
        .map(|mut m| std::mem::take(&mut *m))
        .unwrap_or_default()
}

/// The end of libbpf's messages, where the cause stands, each on a line of its own.
pub(crate) fn last_messages() -> String {
    let messages = take_messages();
    let lines: Vec<&str> = messages.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(12)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}

/// While held, the kernel counts runs and run time of every BPF program on the host.
///
/// This costs each program some 30 ns a run, so it is never held in a measured window.
#[derive(Debug)]
pub struct RunTimeStats {
    _fd: OwnedFd,
}

impl RunTimeStats {
    /// Switches the counting on; it ends with the value, or with the process.
    ///
    /// # Errors
    /// The kernel is older than 5.8, or refuses.
    pub fn hold() -> std::io::Result<Self> {
        // SAFETY: a plain system call; the result is checked.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(std::io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _fd: fd })
    }
}

/// Counts run times in the first second of every ten that something is attached: what all is, is
/// scaled from that, and nine of ten seconds cost nothing.
///
/// The time is the caller's: that in which its programs were attached, so that what is scaled and
/// what it is scaled by are of the same time.
#[derive(Debug, Default)]
pub struct SampledRunTimes {
    stats: Option<RunTimeStats>,
    /// While they are held: since when.
    since_ns: u64,
    /// For how long they were, before.
    counted_ns: u64,
}

/// Of so much time, ns, the first [`SAMPLED_NS`] are counted.
const SAMPLED_EVERY_NS: u64 = 10_000_000_000;
const SAMPLED_NS: u64 = 1_000_000_000;

impl SampledRunTimes {
    /// Something was attached for `attached_ns` so far: switches the counting on or off.
    pub fn at(&mut self, attached_ns: u64) {
        let wanted = attached_ns % SAMPLED_EVERY_NS < SAMPLED_NS;
        if !wanted {
            self.release(attached_ns);
        } else if self.stats.is_none() {
            self.stats = RunTimeStats::hold().ok();
            self.since_ns = attached_ns;
        }
    }

    /// Switches it off: something was attached for so long so far.
    pub fn release(&mut self, attached_ns: u64) {
        self.counted_ns = self.counted_ns(attached_ns);
        self.stats = None;
    }

    /// For how long it was counted so far, ns; 0 if the kernel does not count.
    pub fn counted_ns(&self, attached_ns: u64) -> u64 {
        let held = self.stats.as_ref().map(|_| attached_ns);
        let held_ns = held.map_or(0, |now| now.saturating_sub(self.since_ns));
        self.counted_ns + held_ns
    }

    /// By what counted runs and run times are to be multiplied; 1 if nothing was counted.
    pub fn scale(&self, attached_ns: u64) -> f64 {
        match self.counted_ns(attached_ns) {
            0 => 1.0,
            counted_ns => (attached_ns as f64 / counted_ns as f64).max(1.0),
        }
    }
}

/// Runs and run time (ns) of a program, over the time [`RunTimeStats`] was held.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> Option<(u64, u64)> {
    program_info(program).map(|info| (info.run_cnt, info.run_time_ns))
}

/// What the kernel knows of a program, without any array.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is writable for `length` bytes, and zeroed pointers ask for no arrays.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    };
    (result == 0).then_some(info)
}
