//! Who is a thread? Its name, and the role it plays in its server.
//!
//! Names are read from `/proc` when a thread is first met, and again at the end, since many get
//! their name only after they began. Neighbours: pipelines, latches and wait-for graphs group by
//! role. Invariant: a number that was used again is another thread; what is not known is said so,
//! and never guessed.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use crate::event::Thread;

/// A role, by its number in the [`Directory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

/// Threads that are remembered; beyond, they are nameless.
const THREADS_MAX: usize = 65_536;

/// Roles that are told apart; beyond, they are [`OTHERS`].
const ROLES_MAX: usize = 256;

/// A thread that is gone before its name could be read.
const NAMELESS: &str = "(ended)";

/// A processor that has nothing to do: an interrupt came to it.
const IDLE: &str = "(idle)";

/// Roles beyond [`ROLES_MAX`].
const OTHERS: &str = "(others)";

/// The threads of a process, as far as they were met.
#[derive(Debug)]
pub struct Directory {
    tasks: PathBuf,
    threads: HashMap<Thread, Known>,
    roles: Vec<String>,
}

#[derive(Debug, Clone)]
struct Known {
    name: Option<String>,
    role: RoleId,
}

impl Directory {
    /// Of the process with this number.
    pub fn of_process(pid: u32) -> Self {
        Self {
            tasks: PathBuf::from(format!("/proc/{pid}/task")),
            threads: HashMap::new(),
            roles: Vec::new(),
        }
    }

    /// The thread's role; its name is read if it was not met before.
    pub fn role(&mut self, thread: Thread) -> RoleId {
        if let Some(known) = self.threads.get(&thread) {
            return known.role;
        }
        let name = (self.threads.len() < THREADS_MAX).then(|| self.read(thread.tid));
        let name = name.flatten();
        let role = self.intern(name.as_deref().map_or(NAMELESS, role_of));
        if self.threads.len() < THREADS_MAX {
            self.threads.insert(thread, Known { name, role });
        }
        role
    }

    /// A role's name.
    pub fn role_name(&self, role: RoleId) -> &str {
        let name = self.roles.get(usize::from(role.0));
        name.map_or(NAMELESS, String::as_str)
    }

    /// Reads again the names of the threads that are still there.
    pub fn refresh(&mut self) {
        let threads: Vec<Thread> = self.threads.keys().copied().collect();
        for thread in threads {
            if let Some(name) = self.read(thread.tid) {
                let role = self.intern(role_of(&name));
                let name = Some(name);
                self.threads.insert(thread, Known { name, role });
            }
        }
    }

    /// How people know the thread: its name and number.
    pub fn label(&self, thread: Thread) -> String {
        let name = self.threads.get(&thread).and_then(|k| k.name.as_deref());
        format!("{} {}", name.unwrap_or(NAMELESS), thread.tid)
    }

    /// The thread's name, if it could be read.
    pub fn name(&self, thread: Thread) -> Option<&str> {
        self.threads.get(&thread)?.name.as_deref()
    }

    fn read(&self, tid: u32) -> Option<String> {
        if tid == 0 {
            return Some(IDLE.to_owned());
        }
        let own = fs::read_to_string(self.tasks.join(tid.to_string()).join("comm"));
        // Who wakes a thread may be another program, or the kernel.
        let name = own.or_else(|_| fs::read_to_string(format!("/proc/{tid}/comm")));
        let name = name.ok()?;
        // The kernel allows every byte in a name, and it goes to a terminal.
        let plain = |c: char| if c.is_control() { '?' } else { c };
        Some(name.trim_end_matches('\n').chars().map(plain).collect())
    }

    fn intern(&mut self, role: &str) -> RoleId {
        let known = self.roles.iter().position(|known| known == role);
        let index = known.unwrap_or_else(|| {
            if self.roles.len() < ROLES_MAX {
                self.roles.push(role.to_owned());
            } else if self.roles.last().is_some_and(|last| last != OTHERS) {
                self.roles.push(OTHERS.to_owned());
            }
            self.roles.len() - 1
        });
        RoleId(index as u16)
    }
}

/// The role that a name stands for: what MySQL's names mean, else the name without its number.
pub fn role_of(name: &str) -> &str {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '/'));
    match plain {
        "connection" => "user connection",
        "ib_log_writer" => "log writer",
        "ib_log_flush" => "log flusher",
        "ib_log_wr_notif" => "log write notifier",
        "ib_log_fl_notif" => "log flush notifier",
        "ib_log_checkpt" => "log checkpointer",
        "ib_log_files_g" => "log files governor",
        "ib_pg_flush_co" => "page cleaner coordinator",
        "ib_pg_flush" => "page cleaner",
        "ib_io_rd" | "ib_io_wr" | "ib_io_ibuf" | "ib_io_log" => "I/O",
        "ib_srv_purge" | "ib_srv_wkr" | "ib_srv_worker" => "purge",
        "ib_srv_mon" | "ib_srv_error" | "ib_srv_lock_to" => "InnoDB monitor",
        "rpl_rca_wkr" | "rpl_worker" | "rpl_wkr" => "replica worker",
        "rpl_rca_sql" | "replica_sql" => "replica coordinator",
        "rpl_rca_io" | "replica_io" => "replica receiver",
        "" => name,
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_roles() {
        assert_eq!(role_of("ib_log_writer"), "log writer");
        assert_eq!(role_of("ib_pg_flush-3"), "page cleaner");
        assert_eq!(role_of("ib_io_rd-12"), "I/O");
        assert_eq!(role_of("connection"), "user connection");
        assert_eq!(role_of("mariadbd"), "mariadbd");
        assert_eq!(role_of("worker/7"), "worker");
        assert_eq!(role_of("42"), "42");
    }

    #[test]
    fn a_thread_is_named_while_it_lives_and_nameless_after() {
        let mut directory = Directory::of_process(std::process::id());
        let (named, is_named) = std::sync::mpsc::channel();
        let (go, may_end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("waiter-7".to_owned());
        let thread = thread.spawn(move || {
            // SAFETY: takes nothing.
            let tid = unsafe { libc::gettid() };
            named.send(tid).expect("the test listens");
            let _ = may_end.recv();
        });
        let tid = is_named.recv().expect("it began") as u32;
        let first = Thread { tid, began_ns: 1 };
        let role = directory.role(first);
        assert_eq!(directory.role_name(role), "waiter");
        assert_eq!(directory.label(first), format!("waiter-7 {tid}"));
        drop(go);
        thread.expect("it began").join().expect("it ended");
        directory.refresh();
        assert_eq!(directory.name(first), Some("waiter-7"));
        let role = directory.role(Thread { tid, began_ns: 2 });
        assert_eq!(directory.role_name(role), NAMELESS);
    }

    #[test]
    fn roles_are_bounded() {
        let mut directory = Directory::of_process(std::process::id());
        let last = (0..2 * ROLES_MAX).map(|i| directory.intern(&format!("r{i}x")));
        let last = last.last().expect("a role");
        assert_eq!(directory.role_name(last), OTHERS);
        assert!(directory.roles.len() <= ROLES_MAX + 1);
    }
}
