//! Who is a thread? Its name, and the role it plays in its server.
//!
//! Names are read from `/proc` when a thread is first met, and again at the end, since many get
//! their name only after they began. Where a server gives its threads no names, the outermost of
//! its own functions in a thread's calls is what the thread is for. Neighbours: pipelines,
//! latches and wait-for graphs group by role. Invariant: a number that was used again is another
//! thread; what is not known is said so, and never guessed.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use waggle_foreign::{is_harmful, read_proc};

use crate::event::{StackId, Thread};

/// A role, by its number in the [`Directory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

/// Threads that are remembered; beyond, they are nameless.
const THREADS_MAX: usize = 65_536;

/// Roles that are told apart; beyond, they are [`OTHERS`].
const ROLES_MAX: usize = 256;

/// Different calls that threads without names are told apart by; beyond, they have none.
const ROOTS_MAX: usize = 4_096;

/// A thread that is gone before its name could be read.
const NAMELESS: &str = "(ended)";

/// A processor that has nothing to do: an interrupt came to it.
const IDLE: &str = "(idle)";

/// What threads of connections do in both servers, outermost.
const CONNECTIONS: [&str; 4] = [
    "handle_one_connection",
    "do_handle_one_connection",
    "thd_prepare_connection",
    "do_command",
];

/// Roles beyond [`ROLES_MAX`].
const OTHERS: &str = "(others)";

/// The threads of a process, as far as they were met.
#[derive(Debug)]
pub struct Directory {
    tasks: PathBuf,
    /// What a thread is called that has no name of its own.
    program: Option<String>,
    threads: FxHashMap<Thread, Known>,
    roles: Vec<String>,
    /// Roles known by the calls of a thread that has it, and how their text begins until
    /// [`Directory::name_roots`].
    roots: FxHashMap<StackId, RoleId>,
}

#[derive(Debug, Clone)]
struct Known {
    name: Option<String>,
    role: RoleId,
    /// The role is known by the thread's calls.
    by_root: bool,
}

impl Directory {
    /// Of the process with this number.
    pub fn of_process(pid: u32) -> Self {
        Self {
            tasks: PathBuf::from(format!("/proc/{pid}/task")),
            program: read_proc(format!("/proc/{pid}/comm"))
                .ok()
                .map(|n| plain(&n)),
            threads: FxHashMap::default(),
            roles: Vec::new(),
            roots: FxHashMap::default(),
        }
    }

    /// Takes note of a thread that is in these calls. If it has no name of its own, they say what
    /// it is for.
    pub fn meet(&mut self, thread: Thread, stack: Option<StackId>) {
        self.role(thread);
        let Some(stack) = stack else { return };
        let Some(known) = self.threads.get(&thread) else {
            return;
        };
        if known.by_root || known.name.is_none() || known.name != self.program {
            return;
        }
        let role = match self.roots.get(&stack) {
            Some(role) => *role,
            None if self.roots.len() >= ROOTS_MAX => return,
            // No name begins like this.
            None => self.intern(&format!("\0{}", stack.0)),
        };
        self.roots.insert(stack, role);
        if let Some(known) = self.threads.get_mut(&thread) {
            known.role = role;
            known.by_root = true;
        }
    }

    /// Names the roles that are known by calls; `root` says which of the program's own functions is
    /// the outermost in them.
    pub fn name_roots(&mut self, mut root: impl FnMut(StackId) -> Option<String>) {
        let program = self.program.clone().unwrap_or_default();
        for (stack, role) in &self.roots {
            let Some(text) = self.roles.get_mut(usize::from(role.0)) else {
                continue;
            };
            if text.starts_with('\0') {
                let root = root(*stack);
                *text = root.map_or_else(|| role_of(&program).to_owned(), |r| role_of_root(&r));
            }
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
            let known = Known {
                name,
                role,
                by_root: false,
            };
            self.threads.insert(thread, known);
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
            let Some(name) = self.read(thread.tid) else {
                continue;
            };
            let has_own = self.program.as_deref() != Some(name.as_str());
            if !has_own && self.threads[&thread].by_root {
                continue;
            }
            let known = Known {
                role: self.intern(role_of(&name)),
                name: Some(name),
                by_root: false,
            };
            self.threads.insert(thread, known);
        }
    }

    /// How people know the thread: its name and number.
    pub fn label(&self, thread: Thread) -> String {
        let name = match self.threads.get(&thread) {
            Some(known) if known.by_root => Some(self.role_name(known.role)),
            known => known.and_then(|known| known.name.as_deref()),
        };
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
        let own = read_proc(self.tasks.join(tid.to_string()).join("comm"));
        // Who wakes a thread may be another program, or the kernel.
        let name = own.or_else(|_| read_proc(format!("/proc/{tid}/comm")));
        name.ok().map(|name| plain(&name))
    }

    fn intern(&mut self, role: &str) -> RoleId {
        let place = |roles: &[String], role: &str| roles.iter().position(|known| known == role);
        if let Some(known) = place(&self.roles, role) {
            return RoleId(known as u16);
        }
        // Those that are to be named yet may all turn out to be one.
        let is_named = |role: &&String| !role.starts_with('\0');
        let is_full =
            !role.starts_with('\0') && self.roles.iter().filter(is_named).count() >= ROLES_MAX;
        let role = if is_full { OTHERS } else { role };
        let index = place(&self.roles, role).unwrap_or_else(|| {
            self.roles.push(role.to_owned());
            self.roles.len() - 1
        });
        RoleId(index as u16)
    }
}

/// The kernel allows every byte in a name, and it goes to a terminal.
fn plain(name: &str) -> String {
    let plain = |c: char| if is_harmful(c) { '?' } else { c };
    name.trim_end_matches('\n').chars().map(plain).collect()
}

/// The role of a thread without a name of its own, by the outermost of its program's functions.
pub fn role_of_root(root: &str) -> String {
    let name = match root {
        _ if CONNECTIONS.contains(&root) => "connection",
        "handle_slave_worker" | "slave_worker_exec_job_group" | "handle_rpl_parallel_thread" => {
            "rpl_worker"
        }
        "handle_slave_sql" => "replica_sql",
        "handle_slave_io" => "replica_io",
        _ => return plain(root),
    };
    role_of(name).to_owned()
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
        assert_eq!(
            role_of_root("slave_worker_exec_job_group"),
            "replica worker"
        );
        assert_eq!(role_of_root("tpool::timer"), "tpool::timer");
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
    fn a_thread_without_a_name_is_what_its_calls_say() {
        let pid = std::process::id();
        let mut directory = Directory::of_process(pid);
        // The first thread has the program's name.
        let main = Thread {
            tid: pid,
            began_ns: 1,
        };
        let program = directory.program.clone().expect("a name");
        directory.meet(main, None);
        assert_eq!(directory.name(main), Some(program.as_str()));
        directory.meet(main, Some(StackId(7)));
        directory.meet(main, Some(StackId(8)));
        directory.refresh();
        let role = directory.role(main);
        directory.name_roots(|stack| (stack == StackId(7)).then(|| "do_command".to_owned()));
        assert_eq!(directory.role_name(role), "user connection");
        assert_eq!(directory.label(main), format!("user connection {pid}"));
        assert!(directory.roles.iter().all(|role| !role.starts_with('\0')));
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
