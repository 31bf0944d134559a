//! What does it say of a thread that it waits in this system call?
//!
//! Numbers of x86-64, which the rest of the kernel half is for too.

use super::types::call_kind;

const OF_CALLS: &[(libc::c_long, call_kind)] = &[
    (libc::SYS_read, call_kind::CALL_READ),
    (libc::SYS_readv, call_kind::CALL_READ),
    (libc::SYS_write, call_kind::CALL_WRITE),
    (libc::SYS_writev, call_kind::CALL_WRITE),
    (libc::SYS_pread64, call_kind::CALL_DISK_READ),
    (libc::SYS_preadv, call_kind::CALL_DISK_READ),
    (libc::SYS_preadv2, call_kind::CALL_DISK_READ),
    (libc::SYS_open, call_kind::CALL_DISK_READ),
    (libc::SYS_openat, call_kind::CALL_DISK_READ),
    (libc::SYS_stat, call_kind::CALL_DISK_READ),
    (libc::SYS_fstat, call_kind::CALL_DISK_READ),
    (libc::SYS_getdents64, call_kind::CALL_DISK_READ),
    (libc::SYS_pwrite64, call_kind::CALL_DISK_WRITE),
    (libc::SYS_pwritev, call_kind::CALL_DISK_WRITE),
    (libc::SYS_pwritev2, call_kind::CALL_DISK_WRITE),
    (libc::SYS_fsync, call_kind::CALL_DISK_WRITE),
    (libc::SYS_fdatasync, call_kind::CALL_DISK_WRITE),
    (libc::SYS_sync_file_range, call_kind::CALL_DISK_WRITE),
    (libc::SYS_fallocate, call_kind::CALL_DISK_WRITE),
    (libc::SYS_ftruncate, call_kind::CALL_DISK_WRITE),
    (libc::SYS_sendto, call_kind::CALL_SEND),
    (libc::SYS_sendmsg, call_kind::CALL_SEND),
    (libc::SYS_recvfrom, call_kind::CALL_RECEIVE),
    (libc::SYS_recvmsg, call_kind::CALL_RECEIVE),
    // A worker of a thread pool waits here for any client.
    (libc::SYS_epoll_wait, call_kind::CALL_RECEIVE),
    (libc::SYS_epoll_pwait, call_kind::CALL_RECEIVE),
    (libc::SYS_poll, call_kind::CALL_POLL),
    (libc::SYS_ppoll, call_kind::CALL_POLL),
    (libc::SYS_futex, call_kind::CALL_FUTEX),
    (libc::SYS_nanosleep, call_kind::CALL_SLEEP),
    (libc::SYS_clock_nanosleep, call_kind::CALL_SLEEP),
];

/// Fills the kernel half's table: the kind of each system call by its number.
pub(super) fn fill(table: &mut [u8]) {
    for (number, kind) in OF_CALLS {
        let entry = usize::try_from(*number)
            .ok()
            .and_then(|number| table.get_mut(number));
        if let Some(entry) = entry {
            *entry = u8::try_from(kind.0).unwrap_or(0);
        }
    }
}
