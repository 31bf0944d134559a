//! The host: processors, memory, disks, network.
//!
//! Neighbours: `parse` reads the texts. Invariants: files stay open and are read from their start,
//! which spares a path walk each; disks are whole and real ones, so that no byte is counted twice;
//! the network is the host's, also where the agent runs in a namespace of its own.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::parse;
use crate::host::{DiskSample, HostSample};

/// Reads what the host uses.
#[derive(Debug)]
pub struct HostSampler {
    stat: Kept,
    loadavg: Kept,
    meminfo: Kept,
    diskstats: Kept,
    network: Kept,
    pressure: [Kept; 3],
    /// Whether a name of `/proc/diskstats` is a whole disk.
    disks: HashMap<String, bool>,
    ticks_per_s: f64,
    buffer: Vec<u8>,
}

impl Default for HostSampler {
    fn default() -> Self {
        Self::new()
    }
}

impl HostSampler {
    /// A sampler; files are opened now, while the rights to are there.
    pub fn new() -> Self {
        // The host's first process has the host's network; without the right to look at it, one's
        // own has to do.
        let network = Kept::open("/proc/1/net/dev");
        let network = match network.file {
            Some(_) => network,
            None => Kept::open("/proc/net/dev"),
        };
        Self {
            stat: Kept::open("/proc/stat"),
            loadavg: Kept::open("/proc/loadavg"),
            meminfo: Kept::open("/proc/meminfo"),
            diskstats: Kept::open("/proc/diskstats"),
            network,
            pressure: ["cpu", "memory", "io"].map(|of| Kept::open(&format!("/proc/pressure/{of}"))),
            disks: HashMap::new(),
            ticks_per_s: ticks_per_s(),
            buffer: Vec::new(),
        }
    }

    /// Reads everything once. The agent itself, which runs while it reads, is not among the
    /// runnable tasks.
    ///
    /// # Errors
    /// `/proc` is not there or cannot be understood. Disks and interfaces that cannot be read are
    /// missing from their lists instead.
    pub fn sample(&mut self) -> io::Result<HostSample> {
        let stat = parse::stat(self.stat.read(&mut self.buffer)?, self.ticks_per_s);
        let stat = stat.ok_or_else(|| odd("/proc/stat"))?;
        let memory = parse::meminfo(self.meminfo.read(&mut self.buffer)?);
        let [memory_bytes, swap_bytes] = memory.ok_or_else(|| odd("/proc/meminfo"))?;
        let load = parse::loadavg(self.loadavg.read(&mut self.buffer)?);
        let text = self.network.read(&mut self.buffer).unwrap_or_default();
        let networks = parse::networks(text);
        Ok(HostSample {
            processors: stat.processors,
            cpu_s: stat.cpu,
            runnable: stat.runnable.saturating_sub(1),
            blocked: stat.blocked,
            load: load.ok_or_else(|| odd("/proc/loadavg"))?,
            memory_bytes,
            swap_bytes,
            pressure: self.pressure(),
            disks: self.disks(),
            networks,
        })
    }

    /// `None` if the kernel does not tell any of the three.
    fn pressure(&mut self) -> Option<[f64; 3]> {
        let mut found = [0.0; 3];
        for (kept, value) in self.pressure.iter_mut().zip(&mut found) {
            *value = parse::pressure(kept.read(&mut self.buffer).ok()?)?;
        }
        Some(found)
    }

    fn disks(&mut self) -> Vec<DiskSample> {
        let text = self.diskstats.read(&mut self.buffer).unwrap_or_default();
        let mut found = Vec::new();
        for disk in parse::diskstats(text) {
            let is_whole = match self.disks.get(disk.name) {
                Some(known) => *known,
                None => {
                    // A host that makes devices without end must not fill the memory.
                    if self.disks.len() > 4096 {
                        self.disks.clear();
                    }
                    let is_whole = is_whole_disk(Path::new("/sys/block"), disk.name);
                    self.disks.insert(disk.name.to_owned(), is_whole);
                    is_whole
                }
            };
            if is_whole {
                found.push(DiskSample {
                    name: disk.name.to_owned(),
                    operations: disk.operations,
                    bytes: disk.bytes,
                    time_s: (seconds(disk.time_ms.0), seconds(disk.time_ms.1)),
                    busy_s: seconds(disk.busy_ms),
                });
            }
        }
        found
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn odd(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{path} is not as expected"),
    )
}

/// Clock ticks of the kernel's accounts a second.
pub(super) fn ticks_per_s() -> f64 {
    // SAFETY: sysconf has no memory to touch; it fails with -1 only for names it does not know.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Whether a block device is a disk of its own: no partition, nothing in memory, and nothing that
/// is laid over other devices (a volume, an array), whose bytes would be counted twice.
fn is_whole_disk(sys_block: &Path, name: &str) -> bool {
    if ["loop", "ram", "zram"]
        .iter()
        .any(|memory| name.starts_with(memory))
    {
        return false;
    }
    // The kernel writes the slash of such names as an exclamation mark in sysfs.
    let dir = sys_block.join(name.replace('/', "!"));
    let is_layer = fs::read_dir(dir.join("slaves")).is_ok_and(|mut below| below.next().is_some());
    dir.is_dir() && !is_layer
}

/// A file of `/proc` that stays open.
#[derive(Debug)]
pub(super) struct Kept {
    path: String,
    pub(super) file: Option<File>,
}

impl Kept {
    pub(super) fn open(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            file: File::open(path).ok(),
        }
    }

    /// All of it, in `buffer`. Bytes that are no UTF-8 end the text.
    ///
    /// # Errors
    /// It cannot be opened or read; [`io::ErrorKind::NotFound`] for a process that is gone.
    pub(super) fn read<'a>(&mut self, buffer: &'a mut Vec<u8>) -> io::Result<&'a str> {
        /// No text that is read here is longer on any sane machine.
        const LENGTH_MAX: usize = 4 << 20;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        buffer.resize(buffer.capacity().max(8192), 0);
        let mut length = 0;
        loop {
            match file.read_at(&mut buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if length == buffer.len() {
                if length >= LENGTH_MAX {
                    break;
                }
                buffer.resize(length * 2, 0);
            }
        }
        let text = &buffer[..length];
        Ok(match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host() {
        let mut sampler = HostSampler::new();
        let first = sampler.sample().unwrap();
        assert!(first.processors > 0 && first.memory_bytes.0 > first.memory_bytes.1);
        assert!(first.networks.iter().any(|network| network.name == "lo"));
        let second = sampler.sample().unwrap();
        let sum = |s: &HostSample| s.cpu_s.user + s.cpu_s.system + s.cpu_s.idle;
        assert!(sum(&second) >= sum(&first) && sum(&first) > 0.0);
        let names: Vec<_> = first.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert!(
            names
                .iter()
                .all(|name| Path::new("/sys/block").join(name).exists()),
            "{names:?}"
        );
    }

    #[test]
    fn whole_disks() {
        let sys = tempfile::tempdir().unwrap();
        for dir in [
            "sda/slaves",
            "dm-0/slaves/sda",
            "loop0/slaves",
            "cciss!c0d0/slaves",
            "zram0",
        ] {
            fs::create_dir_all(sys.path().join(dir)).unwrap();
        }
        let whole = |name: &str| is_whole_disk(sys.path(), name);
        assert!(whole("sda") && whole("cciss/c0d0"));
        for other in ["sda1", "dm-0", "loop0", "zram0", "../../etc"] {
            assert!(!whole(other), "{other}");
        }
    }
}
