//! The server before it is one: from its fork to the exec.
//!
//! Neighbour: the parent, which is its guardian and hears what failed. Invariants: as the parent's;
//! what is mounted is seen by this process alone; nothing is executed with a right that the
//! server's user does not have, and none can come back.

use libc::{c_int, c_ulong};

use super::prepared::{Prepared, Root};
use super::{FAILED, Step, errno, report, unblock_signals};

/// Turns the forked process into the server.
pub(super) unsafe fn become_server(p: &Prepared, guardian: libc::pid_t) -> ! {
    // SAFETY: as in `guard`.
    unsafe {
        libc::setpgid(0, 0);
        libc::dup2(p.log, 1);
        libc::dup2(p.log, 2);
        if let Some(root) = &p.root {
            enter(p, root);
        }
        give_up_rights(p);
        // A change of user makes the kernel forget this, so it comes after.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong);
        if libc::getppid() != guardian {
            give_up(p, Step::Parent);
        }
        unblock_signals();
        libc::setrlimit(libc::RLIMIT_DATA, &raw const p.memory_limit);
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

/// A set of capabilities as `capset` takes it: version 3, of which there are two words each.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: c_int,
}

/// Changes user and group for good; false if the kernel refuses. The bare calls: the C library's
/// would tell threads that this forked process does not have, and take locks for it.
pub(super) unsafe fn become_user(id: libc::uid_t) -> bool {
    let no_groups: *const libc::gid_t = std::ptr::null();
    // SAFETY: integers and an empty list.
    unsafe {
        libc::syscall(libc::SYS_setgroups, 0, no_groups) == 0
            && libc::syscall(libc::SYS_setresgid, id, id, id) == 0
            && libc::syscall(libc::SYS_setresuid, id, id, id) == 0
    }
}

/// Becomes the server's own user, without groups, capabilities and a way to get any.
unsafe fn give_up_rights(p: &Prepared) {
    // SAFETY: as in `guard`; the header and the words are values of this frame.
    unsafe {
        // Needs a capability that root has; for others the set says what they could get by
        // executing a file, which NO_NEW_PRIVS rules out.
        let mut capability: c_ulong = 0;
        while libc::prctl(libc::PR_CAPBSET_READ, capability) >= 0 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability);
            capability += 1;
        }
        let ambient = libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong;
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            ambient,
            0 as c_ulong,
            0 as c_ulong,
            0 as c_ulong,
        );
        if let Some(id) = p.account {
            if !become_user(id) {
                give_up(p, Step::Account);
            }
            let header = CapHeader {
                version: 0x2008_0522,
                pid: 0,
            };
            let nothing = [0u32; 6];
            let (header, nothing) = (&raw const header, nothing.as_ptr());
            if libc::syscall(libc::SYS_capset, header, nothing) != 0 {
                give_up(p, Step::Rights);
            }
        }
        let (on, none) = (1 as c_ulong, 0 as c_ulong);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none) != 0 {
            give_up(p, Step::Rights);
        }
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
