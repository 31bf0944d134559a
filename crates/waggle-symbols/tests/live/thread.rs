//! One thread of a server, stopped where the probe would be, and what stands in its memory there.
//!
//! A hardware breakpoint in the thread alone: the server's code is not changed, and its other
//! threads run on. Invariant: between two observations the thread is neither traced nor stopped.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use waggle_server::sandbox::Sandbox;
use waggle_symbols::{
    Binary, FieldName, Hook, HookSite, Location, Register, Site, StatementLayout, hook, mark,
    recipe,
};

/// How long a stop may take to come before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command by which a client makes sure that its last statement has ended.
const COM_PING: u64 = 14;

/// What one statement left in memory at its end.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// The address of its `THD`.
    pub(crate) thd: u64,
    /// The hooks it passed, of those looked at, and their arguments.
    pub(crate) passed: Vec<(Hook, Vec<u64>)>,
    numbers: HashMap<FieldName, u64>,
    texts: HashMap<FieldName, String>,
}

impl Seen {
    pub(crate) fn number(&self, name: FieldName) -> u64 {
        self.numbers[&name]
    }

    pub(crate) fn text(&self, name: FieldName) -> &str {
        self.texts.get(&name).map_or("", String::as_str)
    }
}

/// The statement's end in the code of one server process.
pub(crate) struct Place {
    address: u64,
    /// Where statements within routines end, if they do not end there too.
    routine_address: Option<u64>,
    /// Every hook of the build, and where it is mapped.
    hooks: Vec<(HookSite, u64)>,
    /// What to take off an `MDL_context_owner`'s address to have its `THD`'s.
    pub(crate) owner_offset: u64,
    register: Register,
    pub(crate) layout: StatementLayout,
    memory: File,
}

impl Place {
    /// Finds it in `server` by decoding: the table is held against the decoding elsewhere.
    pub(crate) fn of(server: &Sandbox) -> Self {
        let (pid, exe) = (server.pid(), server.program().exe.as_path());
        let binary = Binary::open(exe, recipe::wanted).expect("a server binary");
        let end = binary.function_by_prefix("_Z18log_slow_statementP3THD");
        let site = Site::find(&end.expect("every build exports it"), 0).expect("a site");
        let routine = mark::routine_end(&binary).expect("it shows");
        let routine = routine.inspect(|routine| assert_eq!(routine.register, site.register));
        let layout = StatementLayout::decode(&binary);
        let hooks = Hook::ALL.into_iter().filter_map(|h| h.find(&binary).ok());
        let hooks = hooks.map(|found| {
            let at = mapped_at(pid, exe, found.site.file_offset);
            (found, at)
        });
        Self {
            hooks: hooks.collect(),
            owner_offset: hook::owner_offset(&binary).expect("it shows").into(),
            address: mapped_at(pid, exe, site.file_offset),
            routine_address: routine.map(|routine| mapped_at(pid, exe, routine.file_offset)),
            register: site.register,
            layout,
            memory: File::open(PathBuf::from(format!("/proc/{pid}/mem"))).expect("its memory"),
        }
    }

    fn word(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        let read = self.memory.read_exact_at(&mut word, address);
        read.unwrap_or_else(|error| panic!("at {address:#x}: {error}"));
        u64::from_le_bytes(word)
    }

    fn address_of(&self, thd: u64, location: &Location) -> u64 {
        let base = location
            .derefs
            .iter()
            .fold(thd, |base, at| self.word(base + u64::from(*at)));
        base + u64::from(location.offset)
    }

    fn text(&self, thd: u64, location: &Location) -> String {
        let at = self.address_of(thd, location);
        let pointer = self.word(at);
        if pointer == 0 {
            return String::new();
        }
        let mut bytes = vec![0; 4096];
        if location.length_follows {
            bytes.truncate(usize::try_from(self.word(at + 8)).expect("a length"));
        }
        let read = self.memory.read_at(&mut bytes, pointer).expect("a string");
        assert!(read == bytes.len() || !location.length_follows);
        bytes.truncate(read);
        if !location.length_follows {
            let end = bytes.iter().position(|b| *b == 0).expect("a NUL");
            bytes.truncate(end);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn read(&self, thd: u64) -> Seen {
        let mut seen = Seen {
            thd,
            ..Seen::default()
        };
        for name in FieldName::ALL {
            let location = self.layout.location(name);
            let location = location.unwrap_or_else(|| panic!("{name:?} is not known"));
            if is_text(name) {
                seen.texts.insert(name, self.text(thd, location));
            } else {
                let value = self.word(self.address_of(thd, location));
                let bits = u32::from(location.width) * 8;
                let mask = u64::MAX >> (64 - bits);
                seen.numbers.insert(name, value & mask);
            }
        }
        seen
    }
}

fn is_text(name: FieldName) -> bool {
    matches!(
        name,
        FieldName::Query | FieldName::Database | FieldName::User | FieldName::ClientHost
    )
}

/// The address at which process `pid` has the byte at `offset` of the program `exe`.
fn mapped_at(pid: u32, exe: &Path, offset: u64) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps");
    let name = exe.file_name().expect("a name").to_str().expect("UTF-8");
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let found = maps.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, rights, from, _, _, path] = fields[..] else {
            return None;
        };
        let (start, end) = range.split_once('-')?;
        let (start, end, from) = (hexadecimal(start), hexadecimal(end), hexadecimal(from));
        let is_code = rights.contains('x') && path.ends_with(name);
        let holds = (from..from + (end - start)).contains(&offset);
        (is_code && holds).then(|| start + (offset - from))
    });
    found.unwrap_or_else(|| panic!("{name} is not mapped in {pid}:\n{maps}"))
}

/// A traced thread; ends with the value, unless the thread itself ended first.
struct Traced<'a> {
    place: &'a Place,
    tid: i32,
    hooks: Vec<&'a (HookSite, u64)>,
}

impl<'a> Traced<'a> {
    /// Stops thread `tid`, arms the breakpoint in it and one at each of `hooks` (three at most:
    /// the processor has four), and lets it run. With fewer, statements within routines stop it
    /// too.
    fn arm(place: &'a Place, tid: i32, hooks: &[Hook]) -> Self {
        let known = place.hooks.iter();
        let hooks: Vec<_> = known.filter(|(h, _)| hooks.contains(&h.hook)).collect();
        let traced = Self { place, tid, hooks };
        traced.request(libc::PTRACE_SEIZE, 0, 0);
        traced.request(libc::PTRACE_INTERRUPT, 0, 0);
        traced.wait_for_stop();
        traced.set_breakpoint(true);
        traced.resume();
        traced
    }

    /// Waits until the thread ends a statement, and reads what is there. It stays stopped.
    fn next(&self) -> Seen {
        let mut passed = Vec::new();
        loop {
            let signal = self.wait_for_stop();
            let registers = self.registers();
            let is_end = self.place.address == registers.rip
                || self.place.routine_address == Some(registers.rip);
            if signal == libc::SIGTRAP && is_end {
                let mut seen = self.place.read(held(&registers, self.place.register));
                seen.passed = passed;
                return seen;
            }
            if let Some((found, _)) = self.hooks.iter().find(|(_, at)| *at == registers.rip) {
                let arguments = found.arguments.iter().map(|r| held(&registers, *r));
                passed.push((found.hook, arguments.collect()));
            }
            // A signal of its own: it gets it.
            let passed = if signal == libc::SIGTRAP { 0 } else { signal };
            self.request(libc::PTRACE_CONT, 0, u64::from(passed.unsigned_abs()));
        }
    }

    fn resume(&self) {
        self.request(libc::PTRACE_CONT, 0, 0);
    }

    /// Lets the stopped thread go.
    fn release(self) {
        self.set_breakpoint(false);
        self.request(libc::PTRACE_DETACH, 0, 0);
    }

    fn set_breakpoint(&self, on: bool) {
        let register = |index: usize| {
            let start = std::mem::offset_of!(libc::user, u_debugreg);
            (start + index * size_of::<u64>()) as u64
        };
        const BREAKPOINTS: usize = 4;
        let hooks = self.hooks.iter().map(|(_, at)| *at);
        let all = [self.place.address].into_iter().chain(hooks);
        let all = all.chain(self.place.routine_address).take(BREAKPOINTS);
        let mut enabled = 0;
        for (index, address) in all.enumerate() {
            if on {
                self.request(libc::PTRACE_POKEUSER, register(index), address);
                // This thread only, one byte, on execution.
                enabled |= 1 << (2 * index);
            }
        }
        self.request(libc::PTRACE_POKEUSER, register(7), enabled);
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: plain integers, for which zero is a value.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, 0, (&raw mut registers) as u64);
        registers
    }

    /// The signal it stopped with.
    fn wait_for_stop(&self) -> i32 {
        libc::WSTOPSIG(self.wait_for_status())
    }

    /// How it stopped, as `waitpid` tells. Another thread waits: this one can lose patience.
    fn wait_for_status(&self) -> i32 {
        let (sender, stops) = mpsc::channel();
        let tid = self.tid;
        std::thread::spawn(move || {
            let mut status = 0;
            // SAFETY: an integer that lives during the call.
            let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
            let _ = sender.send((waited, status));
        });
        let (waited, status) = stops.recv_timeout(PATIENCE).expect("no statement ended");
        assert_eq!(waited, self.tid);
        assert!(libc::WIFSTOPPED(status), "thread {} ended", self.tid);
        status
    }

    fn request(&self, request: libc::c_uint, address: u64, data: u64) {
        // SAFETY: `data` is a number, or for PTRACE_GETREGS the address of a register set that
        // lives during the call; `address` is one in the other process or in its user area.
        let done = unsafe { libc::ptrace(request, self.tid, address, data) };
        let error = std::io::Error::last_os_error();
        assert!(done == 0, "request {request} of {}: {error}", self.tid);
    }
}

fn held(registers: &libc::user_regs_struct, register: Register) -> u64 {
    let r = registers;
    let all = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ];
    all[usize::from(register.0)]
}

/// Runs `work` elsewhere and collects what every statement that thread `tid` ends meanwhile left,
/// up to and with the one whose text is `last`.
pub(crate) fn observe<T: Send>(
    place: &Place,
    (tid, hooks): (i32, &[Hook]),
    last: &str,
    work: impl FnOnce() -> T + Send,
) -> (Vec<Seen>, T) {
    let mut all = Vec::new();
    let traced = Traced::arm(place, tid, hooks);
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        loop {
            let seen = traced.next();
            if seen.number(FieldName::Command) == COM_PING {
                // What the client had an answer to before the thread was done with it.
                traced.resume();
                continue;
            }
            let is_last = seen.text(FieldName::Query) == last;
            all.push(seen);
            if is_last {
                break;
            }
            traced.resume();
        }
        traced.release();
        worker.join().expect("the statement")
    });
    (all, result)
}

/// Runs `work`, and reads what the first statement left that a thread made by thread `tid` ends.
pub(crate) fn observe_child(place: &Place, tid: i32, work: impl FnOnce()) -> Seen {
    let parent = Traced {
        place,
        tid,
        hooks: Vec::new(),
    };
    parent.request(libc::PTRACE_SEIZE, 0, TRACE_CLONE);
    work();
    // The parent stops for it; what else stopped it passes.
    let child = loop {
        let event = parent.wait_for_status() >> 16;
        if event == libc::PTRACE_EVENT_CLONE {
            let mut tid: libc::c_ulong = 0;
            parent.request(libc::PTRACE_GETEVENTMSG, 0, (&raw mut tid) as u64);
            break i32::try_from(tid).expect("a thread id");
        }
        parent.resume();
    };
    let child = Traced {
        place,
        tid: child,
        hooks: Vec::new(),
    };
    child.wait_for_stop();
    child.set_breakpoint(true);
    child.resume();
    parent.request(libc::PTRACE_DETACH, 0, 0);
    let seen = child.next();
    child.release();
    seen
}

/// `PTRACE_O_TRACECLONE`.
const TRACE_CLONE: u64 = 8;
