//! What runs between fork and exec: the guardian, and the server before it is one.
//!
//! Forked by [`super::guardian`] with what was `prepared`; here is the guardian, in `server` what
//! becomes the server. Invariant: nothing after the fork allocates, locks, unwinds or touches
//! memory that was not prepared before it. Every call is async-signal-safe.

mod prepared;
mod server;

use std::os::fd::RawFd;

use libc::c_int;

use server::{become_server, become_user};

pub(super) use prepared::Prepared;

/// Records of the status pipe: three native words. `STARTED pid 0`, `FAILED step errno`,
/// `EXITED si_code si_status`.
pub(super) const RECORD_BYTES: usize = 12;
pub(super) const STARTED: i32 = 1;
pub(super) const FAILED: i32 = 2;
pub(super) const EXITED: i32 = 3;

/// What can fail before the server runs.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(super) enum Step {
    Fork = 1,
    PidFd,
    Parent,
    Namespace,
    Private,
    Mount,
    Device,
    Chroot,
    Rights,
    Account,
    Exec,
}

impl Step {
    /// The step as part of an error message.
    pub(super) fn name(step: i32) -> &'static str {
        match step {
            1 => "no process could be forked",
            2 => "no pidfd could be had (Linux 5.3 or newer is needed)",
            3 => "its guardian died first",
            4 => "no mount namespace could be made (needs root and CAP_SYS_ADMIN)",
            5 => "the mounts could not be made private",
            6 => "a directory could not be mounted into its root",
            7 => "a device could not be mounted into its root",
            8 => "its root could not be entered",
            9 => "its rights could not be taken from it",
            10 => "it could not be given a user of its own",
            11 => "the program could not be executed",
            _ => "an unknown step failed",
        }
    }
}

/// Writes one record; the pipe is never full, and a reader that is gone needs none.
unsafe fn report(p: &Prepared, kind: i32, value: i32, detail: i32) {
    let words = [kind, value, detail];
    // SAFETY: the array is RECORD_BYTES long and alive during the call.
    unsafe { libc::write(p.status, words.as_ptr().cast(), RECORD_BYTES) };
}

/// The last error number of this thread.
fn errno() -> i32 {
    // SAFETY: the address of errno is always valid for this thread.
    unsafe { *libc::__errno_location() }
}

/// The guardian's whole life. Called in the forked process with every signal blocked.
///
/// # Safety
/// Only in a process that was just forked; it never returns.
pub(super) unsafe fn guard(p: &Prepared) -> ! {
    // SAFETY: async-signal-safe calls on prepared memory; every pointer lives in `p` or this frame.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"waggle-guardian".as_ptr());
        libc::chdir(c"/".as_ptr());
        for standard in 0..3 {
            libc::dup2(p.null, standard);
        }
        close_others(&p.kept);

        let own = libc::getpid();
        let server = libc::fork();
        if server == 0 {
            become_server(p, own);
        }
        if server < 0 {
            report(p, FAILED, Step::Fork as i32, errno());
            finish(p, false);
        }
        let pidfd = libc::syscall(libc::SYS_pidfd_open, server, 0) as RawFd;
        if pidfd < 0 {
            report(p, FAILED, Step::PidFd as i32, errno());
            kill_and_reap(p, server);
            finish(p, false);
        }
        report(p, STARTED, server, 0);
        watch(p, server, pidfd)
    }
}

/// Waits for the end of the server and for the end of our parent, whichever comes.
unsafe fn watch(p: &Prepared, server: libc::pid_t, pidfd: RawFd) -> ! {
    let mut fds = [
        libc::pollfd {
            fd: p.control,
            events: libc::POLLIN,
            revents: 0,
        },
        libc::pollfd {
            fd: pidfd,
            events: libc::POLLIN,
            revents: 0,
        },
    ];
    let (mut alive, mut detached, mut leave, mut failed) = (true, false, false, false);
    // SAFETY: as in `guard`; `server` is our child and is reaped only here, so its number is its
    // own as long as `alive` is true.
    unsafe {
        loop {
            libc::poll(fds.as_mut_ptr(), 2, -1);
            if fds[1].revents != 0 {
                failed = reap_and_report(p, server);
                alive = false;
                fds[1] = libc::pollfd {
                    fd: -1,
                    events: 0,
                    revents: 0,
                };
                if detached {
                    finish(p, failed);
                }
            }
            if fds[0].revents == 0 {
                continue;
            }
            let mut command = 0u8;
            match libc::read(p.control, (&raw mut command).cast(), 1) {
                1 => match command {
                    b'T' if alive => _ = libc::kill(server, libc::SIGTERM),
                    b'K' if alive => kill_group(server),
                    b'D' => detached = true,
                    b'L' => leave = true,
                    _ => {}
                },
                0 if detached && alive => {
                    fds[0] = libc::pollfd {
                        fd: -1,
                        events: 0,
                        revents: 0,
                    };
                }
                0 => {
                    if alive {
                        kill_and_reap(p, server);
                    }
                    if leave {
                        libc::_exit(0);
                    }
                    finish(p, failed);
                }
                _ => {}
            }
        }
    }
}

/// Tells how the server ended; true if it failed. It stays a zombie until the announcement is
/// gone, so that nobody finds its number there and signals another process by it.
unsafe fn reap_and_report(p: &Prepared, server: libc::pid_t) -> bool {
    // SAFETY: as in `guard`; siginfo_t is plain data, for which zero bytes are valid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let id = server as libc::id_t;
        libc::waitid(
            libc::P_PID,
            id,
            &raw mut info,
            libc::WEXITED | libc::WNOWAIT,
        );
        if let Some(path) = &p.announcement {
            libc::unlink(path.as_ptr());
        }
        libc::waitpid(server, std::ptr::null_mut(), 0);
        end_account(p);
        report(p, EXITED, info.si_code, info.si_status());
        info.si_code != libc::CLD_EXITED || info.si_status() != 0
    }
}

/// Kills the server's process group; the server itself too, should it not lead one yet.
unsafe fn kill_group(server: libc::pid_t) {
    // SAFETY: kill takes integers; the child is not reaped yet.
    unsafe {
        libc::kill(-server, libc::SIGKILL);
        libc::kill(server, libc::SIGKILL);
    }
}

unsafe fn kill_and_reap(p: &Prepared, server: libc::pid_t) {
    // SAFETY: the child is not reaped yet; a null status pointer is allowed.
    unsafe {
        kill_group(server);
        libc::waitpid(server, std::ptr::null_mut(), 0);
        end_account(p);
    }
}

/// Kills what still runs as the server's user: a process that left its group would go on, with the
/// files of whoever gets the number next.
unsafe fn end_account(p: &Prepared) {
    let Some(id) = p.account else { return };
    // SAFETY: as in `guard`. The child can signal processes of that user alone, as it is that user;
    // kill does not signal the caller itself.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            if become_user(id) {
                libc::kill(-1, libc::SIGKILL);
            }
            libc::_exit(0);
        }
        if child > 0 {
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// Ends the guardian: saves the log if it is wanted, and removes what is to be removed.
unsafe fn finish(p: &Prepared, keep_log: bool) -> ! {
    // SAFETY: as in `guard`.
    unsafe {
        if keep_log && let Some((from, to)) = &p.log_kept {
            libc::rename(from.as_ptr(), to.as_ptr());
        }
        if let Some(path) = &p.announcement {
            libc::unlink(path.as_ptr());
        }
        // Both locks are held until the removal is complete.
        libc::fcntl(p.lock, libc::F_SETFD, 0);
        libc::fcntl(p.claim, libc::F_SETFD, 0);
        unblock_signals();
        libc::execv(p.remover.as_ptr(), p.remove_argv.as_ptr());
        libc::_exit(127)
    }
}

/// Closes every descriptor from 3 on that is not in the ascending list.
unsafe fn close_others(kept: &[RawFd]) {
    let mut from = 3;
    for &fd in kept {
        if fd > from {
            // SAFETY: this process was just forked and owns its table of descriptors.
            unsafe { close_range(from as u32, fd as u32 - 1) };
        }
        from = from.max(fd + 1);
    }
    // SAFETY: as above.
    unsafe { close_range(from as u32, u32::MAX) };
}

unsafe fn close_range(first: u32, last: u32) {
    // SAFETY: integers only; the caller gives up these descriptors.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            // Before Linux 5.9 there is no such call; nobody has more descriptors than this.
            for fd in first..=last.min(65_535) {
                libc::close(fd as c_int);
            }
        }
    }
}

/// Signals as a program expects them at its start.
unsafe fn unblock_signals() {
    // SAFETY: the set is a value of this frame; signal numbers that cannot be set are refused.
    unsafe {
        for signal in 1..=64 {
            // Ignoring first discards what is pending: a report to a parent that is gone leaves
            // SIGPIPE, and it would end this process once unblocked.
            libc::signal(signal, libc::SIG_IGN);
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
