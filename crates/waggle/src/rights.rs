//! What each verb may do: arranged once, before anything is read.
//!
//! * Verbs that only connect and read files give up everything.
//! * Verbs that attach keep what attaching takes, and after it what is still to be done
//!   ([`narrow`]; the agent does so for `watch`).
//! * Verbs that start servers keep everything. No script runs in them: see `waggle_load::apart`.
//!
//! Invariant: this is done by the only thread there is, so every later one has no more.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use rustix::thread::{CapabilitySet, CapabilitySets};
use waggle_load::apart::{self, User};
use waggle_load::rights;

use crate::cli::Failure;

/// What a verb is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Connect, and read and write files that this user may read and write.
    Nothing,
    /// Look at processes and attach to them.
    Attach,
    /// The same, and look at the packets in a server's network.
    AttachPackets,
    /// Attach, and end processes of other users that this one started.
    AttachAndEnd,
    /// Start servers or programs that need what this process has.
    Everything,
}

/// What attaching takes:
/// * `CAP_BPF`, `CAP_PERFMON`: load programs, attach them;
/// * `CAP_SYS_PTRACE`: other users' `/proc/PID`;
/// * `CAP_DAC_READ_SEARCH`: their program files, tracefs;
/// * `CAP_DAC_OVERRIDE`: sockets where only a server may look, the control group, and the run
///   directory, which may be in a folder of the user who called sudo;
/// * `CAP_SYSLOG`: names of the kernel's functions;
/// * `CAP_NET_ADMIN`: the accounting of threads;
/// * `CAP_SYS_RESOURCE`: locked memory for maps, before Linux 5.11;
/// * `CAP_SYS_ADMIN`: the kernel's account of what its programs cost (`BPF_ENABLE_STATS`).
const ATTACH: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_ADMIN);

/// A packet socket. (To enter the network of another process takes `CAP_SYS_ADMIN`, see above.)
const PACKETS: CapabilitySet = CapabilitySet::NET_RAW;

/// What a trace or profile still does once its files are open: attach, switch its programs off and
/// on again, read their maps (before Linux 5.19 a right), ask what they cost, read maps and
/// programs of the process for names, end a command that it started. No longer: write where only
/// others may.
const NARROW: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::KILL);

/// Rights were given up that root is used to have.
static IS_LESS: AtomicBool = AtomicBool::new(false);

/// Does `work` with the rights that the program's file gave an ordinary user out of use: the files
/// that the arguments name are opened as that user. Root's are left, as root may read every file
/// without waggle.
///
/// # Errors
/// The kernel refuses; else those of `work`.
pub(crate) fn as_user<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if rustix::process::geteuid().is_root() || !rights::has_any() {
        return work();
    }
    rights::use_permitted(false).context("putting rights out of use")?;
    let done = work();
    rights::use_permitted(true).context("putting rights into use")?;
    done
}

/// Keeps what `needs` says.
///
/// # Errors
/// The kernel refuses; exit code 2.
pub(crate) fn keep(needs: Needs) -> Result<(), Failure> {
    if needs == Needs::Everything || !rights::has_any() {
        return Ok(());
    }
    let kept = match needs {
        Needs::Nothing | Needs::Everything => rights::give_up_all(),
        Needs::Attach => rights::keep_only(ATTACH),
        Needs::AttachAndEnd => rights::keep_only(ATTACH | CapabilitySet::KILL),
        Needs::AttachPackets => rights::keep_only(ATTACH | PACKETS),
    };
    IS_LESS.store(true, Ordering::Relaxed);
    kept.context("giving up the rights that are not needed")
        .map_err(Failure::Unusable)
}

/// From now on scripts run in a process that has no rights, if this one has any.
///
/// # Errors
/// There is no such user, or the kernel refuses; exit code 2.
pub(crate) fn scripts_apart(user: Option<&str>) -> Result<(), Failure> {
    if !rights::has_any() && user.is_none() {
        return Ok(());
    }
    let user = User::choose(user).map_err(|why| {
        Failure::unusable(anyhow!("--load-user: {why}; leave it out, or name another"))
    })?;
    apart::start(&user)
        .context(
            "starting the process of the workload, which has no rights; --load-user names a user",
        )
        .map_err(Failure::Unusable)
}

/// Every file is open: this thread, and those it starts, keep what attaching takes and what is to
/// be done after it. Where [`Needs::Everything`] was kept, so it stays: what was started has to
/// be ended.
///
/// # Errors
/// The kernel refuses; exit code 2.
pub(crate) fn narrow() -> Result<(), Failure> {
    if !IS_LESS.load(Ordering::Relaxed) {
        return Ok(());
    }
    let narrow = || -> io::Result<()> {
        let had = rustix::thread::capabilities(None)?;
        let kept = had.permitted & NARROW;
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        Ok(rustix::thread::set_capabilities(None, sets)?)
    };
    narrow()
        .context("giving up the rights that are not needed any more")
        .map_err(Failure::Unusable)
}

/// What to try, for an error that root does not expect.
pub(crate) fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    let is_refused = error.chain().any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    let is_root = rustix::process::geteuid().is_root();
    (is_refused && is_root && IS_LESS.load(Ordering::Relaxed)).then_some(
        "this verb gives up root's rights before it reads anything, so it can use only what \
         belongs to root or is open to all: run it as the owner (sudo -u NAME waggle ...), or name \
         another place",
    )
}
