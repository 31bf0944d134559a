//! What all threads of a process have waited and how often they were switched, ended ones too.
//!
//! The kernel's task statistics (generic netlink, `TASKSTATS`) sum it up in one question; that
//! takes `CAP_NET_ADMIN` and the host's process namespace. Else every thread's files are read,
//! which is dear with hundreds of threads: of one that has not run since, the small file alone, and
//! no more often than keeps it all below a two-thousandth of a core. Invariant: sums never go down;
//! the sum of a walk keeps what threads had that have ended since, up to the last walk they were
//! seen in.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use waggle_server::cpu::own_thread_cpu_ns;

use super::parse;

/// Sums over threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tasks {
    /// Ready but not running, ns.
    pub(super) run_delay_ns: u64,
    /// Context switches, voluntary and forced.
    pub(super) switches: (u64, u64),
}

// Of <linux/netlink.h>, <linux/genetlink.h> and <linux/taskstats.h>.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_TGID: u16 = 2;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_TGID: u16 = 5;
/// Where the fields stand in `struct taskstats`, the same since its version 2.
const CPU_DELAY_TOTAL: usize = 24;
const NVCSW: usize = 272;
const NIVCSW: usize = 280;

const HEADERS: usize = 16 + 4;

/// The kernel's task statistics.
#[derive(Debug)]
pub(super) struct TaskStats {
    socket: OwnedFd,
    family: u16,
    buffer: Vec<u8>,
}

impl TaskStats {
    /// Opens them.
    ///
    /// # Errors
    /// The kernel has none, or does not give them to this process.
    pub(super) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: socket has no memory to touch.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // An answer comes at once or never: the agent's loop must not hang.
        let limit = libc::timeval {
            tv_sec: 0,
            tv_usec: 200_000,
        };
        // SAFETY: `limit` is a timeval of the length given, for the length of the call.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const limit).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            );
        }
        let mut stats = Self {
            socket,
            family: GENL_ID_CTRL,
            buffer: vec![0; 4096],
        };
        let name = b"TASKSTATS\0";
        let answer = stats.ask(CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, name)?;
        let id = attribute(answer, CTRL_ATTR_FAMILY_ID).and_then(|id| id.first_chunk());
        stats.family = u16::from_ne_bytes(*id.ok_or(io::ErrorKind::InvalidData)?);
        Ok(stats)
    }

    /// Sums over all threads of process `pid`, those that ended too.
    ///
    /// # Errors
    /// There is no such process, or this one may not ask.
    pub(super) fn of_process(&mut self, pid: u32) -> io::Result<Tasks> {
        let answer = self.ask(
            TASKSTATS_CMD_GET,
            TASKSTATS_CMD_ATTR_TGID,
            &pid.to_ne_bytes(),
        )?;
        let stats = attribute(answer, TASKSTATS_TYPE_AGGR_TGID)
            .and_then(|inner| attribute(inner, TASKSTATS_TYPE_STATS));
        stats
            .and_then(sums)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sends one command with one attribute; the attributes of the answer.
    fn ask(&mut self, command: u8, kind: u16, value: &[u8]) -> io::Result<&[u8]> {
        let length = HEADERS + 4 + value.len();
        let mut message = Vec::with_capacity(length + 3);
        message.extend_from_slice(&(length as u32).to_ne_bytes());
        message.extend_from_slice(&self.family.to_ne_bytes());
        message.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        message.extend_from_slice(&[0; 8]); // sequence and port
        message.extend_from_slice(&[command, 1, 0, 0]);
        message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(value);
        let fd = self.socket.as_raw_fd();
        // SAFETY: the pointer and length are those of `message`.
        let sent = unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let room = self.buffer.len();
        // SAFETY: the pointer and length are those of the buffer.
        let got = unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), room, 0) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        attributes(&self.buffer[..got])
    }
}

/// The attributes of an answer.
fn attributes(answer: &[u8]) -> io::Result<&[u8]> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let length = answer
        .first_chunk()
        .map(|n| u32::from_ne_bytes(*n) as usize);
    let message = length.and_then(|n| answer.get(..n)).ok_or_else(invalid)?;
    let kind = message.get(4..6).ok_or_else(invalid)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let number = message
            .get(16..20)
            .and_then(|n| n.first_chunk())
            .ok_or_else(invalid)?;
        return Err(match i32::from_ne_bytes(*number).checked_neg() {
            Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
            Some(number) => io::Error::from_raw_os_error(number),
            None => invalid(),
        });
    }
    message.get(HEADERS..).ok_or_else(invalid)
}

/// The attribute `kind` among attributes laid end to end, each padded to four bytes.
fn attribute(mut rest: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let found = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        // The upper two bits say how it is coded, not what it is.
        if found & 0x3fff == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn sums(stats: &[u8]) -> Option<Tasks> {
    let at = |offset| Some(u64::from_ne_bytes(*stats.get(offset..)?.first_chunk()?));
    Some(Tasks {
        run_delay_ns: at(CPU_DELAY_TOTAL)?,
        switches: (at(NVCSW)?, at(NIVCSW)?),
    })
}

/// What a walk found of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    tasks: Tasks,
    /// How often it came to run; 0 where the kernel does not count that.
    runs: u64,
}

impl Thread {
    /// Whether it has neither run since nor ran when it was looked at: as often as it came it has
    /// gone, and each going was a switch.
    fn has_slept_since(&self, runs: u64) -> bool {
        let (voluntary, forced) = self.tasks.switches;
        runs != 0 && runs == self.runs && voluntary.saturating_add(forced) >= runs
    }
}

/// The same by reading every thread's files.
#[derive(Debug, Default)]
pub(super) struct Walk {
    seen: HashMap<u32, Thread>,
    ended: Tasks,
    next: Option<Instant>,
    latest: Tasks,
}

impl Walk {
    /// Share of a core that walks may take: one in so many.
    const SHARE: u32 = 2000;

    /// Sums over the threads of process `pid`, as old as it takes to be cheap.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn of_process(&mut self, pid: u32) -> io::Result<Tasks> {
        if self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(self.latest);
        }
        let begun_ns = own_thread_cpu_ns();
        let dir = format!("/proc/{pid}/task");
        let mut now = HashMap::with_capacity(self.seen.len());
        for entry in fs::read_dir(&dir)? {
            let tid = entry
                .ok()
                .and_then(|e| e.file_name().to_str()?.parse::<u32>().ok());
            // A thread that ends in between keeps what it had the last time.
            let found = tid.and_then(|tid| Some((tid, self.look(&dir, tid)?)));
            now.extend(found);
        }
        self.take(now);
        let cost = Duration::from_nanos(own_thread_cpu_ns().saturating_sub(begun_ns));
        self.next = Some(Instant::now() + cost * Self::SHARE);
        Ok(self.latest)
    }

    fn look(&self, dir: &str, tid: u32) -> Option<Thread> {
        let (run_delay_ns, runs) = parse::schedstat(&small(&format!("{dir}/{tid}/schedstat"))?)?;
        let known = self.seen.get(&tid).filter(|t| t.has_slept_since(runs));
        let switches = match known {
            Some(thread) => thread.tasks.switches,
            None => parse::switches(&small(&format!("{dir}/{tid}/status"))?)?,
        };
        let tasks = Tasks {
            run_delay_ns,
            switches,
        };
        Some(Thread { tasks, runs })
    }

    /// Takes what a walk found in place of what the last one found.
    fn take(&mut self, now: HashMap<u32, Thread>) {
        for (tid, old) in std::mem::replace(&mut self.seen, now) {
            let old = old.tasks;
            // A number may be another thread's by now, whose sums begin anew.
            let is_same = self.seen.get(&tid).is_some_and(|new| {
                let new = new.tasks;
                new.run_delay_ns >= old.run_delay_ns && new.switches.0 >= old.switches.0
            });
            if !is_same {
                self.ended = add(self.ended, old);
            }
        }
        self.latest = self
            .seen
            .values()
            .fold(self.ended, |sum, thread| add(sum, thread.tasks));
    }
}

/// A file of the kernel's that is shorter than a page, in one read: it is made anew for each.
fn small(path: &str) -> Option<String> {
    let mut text = [0; 4096];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn add(a: Tasks, b: Tasks) -> Tasks {
    Tasks {
        run_delay_ns: a.run_delay_ns.saturating_add(b.run_delay_ns),
        switches: (
            a.switches.0.saturating_add(b.switches.0),
            a.switches.1.saturating_add(b.switches.1),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_threads_never_go_down() {
        let tasks = |n| Tasks {
            run_delay_ns: n,
            switches: (n, n),
        };
        let thread = |n| Thread {
            tasks: tasks(n),
            runs: 2 * n,
        };
        let mut walk = Walk::default();
        walk.take([(1, thread(10)), (2, thread(5))].into());
        assert_eq!(walk.latest, tasks(15));
        // 2 has ended; its number is used again, and 3 is new.
        walk.take([(1, thread(12)), (2, thread(1)), (3, thread(4))].into());
        assert_eq!(walk.latest, tasks(5 + 12 + 1 + 4));
        walk.take(HashMap::new());
        assert_eq!(walk.latest, tasks(22));
    }

    #[test]
    fn only_who_slept_all_the_time_is_not_looked_at_again() {
        let thread = |switches, runs| Thread {
            tasks: Tasks {
                run_delay_ns: 1,
                switches,
            },
            runs,
        };
        assert!(thread((5, 2), 7).has_slept_since(7));
        assert!(!thread((5, 2), 7).has_slept_since(8), "it ran");
        assert!(!thread((5, 1), 7).has_slept_since(7), "it was running");
        assert!(!thread((5, 2), 0).has_slept_since(0), "not counted here");
    }

    #[test]
    fn switches_of_a_sleeper_are_right_whether_or_not_they_are_read_again() {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: no preconditions.
            tell.send(unsafe { libc::gettid() } as u32).unwrap();
            while woken.recv().is_ok() {}
        });
        let tid = told.recv().unwrap();
        let dir = format!("/proc/{}/task", std::process::id());
        let status = || parse::switches(&small(&format!("{dir}/{tid}/status")).unwrap()).unwrap();
        let mut walk = Walk::default();
        let (mut reused, mut is_counted) = (0, false);
        for _ in 0..200 {
            wake.send(()).unwrap();
            for _ in 0..2 {
                let before = status();
                let seen = walk.look(&dir, tid).unwrap();
                let after = status();
                let known = walk.seen.insert(tid, seen);
                reused += u32::from(known.is_some_and(|k| k.has_slept_since(seen.runs)));
                is_counted |= seen.runs > 0;
                // It may go in between.
                let switches = seen.tasks.switches;
                assert!(
                    before <= switches && switches <= after,
                    "{before:?} {switches:?}"
                );
            }
        }
        drop(wake);
        sleeper.join().unwrap();
        assert!(reused > 0 || !is_counted, "nobody slept");
    }

    #[test]
    fn this_process_by_its_threads() {
        let mut walk = Walk::default();
        let found = walk.of_process(std::process::id()).unwrap();
        assert!(found.switches.0 + found.switches.1 > 0);
        assert!(
            walk.next
                .is_some_and(|next| next > Instant::now() - Duration::from_secs(3600))
        );
        walk.next = Some(Instant::now() + Duration::from_secs(3600));
        // The second look is too early to walk again.
        assert_eq!(walk.of_process(std::process::id()).unwrap(), found);
        assert!(Walk::default().of_process(4_194_305).is_err());
    }

    #[test]
    fn attributes_of_hostile_answers() {
        let mut answer = vec![0u8; 20];
        answer.extend_from_slice(&[8, 0, 1, 0, 7, 0, 0, 0, 6, 0, 2, 0, 9, 9, 0, 0]);
        let length = answer.len() as u32;
        answer[..4].copy_from_slice(&length.to_ne_bytes());
        let good = attributes(&answer).unwrap();
        assert_eq!(attribute(good, 2), Some(&[9, 9][..]));
        assert_eq!(attribute(good, 3), None);
        let mut random = crate::mutation::Random::new(7);
        for _ in 0..20_000 {
            let mut bytes = answer.clone();
            random.mutate(&mut bytes);
            if let Ok(rest) = attributes(&bytes) {
                let _ = attribute(rest, 2).and_then(sums);
            }
        }
        // A length of nothing must not go round for ever.
        assert_eq!(attribute(&[0, 0, 1, 0, 0, 0, 0, 0], 2), None);
    }
}
