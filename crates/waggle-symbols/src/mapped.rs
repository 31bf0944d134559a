//! Which files' code stands where in a process?
//!
//! Neighbours: `unwind` reads the frames of such a file, `elf` its symbols. Files are opened
//! through the mapping itself, so that a server in a chroot or container, or one whose binary was
//! replaced since it started, is read as it runs.
//!
//! Invariant: a mapping's file is the one that is mapped, not one that has its name by now.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use waggle_foreign::{open_in_root, open_regular, read_maps};

/// Most pieces of code that are kept; a server has 10 to 60.
const MAPPED_MAX: usize = 1024;

/// A mapped piece of a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// First address in the process.
    pub start: u64,
    /// Past the last address.
    pub end: u64,
    /// Where `start` is in the file, bytes.
    pub file_offset: u64,
    /// Device (as the kernel prints it) and inode: the same for the same file.
    pub file: (String, u64),
    /// The path in the process's own root.
    pub path: PathBuf,
}

/// The code of process `pid` that is mapped from files, by address.
///
/// # Errors
/// The process has ended, or may not be looked at.
pub fn code_of(pid: u32) -> io::Result<Vec<Mapped>> {
    let maps = read_maps(pid)?;
    Ok(maps.lines().filter_map(parse).take(MAPPED_MAX).collect())
}

/// A line of `/proc/PID/maps`; `None` if it is not code of a file.
fn parse(line: &str) -> Option<Mapped> {
    let (range, rest) = line.split_once(' ')?;
    let (rights, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let path = path.trim_start();
    if rights.as_bytes().get(2) != Some(&b'x') || !path.starts_with('/') || start >= end {
        return None;
    }
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(Mapped {
        start,
        end,
        file_offset: hex(offset)?,
        file: (device.to_owned(), inode.parse().ok()?),
        path: PathBuf::from(path),
    })
}

impl Mapped {
    /// Opens the file that is mapped in process `pid`.
    ///
    /// # Errors
    /// It cannot be opened: the process has ended, or may not be looked at.
    pub fn open(&self, pid: u32) -> io::Result<File> {
        let by_range = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        open_regular(Path::new(&by_range)).or_else(|_| open_in_root(pid, &self.path, 0))
    }

    /// The file's name without its directories.
    pub fn name(&self) -> &str {
        let name = Path::file_name(&self.path);
        name.and_then(|n| n.to_str()).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_kept_and_nothing_else() {
        let text = "\
55d0-55e0 r--p 00000000 fe:00 77 /usr/sbin/server\n\
55e0-5600 r-xp 00010000 fe:00 77 /usr/sbin/server name (deleted)\n\
5600-5700 rw-p 00000000 00:00 0 [heap]\n\
7f00-7f10 r-xp 00000000 00:00 0 [vdso]\n\
7f10-7f20 r-xp 00000000 00:00 0 \n\
bad line\n";
        let found: Vec<Mapped> = text.lines().filter_map(parse).collect();
        let expected = Mapped {
            start: 0x55e0,
            end: 0x5600,
            file_offset: 0x10000,
            file: ("fe:00".into(), 77),
            path: "/usr/sbin/server name".into(),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn any_text_is_parsed_without_a_panic() {
        let good = "55e0-5600 r-xp 00010000 fe:00 77 /usr/sbin/server";
        for cut in 0..good.len() {
            let _ = parse(&good[..cut]);
            let _ = parse(&good[cut..]);
            let _ = parse(&good.replacen(&good[cut..=cut], "\u{e9}", 1));
        }
    }

    #[test]
    fn this_process_runs_its_own_binary() {
        let pid = std::process::id();
        let code = code_of(pid).unwrap();
        let exe = std::env::current_exe().unwrap();
        let own = code.iter().find(|m| m.path == exe).unwrap();
        assert!(own.open(pid).unwrap().metadata().unwrap().len() > 0);
    }
}
