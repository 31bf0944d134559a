//! The server before it is one: from its fork to the exec.
//!
//! Neighbour: the parent, which is its guardian and hears what failed. Invariant: as the parent's,
//! and what is mounted is seen by this process alone.

use libc::c_ulong;

use super::prepared::{Prepared, Root};
use super::{FAILED, Step, errno, report, unblock_signals};

/// Turns the forked process into the server.
pub(super) unsafe fn become_server(p: &Prepared, guardian: libc::pid_t) -> ! {
    // SAFETY: as in `guard`.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong);
        if libc::getppid() != guardian {
            give_up(p, Step::Parent);
        }
        libc::dup2(p.log, 1);
        libc::dup2(p.log, 2);
        unblock_signals();
        libc::setrlimit(libc::RLIMIT_DATA, &raw const p.memory_limit);
        if let Some(root) = &p.root {
            enter(p, root);
        }
        libc::execve(p.program.as_ptr(), p.argv.as_ptr(), p.envp.as_ptr());
        give_up(p, Step::Exec)
    }
}

unsafe fn give_up(p: &Prepared, step: Step) -> ! {
    // SAFETY: as in `guard`.
    unsafe {
        report(p, FAILED, step as i32, errno());
        libc::_exit(127)
    }
}

/// Mounts what a server needs into the root, visible to this process alone, and enters it. The
/// mounts vanish with the process, and nothing in the root itself is written.
unsafe fn enter(p: &Prepared, root: &Root) {
    const BIND: c_ulong = libc::MS_BIND | libc::MS_REC;
    let nothing = std::ptr::null();
    // SAFETY: as in `guard`.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            give_up(p, Step::Namespace);
        }
        let private = libc::MS_PRIVATE | libc::MS_REC;
        if libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast()) != 0 {
            give_up(p, Step::Private);
        }
        for bind in &root.binds {
            let (from, to) = (bind.source.as_ptr(), bind.target.as_ptr());
            if libc::mount(from, to, nothing, BIND, nothing.cast()) != 0 {
                give_up(p, Step::Mount);
            }
        }
        let (tmpfs, options) = (c"tmpfs".as_ptr(), c"size=64k,mode=755".as_ptr().cast());
        if libc::mount(tmpfs, root.dev.as_ptr(), tmpfs, libc::MS_NOEXEC, options) != 0 {
            give_up(p, Step::Device);
        }
        for device in &root.devices {
            let (from, to) = (device.source.as_ptr(), device.target.as_ptr());
            let made = libc::open(to, libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o666);
            if made < 0 || libc::mount(from, to, nothing, BIND, nothing.cast()) != 0 {
                give_up(p, Step::Device);
            }
            libc::close(made);
        }
        if libc::chroot(root.path.as_ptr()) != 0 || libc::chdir(c"/".as_ptr()) != 0 {
            give_up(p, Step::Chroot);
        }
    }
}
