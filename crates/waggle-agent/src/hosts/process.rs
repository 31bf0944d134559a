//! A server's process: processor time, memory, storage, threads.
//!
//! Neighbours: `tasks` sums what only threads know; `parse` reads the texts. Invariant: files stay
//! open, and the kernel ties them to this very process, so that another one that gets the same id
//! later is never mistaken for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::host::{Kept, ticks_per_s};
use super::parse;
use super::tasks::{TaskStats, Tasks, Walk};
use crate::host::ProcessSample;

/// How often open files are counted one by one, where the kernel gives no count (before 6.2).
const COUNT_FILES: Duration = Duration::from_secs(10);

/// Reads what one process uses.
#[derive(Debug)]
pub struct ProcessSampler {
    pid: u32,
    stat: Kept,
    io: Kept,
    tasks: Option<TaskStats>,
    walk: Walk,
    files: (u32, Option<Instant>),
    ticks_per_s: f64,
    page_bytes: u64,
    buffer: Vec<u8>,
}

impl ProcessSampler {
    /// A sampler of process `pid`; files are opened now, while the rights to are there.
    ///
    /// # Errors
    /// There is no such process ([`io::ErrorKind::NotFound`]).
    pub fn new(pid: u32) -> io::Result<Self> {
        let mut sampler = Self {
            pid,
            stat: Kept::open(&format!("/proc/{pid}/stat")),
            io: Kept::open(&format!("/proc/{pid}/io")),
            tasks: TaskStats::open().ok(),
            walk: Walk::default(),
            files: (0, None),
            ticks_per_s: ticks_per_s(),
            page_bytes: page_bytes(),
            buffer: Vec::new(),
        };
        sampler.stat.read(&mut sampler.buffer)?;
        Ok(sampler)
    }

    /// Reads everything once. What may not be read is named in
    /// [`missing`](ProcessSample::missing).
    ///
    /// # Errors
    /// The process is gone ([`io::ErrorKind::NotFound`]).
    pub fn sample(&mut self) -> io::Result<ProcessSample> {
        let stat = parse::process_stat(self.stat.read(&mut self.buffer)?);
        let stat = stat.ok_or(io::ErrorKind::InvalidData)?;
        let mut missing = Vec::new();
        let storage = self.io.read(&mut self.buffer).map(parse::io);
        let storage_bytes = match storage {
            Ok(Some(bytes)) => bytes,
            Ok(None) => named(&mut missing, "storage_bytes", "not counted by this kernel"),
            Err(error) => named(&mut missing, "storage_bytes", &error.to_string()),
        };
        let files = match self.count_files() {
            Ok(files) => files,
            Err(error) => named(&mut missing, "files", &error.to_string()),
        };
        let tasks = match self.sum_tasks() {
            Ok(tasks) => tasks,
            Err(error) => {
                let why = error.to_string();
                named::<()>(&mut missing, "runqueue_s", &why);
                named(&mut missing, "switches", &why)
            }
        };
        Ok(ProcessSample {
            cpu_s: (
                stat.user_ticks as f64 / self.ticks_per_s,
                stat.system_ticks as f64 / self.ticks_per_s,
            ),
            runqueue_s: tasks.run_delay_ns as f64 / 1e9,
            rss_bytes: stat.rss_pages.saturating_mul(self.page_bytes),
            storage_bytes,
            threads: stat.threads,
            files,
            switches: tasks.switches,
            missing,
        })
    }

    fn sum_tasks(&mut self) -> io::Result<Tasks> {
        if let Some(stats) = &mut self.tasks {
            match stats.of_process(self.pid) {
                Ok(tasks) => return Ok(tasks),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                // The right to ask may be given up after the start.
                Err(_) => self.tasks = None,
            }
        }
        self.walk.of_process(self.pid)
    }

    fn count_files(&mut self) -> io::Result<u32> {
        let dir = format!("/proc/{}/fd", self.pid);
        let size = fs::metadata(&dir)?.size();
        if size > 0 {
            return Ok(u32::try_from(size).unwrap_or(u32::MAX));
        }
        if self
            .files
            .1
            .is_none_or(|last| last.elapsed() >= COUNT_FILES)
        {
            let count = fs::read_dir(&dir)?.count();
            self.files = (
                u32::try_from(count).unwrap_or(u32::MAX),
                Some(Instant::now()),
            );
        }
        Ok(self.files.0)
    }
}

/// Notes that a field is missing; its value in the sample is the empty one.
fn named<T: Default>(
    missing: &mut Vec<(&'static str, String)>,
    field: &'static str,
    why: &str,
) -> T {
    missing.push((field, why.to_owned()));
    T::default()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf has no memory to touch.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn this_process_and_its_threads() {
        let mut sampler = ProcessSampler::new(std::process::id()).unwrap();
        let first = sampler.sample().unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let file = fs::File::open("/dev/null").unwrap();
            let _ = held.recv();
            file
        });
        // The thread rests in its wait when it was switched away from once.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let now = sampler.sample().unwrap();
            if now.threads > 1 && now.files > 3 && now.switches.0 > 0 {
                assert!(now.rss_bytes > 1 << 20 && now.runqueue_s >= first.runqueue_s);
                break;
            }
            assert!(Instant::now() < deadline, "{now:?}");
            std::thread::yield_now();
        }
        drop(hold);
        thread.join().unwrap();
    }

    #[test]
    fn a_process_that_ends_is_not_found() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut sampler = ProcessSampler::new(child.id()).unwrap();
        assert_eq!(sampler.sample().unwrap().threads, 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            sampler.sample().unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(ProcessSampler::new(4_194_305).is_err());
    }

    #[test]
    fn both_ways_agree_on_a_process_that_rests() {
        let Ok(mut stats) = TaskStats::open() else {
            return; // without the right to ask there is nothing to compare
        };
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // Until it rests its counts move: the same twice in a row is at rest.
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut last = None;
        let found = loop {
            let walked = Walk::default().of_process(child.id()).unwrap();
            let Ok(asked) = stats.of_process(child.id()) else {
                break None;
            };
            if asked == walked && last == Some(asked) && asked.switches.0 > 0 {
                break Some(asked);
            }
            assert!(Instant::now() < deadline, "{asked:?} {walked:?}");
            last = Some(asked);
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.is_none_or(|tasks| tasks.switches.0 > 0));
    }
}
