//! The process of the load: how it comes to be, what it gives up, and when it ends.
//!
//! It is forked while there is one thread and nothing has been read, and executes nothing: it is
//! this program, with the same version of everything. Invariants: it has no right, no descriptor
//! and no terminal of its parent's but where text is printed; it ends with its parent, however
//! that ends.

use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};

use super::serve;
use super::user::{Ids, User};
use crate::rights;

/// What the child says when it is ready; anything else is why it is not.
const READY: u8 = b'+';

/// Forks it; returns its number and the socket to ask it over.
pub(super) fn fork(user: &User) -> io::Result<(u32, UnixStream)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    // SAFETY: getpid has no arguments.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the caller is the only thread there is (`only_thread`), so the child finds every lock
    // free and may go on as an ordinary process.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => live(user, theirs, parent),
        pid => pid,
    };
    drop(theirs);
    let mut said = [0];
    let why = match ours.read(&mut said) {
        Ok(1) if said[0] == READY => return Ok((pid.cast_unsigned(), ours)),
        _ => {
            let mut why = vec![said[0]];
            let _ = Read::by_ref(&mut ours).take(4096).read_to_end(&mut why);
            why
        }
    };
    // SAFETY: the child is not reaped yet; a null status pointer is allowed.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Err(io::Error::other(String::from_utf8_lossy(&why).into_owned()))
}

/// True if there is no other thread in this process.
pub(super) fn only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// The whole life of the child.
fn live(user: &User, mut control: UnixStream, parent: libc::pid_t) -> ! {
    let served = panic::catch_unwind(AssertUnwindSafe(|| {
        match become_harmless(user, &control, parent) {
            Ok(()) => {
                // A parent that is gone is noticed at the next look.
                let _ = control.write_all(&[READY]);
                serve::run(&control);
                0
            }
            Err((what, error)) => {
                let _ = write!(control, "cannot {what} for {user}: {error}");
                1
            }
        }
    }));
    // SAFETY: the child shares the parent's buffers and exit handlers; none of them may run here.
    unsafe { libc::_exit(served.unwrap_or(101)) }
}

type Refused = (&'static str, io::Error);

/// Gives up all that it has of its parent.
fn become_harmless(user: &User, control: &UnixStream, parent: libc::pid_t) -> Result<(), Refused> {
    let doing = |what: &'static str| move |error| (what, error);
    // SAFETY: integers and constant text only; the handler does nothing.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"waggle-load".as_ptr());
        // A session of its own: no terminal that could be typed into, and a Ctrl-C that is meant
        // for the parent, which ends the load in good order, does not reach it.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            let handler = nothing as extern "C" fn(c_int);
            libc::signal(signal, handler as libc::sighandler_t);
        }
    }
    keep_only(control).map_err(doing("close the descriptors of its parent"))?;
    rights::deny_to_programs().map_err(doing("deny rights to programs"))?;
    if let Some(ids) = &user.ids {
        take_ids(ids).map_err(doing("change the user"))?;
    }
    rights::give_up_all().map_err(doing("give up rights"))?;
    // SAFETY: integers only. A change of user has cleared both.
    unsafe {
        // Its memory has the password of the server in it: no debugger of that user's.
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
    allow_most_files();
    Ok(())
}

/// For signals that are the parent's business. A handler, unlike ignoring them, is not inherited
/// by programs that a script starts.
extern "C" fn nothing(_signal: c_int) {}

/// Standard input becomes empty, standard output and error stay, everything else but the socket is
/// closed.
fn keep_only(control: &UnixStream) -> io::Result<()> {
    let empty = std::fs::File::open("/dev/null")?;
    let kept = control.as_raw_fd();
    // SAFETY: descriptors of this process, which was just forked: nobody else has them.
    unsafe {
        if libc::dup2(empty.as_raw_fd(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(empty);
        close_range(3, kept - 1)?;
        close_range(kept + 1, c_int::MAX)
    }
}

/// # Safety
/// Nobody uses these descriptors any more.
unsafe fn close_range(first: c_int, last: c_int) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: as the caller says.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// In the order in which each is still allowed.
fn take_ids(ids: &Ids) -> io::Result<()> {
    // SAFETY: as many groups as told are read.
    let steps = unsafe {
        [
            libc::setgroups(ids.groups.len(), ids.groups.as_ptr()),
            libc::setresgid(ids.gid, ids.gid, ids.gid),
            libc::setresuid(ids.uid, ids.uid, ids.uid),
        ]
    };
    match steps {
        [0, 0, 0] => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Each connection is a file; the verbs raise the limit for themselves only.
fn allow_most_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused only where the hard limit is none at all and the kernel's own is lower.
    let _ = setrlimit(Resource::Nofile, limit);
}
