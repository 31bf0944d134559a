//! Which servers come, go, restart and are upgraded in place on this host, wherever they live?
//!
//! [`Discovery`] is asked again and again, and answers with what changed. [`crate::process`] says
//! what a process is; `instance` how operators know it; `whereabouts` in which container it is.
//!
//! Looking is cheap when nothing happens: the kernel tells the last process id it gave out, and
//! only when that has moved is `/proc` listed, and only ids that were not there before are looked
//! at. What was there before may become a server too (`exec` at the end of a start script), so
//! young processes are looked at for some seconds, and all of them now and then. Invariants: both
//! kinds of looks are made no more often than keeps each below one in [`SHARE`] of a core (but
//! listing at least every 5 s, everything every minute); a server is told from another with
//! the same id by when it started, and followed by a descriptor that no other process can take
//! over; what has no marks of a server is never called one.

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod instance;
mod option_files;
mod sockets;
mod whereabouts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cpu::own_thread_cpu_ns;
use crate::pidfd::PidFd;
use crate::process::{
    self, Known, NotAServer, ServerProcess, is_named_like_a_server, proc_path, without_deleted_mark,
};

pub use instance::Instance;
pub use whereabouts::Whereabouts;

/// One in so many parts of a core may go into listing, and as much into looking at all.
pub const SHARE: u32 = 5000;
/// How long a new process is looked at each time: a start script soon becomes what it starts.
const YOUNG: Duration = Duration::from_secs(5);
/// Least and longest pause between two looks at everything, and the longest between two listings.
const LOOK_AT_ALL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
const LISTING_LONGEST: Duration = Duration::from_secs(5);

/// A server that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Its process.
    pub process: ServerProcess,
    /// When it started, in clock ticks since boot: with the process id, a name for all times.
    pub started_ticks: u64,
    /// How operators know it.
    pub instance: Instance,
    /// Where it lives.
    pub whereabouts: Whereabouts,
}

/// What happened since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A server is there that was not. A restart is a [`Went`](Self::Went) and a `Came` with the
    /// same name.
    Came(Box<Found>),
    /// The program file of a running server was replaced or removed: it runs the old one, and
    /// will be another after its next start. Told once.
    Upgraded {
        /// Its process id.
        pid: u32,
    },
    /// A server ended, or its process is another program now.
    Went {
        /// Its process id.
        pid: u32,
        /// How it was known.
        instance: String,
    },
    /// A server listens by now, or another has a better claim to its name: it is known by another
    /// name from now on.
    Named {
        /// Its process id.
        pid: u32,
        /// How it is known.
        instance: Instance,
    },
    /// Something that calls itself a server may not be looked at, or its user has more of them
    /// than are looked at. Told once.
    Refused {
        /// Its process id.
        pid: u32,
        /// Why, and what to try.
        why: String,
    },
}

/// A server that is followed.
#[derive(Debug)]
struct Followed {
    found: Found,
    /// Who runs it.
    user: u32,
    pidfd: PidFd,
}

/// Follows the servers of this host.
#[derive(Debug, Default)]
pub struct Discovery {
    servers: BTreeMap<u32, Followed>,
    /// Every process at the last listing that is no server, with its program as it was when it was
    /// last looked at: while that stays, it cannot have become one.
    others: HashMap<u32, Option<PathBuf>>,
    young: HashMap<u32, Instant>,
    refused: HashSet<u32>,
    /// Ordinary users' programs that were opened since everything was looked at, and how often;
    /// and which of them were told of.
    tried: HashMap<u32, usize>,
    crowding: HashSet<u32>,
    known: Known,
    last_pid: Option<u32>,
    next_listing: Option<Instant>,
    next_look_at_all: Option<Instant>,
    /// CPU time that reading programs took in the current look.
    identify_ns: u64,
}

impl Discovery {
    /// Knows of no server yet: the first look finds all that run.
    pub fn new() -> Self {
        Self::default()
    }

    /// The servers that run, as of the last look.
    pub fn servers(&self) -> impl Iterator<Item = &Found> {
        self.servers.values().map(|followed| &followed.found)
    }

    /// Looks, and says what changed since the last look: what went, before what came.
    pub fn poll(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.look_at_servers(&mut changes);
        let now = Instant::now();
        if self.next_look_at_all.is_none_or(|next| now >= next) {
            let pause = self.costed(|discovery| {
                discovery.list();
                discovery.tried.clear();
                discovery.name_those_that_listen(&mut changes);
                let all: Vec<u32> = discovery.others.keys().copied().collect();
                discovery.look_at(&all, &mut changes);
            });
            self.next_look_at_all = Some(now + pause.clamp(LOOK_AT_ALL.0, LOOK_AT_ALL.1));
        } else if self.next_listing.is_none_or(|next| now >= next) {
            let pause = self.costed(|discovery| {
                if discovery.has_new_ids() {
                    discovery.list();
                }
                discovery.name_those_that_listen(&mut changes);
                let young: Vec<u32> = discovery.young.keys().copied().collect();
                discovery.look_at(&young, &mut changes);
            });
            self.next_listing = Some(now + pause.min(LISTING_LONGEST));
        }
        changes
    }

    /// Does it, and says how long not to do it again. Reading the program of a new server is not
    /// counted: it is done once for each.
    fn costed(&mut self, work: impl FnOnce(&mut Self)) -> Duration {
        self.identify_ns = 0;
        let begun_ns = own_thread_cpu_ns();
        work(self);
        let begun_ns = begun_ns + self.identify_ns;
        Duration::from_nanos(own_thread_cpu_ns().saturating_sub(begun_ns)) * SHARE
    }

    /// Which of the known servers ended, became something else, or were upgraded.
    fn look_at_servers(&mut self, changes: &mut Vec<Change>) {
        let mut gone = Vec::new();
        for (&pid, followed) in &mut self.servers {
            let process = &mut followed.found.process;
            let exe = fs::metadata(proc_path(pid, "exe"));
            let is_same = exe.as_ref().is_ok_and(|facts| {
                (facts.dev(), facts.ino()) == (process.exe_dev, process.exe_inode)
            });
            let may_not_look = exe.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied);
            if followed.pidfd.wait_until(Instant::now()) || !(is_same || may_not_look) {
                gone.push(pid);
            } else if !process.exe_deleted
                && let Ok(link) = fs::read_link(proc_path(pid, "exe"))
                && without_deleted_mark(link).1
            {
                process.exe_deleted = true;
                changes.push(Change::Upgraded { pid });
            }
        }
        for pid in gone {
            if let Some(followed) = self.servers.remove(&pid) {
                changes.push(Change::Went {
                    pid,
                    instance: followed.found.instance.name,
                });
            }
        }
    }

    /// Gives servers that listen by now the name that they are known by.
    fn name_those_that_listen(&mut self, changes: &mut Vec<Change>) {
        let unsettled = self
            .servers
            .values()
            .filter(|f| !f.found.instance.is_settled);
        let pids: Vec<u32> = unsettled.map(|f| f.found.process.pid).collect();
        for pid in pids {
            let Some(followed) = self.servers.get(&pid) else {
                continue;
            };
            let instance = Instance::of(pid, &followed.found.whereabouts);
            let (before, user) = (followed.found.instance.clone(), followed.user);
            if instance.port == before.port && instance.socket == before.socket {
                continue;
            }
            let instance = self.named(pid, user, instance, changes);
            if let Some(followed) = self.servers.get_mut(&pid) {
                followed.found.instance = instance.clone();
                changes.push(Change::Named { pid, instance });
            }
        }
    }

    /// The instance with a name that no other server has. A server of a system's user gets the
    /// name that it asks for, also from one of an ordinary user that came first: who starts a
    /// program by that name must not take another's place in what is recorded of it.
    fn named(
        &mut self,
        pid: u32,
        user: u32,
        mut instance: Instance,
        changes: &mut Vec<Change>,
    ) -> Instance {
        let holder = self.servers.values_mut().find(|other| {
            other.found.process.pid != pid && other.found.instance.name == instance.name
        });
        if let Some(other) = holder
            && !process::is_ordinary(user)
            && process::is_ordinary(other.user)
        {
            let theirs = &mut other.found.instance;
            let pid = other.found.process.pid;
            theirs.name = format!("{} uid {} pid {pid}", theirs.name, other.user);
            let instance = theirs.clone();
            changes.push(Change::Named { pid, instance });
        }
        let others = self.servers.values().filter(|s| s.found.process.pid != pid);
        let taken = others.map(|s| s.found.instance.name.clone()).collect();
        instance.make_unique(pid, &taken);
        instance
    }

    /// Whether a user's program is to be opened: of ordinary users' a number at a time.
    fn may_try(&mut self, pid: u32, user: u32, changes: &mut Vec<Change>) -> bool {
        let followed = self.servers.values().filter(|f| f.user == user).count();
        let tried = self.tried.entry(user).or_default();
        let is_crowded = process::is_ordinary(user)
            && (followed >= process::TRIED_OF_USER_MAX || *tried >= process::TRIED_OF_USER_MAX);
        if !is_crowded && self.servers.len() < process::SERVERS_MAX {
            *tried += 1;
            return true;
        }
        if self.crowding.insert(user) {
            let most = process::TRIED_OF_USER_MAX;
            let why = format!(
                "user {user} runs more than {most} programs that are called a server; this one \
                 and further ones are not watched"
            );
            changes.push(Change::Refused { pid, why });
        }
        false
    }

    /// Whether the kernel gave out process ids since the last time; yes if it does not tell.
    fn has_new_ids(&mut self) -> bool {
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let last = last_pid(&text);
        let is_new = last.is_none() || last != self.last_pid;
        self.last_pid = last;
        is_new
    }

    /// Lists processes; those that are new become young, those that are gone are forgotten.
    fn list(&mut self) {
        let Ok(entries) = fs::read_dir("/proc") else {
            return;
        };
        let now = Instant::now();
        let mut listed = HashMap::with_capacity(self.others.len() + 16);
        for entry in entries.filter_map(Result::ok) {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            if self.servers.contains_key(&pid) {
                continue;
            }
            let program = match self.others.remove(&pid) {
                Some(program) => program,
                None => {
                    self.young.insert(pid, now);
                    None
                }
            };
            listed.insert(pid, program);
        }
        self.young
            .retain(|pid, since| listed.contains_key(pid) && now - *since < YOUNG);
        self.refused.retain(|pid| listed.contains_key(pid));
        self.others = listed;
    }

    fn look_at(&mut self, pids: &[u32], changes: &mut Vec<Change>) {
        let now = Instant::now();
        self.young.retain(|_, since| now - *since < YOUNG);
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        for pid in pids {
            match fs::read_link(proc_path(pid, "exe")) {
                Ok(program) => {
                    let seen = self.others.entry(pid).or_default();
                    if seen.as_ref() == Some(&program) {
                        continue;
                    }
                    *seen = Some(program);
                }
                // What may not be opened may still be told by its arguments.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                // A thread of the kernel has no program; others have gone.
                Err(_) => continue,
            }
            if !is_named_like_a_server(pid) {
                continue;
            }
            let user = process::user_of(pid).unwrap_or(u32::MAX);
            if !self.may_try(pid, user, changes) {
                self.others.insert(pid, None);
                continue;
            }
            let begun_ns = own_thread_cpu_ns();
            let identified = self.identify(pid, user, changes);
            self.identify_ns += own_thread_cpu_ns().saturating_sub(begun_ns);
            match identified {
                Ok(followed) => {
                    self.others.remove(&pid);
                    self.young.remove(&pid);
                    changes.push(Change::Came(Box::new(followed.found.clone())));
                    self.servers.insert(pid, followed);
                }
                Err(error @ NotAServer::PermissionDenied { .. }) => {
                    if self.refused.insert(pid) {
                        let why = error.to_string();
                        changes.push(Change::Refused { pid, why });
                    }
                }
                // It is none, whatever its name.
                Err(NotAServer::OtherProgram { .. }) => {}
                // It changed while it was looked at.
                Err(_) => {
                    self.others.insert(pid, None);
                }
            }
        }
    }

    fn identify(
        &mut self,
        pid: u32,
        user: u32,
        changes: &mut Vec<Change>,
    ) -> Result<Followed, NotAServer> {
        // The descriptor comes first: what is read after it is of this process, or it is gone.
        let pidfd = PidFd::open(pid).map_err(|_| NotAServer::NoSuchProcess(pid))?;
        let process = process::look_at(pid, &mut self.known)?;
        let started_ticks = fs::read(proc_path(pid, "stat"))
            .ok()
            .and_then(|stat| started_ticks(&stat))
            .ok_or(NotAServer::NoSuchProcess(pid))?;
        if pidfd.wait_until(Instant::now()) {
            return Err(NotAServer::NoSuchProcess(pid));
        }
        let whereabouts = Whereabouts::of(pid);
        let instance = Instance::of(pid, &whereabouts);
        let instance = self.named(pid, user, instance, changes);
        Ok(Followed {
            user,
            found: Found {
                process,
                started_ticks,
                instance,
                whereabouts,
            },
            pidfd,
        })
    }
}

/// The last process id that was given out, from `/proc/loadavg`.
fn last_pid(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// When the process started, from `/proc/PID/stat`. The name in it may hold anything.
fn started_ticks(stat: &[u8]) -> Option<u64> {
    let end = memchr::memmem::rfind(stat, b") ")?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    // Field 22 of proc(5); the state, after the name, is field 3.
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        assert_eq!(last_pid("0.20 0.18 12.12 1/80 11206\n"), Some(11_206));
        assert_eq!(last_pid("0.20 0.18"), None);
        let stat = b"9 (my) S \xff(x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(started_ticks(stat), Some(4711));
        for bad in [&b""[..], b"9 (x", b"9 (x) S 1 2", b"9 (x) \xff"] {
            assert_eq!(started_ticks(bad), None);
        }
        let own = fs::read("/proc/self/stat").unwrap();
        assert!(started_ticks(&own).is_some());
    }
}
