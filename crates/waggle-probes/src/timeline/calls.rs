//! What does a thread wait for that waits in this system call?
//!
//! Numbers of x86-64, which the rest of the kernel half is for too.

use super::types::timeline_why as why;

/// Since Linux 6.7; `libc` does not name it everywhere.
const SYS_FUTEX_WAIT: libc::c_long = 455;

const OF_CALLS: &[(libc::c_long, why)] = &[
    (libc::SYS_read, why::WHY_FILE),
    (libc::SYS_readv, why::WHY_FILE),
    (libc::SYS_write, why::WHY_FILE),
    (libc::SYS_writev, why::WHY_FILE),
    (libc::SYS_pread64, why::WHY_DISK),
    (libc::SYS_preadv, why::WHY_DISK),
    (libc::SYS_preadv2, why::WHY_DISK),
    (libc::SYS_pwrite64, why::WHY_DISK),
    (libc::SYS_pwritev, why::WHY_DISK),
    (libc::SYS_pwritev2, why::WHY_DISK),
    (libc::SYS_open, why::WHY_DISK),
    (libc::SYS_openat, why::WHY_DISK),
    (libc::SYS_stat, why::WHY_DISK),
    (libc::SYS_fstat, why::WHY_DISK),
    (libc::SYS_newfstatat, why::WHY_DISK),
    (libc::SYS_unlink, why::WHY_DISK),
    (libc::SYS_rename, why::WHY_DISK),
    (libc::SYS_getdents64, why::WHY_DISK),
    (libc::SYS_fsync, why::WHY_DISK),
    (libc::SYS_fdatasync, why::WHY_DISK),
    (libc::SYS_msync, why::WHY_DISK),
    (libc::SYS_sync_file_range, why::WHY_DISK),
    (libc::SYS_fallocate, why::WHY_DISK),
    (libc::SYS_ftruncate, why::WHY_DISK),
    (libc::SYS_sendto, why::WHY_NETWORK),
    (libc::SYS_sendmsg, why::WHY_NETWORK),
    (libc::SYS_sendmmsg, why::WHY_NETWORK),
    (libc::SYS_recvfrom, why::WHY_NETWORK),
    (libc::SYS_recvmsg, why::WHY_NETWORK),
    (libc::SYS_recvmmsg, why::WHY_NETWORK),
    (libc::SYS_connect, why::WHY_NETWORK),
    (libc::SYS_accept, why::WHY_NETWORK),
    (libc::SYS_accept4, why::WHY_NETWORK),
    (libc::SYS_poll, why::WHY_NETWORK),
    (libc::SYS_ppoll, why::WHY_NETWORK),
    (libc::SYS_select, why::WHY_NETWORK),
    (libc::SYS_pselect6, why::WHY_NETWORK),
    (libc::SYS_epoll_wait, why::WHY_NETWORK),
    (libc::SYS_epoll_pwait, why::WHY_NETWORK),
    (libc::SYS_futex, why::WHY_FUTEX),
    (SYS_FUTEX_WAIT, why::WHY_FUTEX),
    (libc::SYS_nanosleep, why::WHY_SLEEP),
    (libc::SYS_clock_nanosleep, why::WHY_SLEEP),
];

/// Fills the kernel half's table.
pub(super) fn fill(table: &mut [u8]) {
    for (number, reason) in OF_CALLS {
        let entry = usize::try_from(*number)
            .ok()
            .and_then(|number| table.get_mut(number));
        if let Some(entry) = entry {
            *entry = u8::try_from(reason.0).unwrap_or(0);
        }
    }
}
