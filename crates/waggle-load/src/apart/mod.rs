//! Scripts apart from rights: where this process has any, they run in another one.
//!
//! A workload is a program of somebody's, and LuaJIT's FFI calls whatever it likes. So a process
//! that may load probes or start servers runs none. It forks a child before it has read anything
//! ([`start`]); the child becomes an ordinary user (`user`, `child`) and runs checks, commands and
//! loads for it (`serve`), each over a socket of its own (`socket`, `message`). [`crate::Load`] is
//! then a handle on a load there (`remote`); a server behind a door that only root passes is
//! reached through what the parent opened (`server`). A process without rights runs everything
//! itself, as if this were not there. Why, and what a call costs: docs/design/0013.
//!
//! Invariants: once [`start`] has returned, no script runs in this process; whatever the child
//! sends, the worst that comes of it is a run that failed.

mod child;
mod figures;
mod message;
mod remote;
mod serve;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod user;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use figures::SnapshotForm;
use message::{Answer, ErrorForm, Open, SpecForm};
pub(crate) use remote::Remote;
use remote::{Session, Sink, lines};
use socket::Broken;
pub use user::User;

use crate::tally::locked;
use crate::{Check, CommandInfo, DeclaredOption, LoadError, LoadSpec, Snapshot};

/// The child of this process.
static CHILD: OnceLock<Arc<Apart>> = OnceLock::new();

/// How long a child that closed its sockets may take to be gone.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked at meanwhile.
const END_LOOK: Duration = Duration::from_millis(5);

/// The process that scripts run in.
#[derive(Debug)]
pub(crate) struct Apart {
    /// Each session begins with descriptors sent here.
    control: Mutex<UnixStream>,
    /// `None`: a thread, in tests.
    pid: Option<u32>,
    user: String,
    /// How it ended, once that is known.
    end: Mutex<Option<String>>,
}

/// From now on scripts run in a process of `user`. Call it once, with no other thread.
///
/// # Errors
/// There is another thread, or the kernel refuses.
pub fn start(user: &User) -> io::Result<()> {
    if !child::only_thread() {
        return Err(io::Error::other("this process has more than one thread"));
    }
    let (pid, control) = child::fork(user)?;
    let apart = Apart {
        control: Mutex::new(control),
        pid: Some(pid),
        user: user.to_string(),
        end: Mutex::default(),
    };
    CHILD
        .set(Arc::new(apart))
        .map_err(|_| io::Error::other("scripts run apart already"))
}

/// The process that scripts run in, if it is not this one.
pub fn process() -> Option<u32> {
    CHILD.get().and_then(|apart| apart.pid)
}

pub(crate) fn child() -> Option<Arc<Apart>> {
    CHILD.get().cloned()
}

impl Apart {
    /// Does one thing there; its answer.
    fn asked(
        &self,
        spec: &LoadSpec,
        sink: Option<Sink>,
        open: impl FnOnce(Box<SpecForm>) -> Open,
    ) -> Result<Answer, LoadError> {
        let mut session = match Session::open(self, spec, sink, open) {
            Ok(session) => session,
            Err(broken) => return Err(self.lost(&broken)),
        };
        let answer = session.opened(&spec.cancel);
        session.close();
        match answer {
            Ok(Answer::Failed(error)) => Err(self.told(error)),
            Ok(answer) => Ok(answer),
            Err(broken) => Err(self.lost(&broken)),
        }
    }

    /// As [`crate::check`].
    pub(crate) fn check(&self, spec: &LoadSpec) -> Result<Vec<DeclaredOption>, LoadError> {
        match self.asked(spec, lines(spec), Open::Check)? {
            Answer::Options(options) => Ok(options),
            _ => Err(self.lost(&remote::unexpected())),
        }
    }

    /// As `crate::command`.
    pub(crate) fn command(
        &self,
        spec: &LoadSpec,
        name: &str,
        progress: Sink,
    ) -> Result<(), LoadError> {
        let open = |form| Open::Command(form, name.to_owned());
        match self.asked(spec, Some(progress), open)? {
            Answer::Done => Ok(()),
            _ => Err(self.lost(&remote::unexpected())),
        }
    }

    /// As [`crate::commands`].
    pub(crate) fn commands(&self, spec: &LoadSpec) -> Result<Vec<CommandInfo>, LoadError> {
        match self.asked(spec, lines(spec), Open::Commands)? {
            Answer::Commands(commands) => Ok(commands),
            _ => Err(self.lost(&remote::unexpected())),
        }
    }

    /// As [`crate::checks`].
    pub(crate) fn checks(
        &self,
        spec: &LoadSpec,
        run: &Snapshot,
        length: Duration,
    ) -> Result<Vec<Check>, LoadError> {
        let run = Box::new(SnapshotForm::new(run));
        match self.asked(spec, lines(spec), |form| Open::Checks(form, run, length))? {
            Answer::Checks(checks) => Ok(checks),
            _ => Err(self.lost(&remote::unexpected())),
        }
    }

    /// An error that was told there, with what to try where its cause is the change of user.
    fn told(&self, error: ErrorForm) -> LoadError {
        error.into_error(&|text| {
            let is_refused = ["Permission denied", "not found:", "cannot open"];
            if !is_refused.iter().any(|sign| text.contains(sign)) {
                return text;
            }
            format!(
                "{text} (the workload runs as {}: what it reads must be readable for that user; \
                 --load-user names another)",
                self.user
            )
        })
    }

    /// The error of a child that is gone, or cannot be believed any more.
    fn lost(&self, broken: &Broken) -> LoadError {
        let patience = match broken {
            Broken::Closed | Broken::Io(_) => END_PATIENCE,
            Broken::Garbage(_) | Broken::Late => Duration::ZERO,
        };
        let end = self.ended(patience);
        LoadError::Apart(match broken {
            Broken::Closed | Broken::Io(_) => format!(
                "the process of the workload is gone: it {end}; did the script call os.exit, or \
                 crash it through the FFI?"
            ),
            broken => format!("the process of the workload {broken}; it was ended"),
        })
    }

    /// Makes sure that it has ended; how.
    fn ended(&self, patience: Duration) -> String {
        let mut end = locked(&self.end);
        let Some(pid) = self.pid else {
            return "has ended".to_owned();
        };
        end.get_or_insert_with(|| {
            let deadline = Instant::now() + patience;
            loop {
                let is_late = Instant::now() >= deadline;
                if let Some(how) = reaped(pid, is_late) {
                    return how;
                }
                // sleep: the end of one child is waited for without taking signals from others.
                std::thread::sleep(END_LOOK);
            }
        })
        .clone()
    }
}

/// How the child ended; `None`: it has not. With `kill`, it is killed before.
fn reaped(pid: u32, kill: bool) -> Option<String> {
    let pid = pid.cast_signed();
    let mut status = 0;
    // SAFETY: the child is not reaped yet, since `end` holds how it ended once it is; the status
    // is written to a place of this frame.
    let found = unsafe {
        if kill {
            libc::kill(pid, libc::SIGKILL);
        }
        libc::waitpid(pid, &mut status, if kill { 0 } else { libc::WNOHANG })
    };
    match found {
        0 => None,
        -1 => Some("was ended by others".to_owned()),
        _ if kill => Some("had to be killed".to_owned()),
        _ if libc::WIFSIGNALED(status) => {
            Some(format!("was ended by signal {}", libc::WTERMSIG(status)))
        }
        _ => Some(format!(
            "ended with exit code {}",
            libc::WEXITSTATUS(status)
        )),
    }
}
