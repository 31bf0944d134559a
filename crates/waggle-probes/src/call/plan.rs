//! What the kernel half is told before it is loaded: which functions, and where their sums stand.

use std::time::Duration;

use waggle_symbols::Site;

use super::skeleton::types::{self, call_syscall};

/// Most functions at once, chosen and children together.
pub const FUNCTIONS_MAX: usize = 128;
/// Most children.
pub const CHILDREN_MAX: usize = 32;
/// Room for places that functions are called from.
const CALLERS: u32 = 512;

/// A function to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Where it begins ([`Site::at_entry`]).
    pub site: Site,
    /// It has a line of its own.
    pub chosen: bool,
    /// Its calls within chosen functions are counted.
    pub child: bool,
}

/// How calls are watched.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Also by the place a function is called from.
    pub by_caller: bool,
    /// Calls of chosen functions as long as this are told of one by one.
    pub slower: Option<Duration>,
    /// Room for these, bytes.
    pub ring_bytes: u32,
}

/// Where the sums stand.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sites: Vec<Site>,
    pub(super) chosen: usize,
    pub(super) children: usize,
    /// Room for series by caller.
    pub(super) callers: u32,
}

impl Plan {
    pub(super) fn of(functions: &[Watched], options: &Options) -> Self {
        Self {
            sites: functions.iter().map(|f| f.site.clone()).collect(),
            chosen: functions.iter().filter(|f| f.chosen).count(),
            children: functions.iter().filter(|f| f.child).count(),
            callers: if options.by_caller { CALLERS } else { 0 },
        }
    }

    /// Series whose place is known from the start.
    pub(super) fn fixed(&self) -> usize {
        self.chosen + self.chosen * self.children
    }

    /// All series there is room for.
    pub(super) fn series(&self) -> u32 {
        let fixed = u32::try_from(self.fixed()).unwrap_or(u32::MAX);
        fixed.saturating_add(self.callers).max(1)
    }

    pub(super) fn config(
        &self,
        pid: u32,
        functions: &[Watched],
        options: &Options,
    ) -> types::call_config {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let slower = options.slower.map_or(0, |least| least.as_nanos());
        let mut config = types::call_config {
            tgid: pid,
            children: count(self.children),
            chosen: count(self.chosen),
            by_caller: options.by_caller.into(),
            series: self.series(),
            series_fixed: count(self.fixed()),
            slower_ns: u64::try_from(slower).unwrap_or(u64::MAX),
            ..Default::default()
        };
        let (mut chosen, mut children) = (0, 0);
        for (function, entry) in functions.iter().zip(&mut config.functions) {
            let number = |wanted: bool, so_far: &mut u16| {
                *so_far += u16::from(wanted);
                if wanted { *so_far } else { 0 }
            };
            entry.chosen = number(function.chosen, &mut chosen);
            entry.child = number(function.child, &mut children);
        }
        for (call, kind) in SYSCALLS {
            let entry = usize::try_from(*call)
                .ok()
                .and_then(|number| config.syscalls.get_mut(number));
            if let Some(entry) = entry {
                *entry = u8::try_from(kind.0).unwrap_or(0);
            }
        }
        config
    }
}

/// What a system call says of a thread that waits in it; numbers of x86-64.
const SYSCALLS: &[(libc::c_long, call_syscall)] = &[
    (libc::SYS_futex, call_syscall::CALL_SYS_FUTEX),
    // futex_waitv, futex_wait.
    (449, call_syscall::CALL_SYS_FUTEX),
    (455, call_syscall::CALL_SYS_FUTEX),
    (libc::SYS_read, call_syscall::CALL_SYS_FILE),
    (libc::SYS_readv, call_syscall::CALL_SYS_FILE),
    (libc::SYS_write, call_syscall::CALL_SYS_FILE),
    (libc::SYS_writev, call_syscall::CALL_SYS_FILE),
    (libc::SYS_pread64, call_syscall::CALL_SYS_DISK),
    (libc::SYS_preadv, call_syscall::CALL_SYS_DISK),
    (libc::SYS_preadv2, call_syscall::CALL_SYS_DISK),
    (libc::SYS_pwrite64, call_syscall::CALL_SYS_DISK),
    (libc::SYS_pwritev, call_syscall::CALL_SYS_DISK),
    (libc::SYS_pwritev2, call_syscall::CALL_SYS_DISK),
    (libc::SYS_open, call_syscall::CALL_SYS_DISK),
    (libc::SYS_openat, call_syscall::CALL_SYS_DISK),
    (libc::SYS_stat, call_syscall::CALL_SYS_DISK),
    (libc::SYS_fstat, call_syscall::CALL_SYS_DISK),
    (libc::SYS_unlink, call_syscall::CALL_SYS_DISK),
    (libc::SYS_rename, call_syscall::CALL_SYS_DISK),
    (libc::SYS_getdents64, call_syscall::CALL_SYS_DISK),
    (libc::SYS_fsync, call_syscall::CALL_SYS_DISK),
    (libc::SYS_fdatasync, call_syscall::CALL_SYS_DISK),
    (libc::SYS_sync_file_range, call_syscall::CALL_SYS_DISK),
    (libc::SYS_fallocate, call_syscall::CALL_SYS_DISK),
    (libc::SYS_ftruncate, call_syscall::CALL_SYS_DISK),
    (libc::SYS_io_getevents, call_syscall::CALL_SYS_DISK),
    (libc::SYS_io_submit, call_syscall::CALL_SYS_DISK),
    (libc::SYS_sendto, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_sendmsg, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_recvfrom, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_recvmsg, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_accept4, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_poll, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_ppoll, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_epoll_wait, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_epoll_pwait, call_syscall::CALL_SYS_NETWORK),
    (libc::SYS_nanosleep, call_syscall::CALL_SYS_SLEEP),
    (libc::SYS_clock_nanosleep, call_syscall::CALL_SYS_SLEEP),
];
