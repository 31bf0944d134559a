//! What the guardian and the server need, made before the fork.
//!
//! Neighbours: [`guardian`](crate::sandbox::guardian) says what is to be run; after the fork the
//! parent and `server` read it. Invariant: everything that allocates is done here, and the pointers
//! point into strings that live as long as they do.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libc::c_char;

use crate::sandbox::account::Account;
use crate::sandbox::guardian::{Launch, RootPlan, c_path, c_string};

/// One mount inside the root.
pub(super) struct Mount {
    pub(super) source: CString,
    pub(super) target: CString,
}

/// A root, ready to be entered.
pub(super) struct Root {
    pub(super) path: CString,
    pub(super) binds: Vec<Mount>,
    pub(super) dev: CString,
    pub(super) devices: Vec<Mount>,
}

impl Root {
    fn prepare(plan: &RootPlan) -> io::Result<Self> {
        let mount = |source: CString, target: PathBuf| {
            io::Result::Ok(Mount {
                source,
                target: c_path(&target)?,
            })
        };
        let dev = plan.root.join("dev");
        let binds = plan.binds.iter();
        Ok(Self {
            path: c_path(&plan.root)?,
            binds: binds
                .map(|(source, target)| mount(c_path(source)?, plan.root.join(target)))
                .collect::<io::Result<_>>()?,
            devices: ["null", "zero", "random", "urandom"]
                .iter()
                .map(|name| mount(c_string(format!("/dev/{name}"))?, dev.join(name)))
                .collect::<io::Result<_>>()?,
            dev: c_path(&dev)?,
        })
    }
}

/// Everything the guardian and the server need, allocated before the fork.
pub(in crate::sandbox) struct Prepared {
    pub(super) program: CString,
    pub(super) argv: Vec<*const c_char>,
    pub(super) envp: Vec<*const c_char>,
    pub(super) root: Option<Root>,
    pub(super) remover: CString,
    pub(super) remove_argv: Vec<*const c_char>,
    pub(super) announcement: Option<CString>,
    pub(super) log_kept: Option<(CString, CString)>,
    pub(super) control: RawFd,
    pub(super) status: RawFd,
    pub(super) null: RawFd,
    pub(super) log: RawFd,
    pub(super) lock: RawFd,
    /// The user and group that the program runs as; `None`: as this process.
    pub(super) account: Option<libc::uid_t>,
    /// What says that the number is taken; the lock again where there is none.
    pub(super) claim: RawFd,
    pub(super) memory_limit: libc::rlimit,
    /// The descriptors above, ascending: all others are closed.
    pub(super) kept: [RawFd; 6],
    /// What the pointers point into.
    _strings: Vec<CString>,
}

impl Prepared {
    pub(in crate::sandbox) fn new(
        launch: &Launch<'_>,
        control: &OwnedFd,
        status: &OwnedFd,
        null: &File,
    ) -> io::Result<Self> {
        let program = c_path(&launch.program)?;
        let mut argv = vec![program.clone()];
        for arg in &launch.args {
            argv.push(c_string(arg.as_str())?);
        }
        let env = environment();
        let remover = c_string("/bin/rm")?;
        let mut remove = vec![remover.clone(), c_string("-rf")?, c_string("--")?];
        for path in &launch.remove {
            remove.push(c_path(path)?);
        }
        let root = launch.root.as_ref().map(Root::prepare).transpose()?;
        let (control, status, null) = (control.as_raw_fd(), status.as_raw_fd(), null.as_raw_fd());
        let (log, lock) = (launch.log.as_raw_fd(), launch.lock.as_raw_fd());
        let claim = launch.account.map_or(lock, |own| own.claim().as_raw_fd());
        let mut kept = [control, status, null, log, lock, claim];
        kept.sort_unstable();
        let log_kept = match &launch.log_kept {
            Some((from, to)) => Some((c_path(from)?, c_path(to)?)),
            None => None,
        };
        Ok(Self {
            program,
            argv: pointers(&argv),
            envp: pointers(&env),
            root,
            remover,
            remove_argv: pointers(&remove),
            announcement: launch.announcement.as_deref().map(c_path).transpose()?,
            log_kept,
            control,
            status,
            null,
            log,
            lock,
            account: launch.account.map(Account::id),
            claim,
            memory_limit: memory_limit(),
            kept,
            // Moving a CString does not move its bytes, so the pointers stay good.
            _strings: argv.into_iter().chain(env).chain(remove).collect(),
        })
    }
}

/// As much as the machine has, and a quarter of it for what is asked for but never touched.
///
/// A server told to use a terabyte would otherwise touch page after page for minutes, until the
/// kernel kills it or a neighbour; with a limit it says at once that it cannot have so much.
fn memory_limit() -> libc::rlimit {
    // SAFETY: sysinfo is plain data, filled by the kernel; zeros are valid.
    let bytes = unsafe {
        let mut facts: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&raw mut facts);
        (facts.totalram + facts.totalswap).saturating_mul(u64::from(facts.mem_unit))
    };
    let bytes = if bytes == 0 {
        libc::RLIM_INFINITY
    } else {
        bytes.saturating_add(bytes / 4)
    };
    // An own limit that is lower already stays.
    let mut limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: `before` is plain data of this frame.
    unsafe {
        let mut before: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_DATA, &raw mut before) == 0 {
            limit.rlim_max = before.rlim_max;
            limit.rlim_cur = bytes.min(before.rlim_cur);
        }
    }
    limit
}

/// The environment a server gets: ours, without what would change or disclose something.
fn environment() -> Vec<CString> {
    std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.as_bytes();
            // Option files and service managers' sockets; and a DSN holds a password.
            let unwanted: [&[u8]; 6] = [
                b"MYSQL",
                b"MARIADB",
                b"WAGGLE_",
                b"NOTIFY_SOCKET",
                b"LISTEN_",
                b"TMPDIR",
            ];
            !unwanted.iter().any(|prefix| name.starts_with(prefix))
        })
        .filter_map(|(name, value)| {
            c_string([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        })
        .collect()
}

/// Pointers to C strings, closed by a null pointer, as `execve` takes them.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string: &CString| CStr::as_ptr(string))
        .chain([std::ptr::null()])
        .collect()
}
