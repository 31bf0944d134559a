//! Which server is this program file: flavour, version, build.
//!
//! Asked by [`crate::process`] for running servers and by [`crate::install`] for installed ones.
//! The program is never run for an answer: it may belong to another root, and a server started
//! with a wrong argument does more than print. A build id is a fact; the version is read off the
//! string constants every release carries so far:
//!
//! * MariaDB: `10.11.19-MariaDB`, a constant of its own (the suffix of the distribution, such as
//!   `-0+deb12u1`, is a separate constant and is joined at start, so it is missing here);
//! * MySQL: `MySQL 9.7.4`, what InnoDB writes into the header of its redo log.
//!
//! Invariant: a file without the marks of a server is refused, whatever its name.

use std::fs::File;
use std::io;
use std::path::Path;

use memchr::memmem;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use serde::Serialize;

use crate::Flavour;

/// Every server, and no client, knows the name of this variable.
const SERVER_MARK: &[u8] = b"secure_file_priv";

/// What a server program file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerBinary {
    /// The family of the server.
    pub flavour: Flavour,
    /// The version in the file, such as `9.7.4` or `10.11.19-MariaDB`.
    pub version: Option<String>,
    /// GNU build id in lower-case hex.
    pub build_id: Option<String>,
}

/// Why a file is not known to be a server program.
#[derive(Debug, thiserror::Error)]
pub enum NotAServerBinary {
    /// It cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no ELF program that could be parsed; the text says why.
    #[error("not an ELF program: {0}")]
    NoElf(String),
    /// It is a program, but not a server.
    #[error("the program does not carry the marks of a MySQL or MariaDB server")]
    NoServer,
}

/// Reads flavour, version and build id out of a program file.
///
/// # Errors
/// [`NotAServerBinary`]: unreadable, not an ELF program, or not a server.
pub fn inspect(path: &Path) -> Result<ServerBinary, NotAServerBinary> {
    let file = File::open(path)?;
    // Servers are 25 to 80 MB; the cache reads the two sections that are looked at.
    let cache = ReadCache::new(file);
    let elf = parse(&cache)?;
    let build_id = elf.build_id().ok().flatten().map(hex);
    let constants = match elf.section_by_name(".rodata") {
        Some(section) => section.data().map_err(no_elf)?,
        None => cache
            .read_bytes_at(0, cache.len().map_err(|()| truncated())?)
            .map_err(|()| truncated())?,
    };
    if memmem::find(constants, SERVER_MARK).is_none() {
        return Err(NotAServerBinary::NoServer);
    }
    let (flavour, version) = marks(constants).ok_or(NotAServerBinary::NoServer)?;
    Ok(ServerBinary {
        flavour,
        version: Some(version),
        build_id,
    })
}

/// Where the exported variable `server_version`, an array of characters, lies in a server:
/// its address as linked, and the address the first segment is linked at.
pub(crate) fn version_variable(path: &Path) -> Option<(u64, u64)> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = parse(&cache).ok()?;
    let symbol = elf
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok("server_version"))?;
    let base = elf.segments().map(|segment| segment.address()).min()?;
    Some((symbol.address(), base & !0xfff))
}

fn parse(cache: &ReadCache<File>) -> Result<object::File<'_, &ReadCache<File>>, NotAServerBinary> {
    object::File::parse(cache).map_err(no_elf)
}

fn no_elf(error: object::Error) -> NotAServerBinary {
    NotAServerBinary::NoElf(error.to_string())
}

fn truncated() -> NotAServerBinary {
    NotAServerBinary::NoElf("it ends early".into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Flavour and version by the string constants. MariaDB first: it descends from MySQL and may
/// mention it.
fn marks(constants: &[u8]) -> Option<(Flavour, String)> {
    let mariadb = memmem::find_iter(constants, b"-MariaDB").find_map(|at| {
        let text = constant_around(constants, at)?;
        is_version(text).then(|| text.to_owned())
    });
    if let Some(version) = mariadb {
        return Some((Flavour::MariaDb, version));
    }
    memmem::find_iter(constants, b"\0MySQL ").find_map(|at| {
        let text = constant_around(constants, at + 1)?.strip_prefix("MySQL ")?;
        is_version(text).then(|| (Flavour::MySql, text.to_owned()))
    })
}

/// The NUL-terminated constant that covers the byte at `at`, if it is short plain text.
fn constant_around(constants: &[u8], at: usize) -> Option<&str> {
    const LONGEST: usize = 60; // SERVER_VERSION_LENGTH
    let low = at.saturating_sub(LONGEST);
    let start = memchr::memrchr(0, &constants[low..at]).map_or(low, |nul| low + nul + 1);
    let high = constants.len().min(at + LONGEST);
    let end = at + memchr::memchr(0, &constants[at..high])?;
    let text = std::str::from_utf8(&constants[start..end]).ok()?;
    text.bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        .then_some(text)
}

/// Whether a text begins with three numbers with dots between them, and nothing odd after them.
pub(crate) fn is_version(text: &str) -> bool {
    let mut parts = text.splitn(3, '.');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| {
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    if !number(parts.next()) || !number(parts.next()) {
        return false;
    }
    let patch = parts.next().unwrap_or_default();
    let digits = patch.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && !patch.contains(' ') && matches!(patch.as_bytes().get(digits), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for good in [
            "9.7.4",
            "9.7.4-2",
            "8.0.36-28",
            "10.11.19-MariaDB-0+deb12u1",
        ] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "", "9.7", "9.7.", "9.7.I", "9.7.4.0", "v9.7.4", "9.7.4 -x", "MariaDB",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn marks_in_constants() {
        // Put together at run time, so that this test program does not carry the marks itself.
        let constants = |list: &[&str]| format!("\0{}\0", list.join("\0")).into_bytes();
        let [mysql, mariadb] = ["MySQL", "MariaDB"];
        let (old, new) = (format!("{mysql} 9.7.4"), format!("10.11.19-{mariadb}"));
        let both = constants(&["x", &old, "%s-MariaDB", "-0+deb12u1", &new, "x86_64"]);
        assert_eq!(marks(&both), Some((Flavour::MariaDb, new)));
        let one = constants(&["MySQL %s", "flushed", &old, "log_before"]);
        assert_eq!(marks(&one), Some((Flavour::MySql, "9.7.4".into())));
        assert_eq!(marks(&constants(&[&format!("{old} or later")])), None);
        assert_eq!(marks(old.as_bytes()), None);
        assert_eq!(marks(b""), None);
    }

    #[test]
    fn a_program_that_is_no_server() {
        let own = std::env::current_exe().unwrap();
        // The name of the variable is in this test program, a version constant is not.
        assert!(matches!(inspect(&own), Err(NotAServerBinary::NoServer)));
        let text = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(matches!(inspect(text), Err(NotAServerBinary::NoElf(_))));
        assert!(matches!(
            inspect(Path::new("/no/such")),
            Err(NotAServerBinary::Io(_))
        ));
    }
}
