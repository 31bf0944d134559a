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
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use serde::Serialize;
use waggle_foreign::{FileBytes, build_id, is_harmful, open_regular};

use crate::Flavour;

/// Most constants that are looked through, bytes; MySQL has 14 MB, its debug build 20.
const CONSTANTS_BYTES_MAX: u64 = 64 << 20;
/// So many of them are held at a time, bytes.
const CHUNK: usize = 1 << 20;
/// Longest constant that is looked for, and what is around its mark (SERVER_VERSION_LENGTH).
const CONSTANT_BYTES_MAX: usize = 60;
/// Most exported symbols that are looked through; MySQL has 81,000.
const SYMBOLS_MAX: usize = 1 << 20;

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
    let file = open_regular(path)?;
    // Servers are 25 to 80 MB, and anyone may call any file a server: of the whole, only headers
    // are kept, and constants are looked through piece by piece.
    let bytes = FileBytes::new(&file)?;
    let elf = bytes.elf().map_err(NotAServerBinary::NoElf)?;
    let build_id = build_id(&elf).map(hex);
    let constants = match elf.section_by_name(".rodata") {
        Some(section) => section.file_range().unwrap_or_default(),
        None => (0, file.metadata()?.len()),
    };
    let (flavour, version) = look_through(&file, constants)?.ok_or(NotAServerBinary::NoServer)?;
    Ok(ServerBinary {
        flavour,
        version: Some(version),
        build_id,
    })
}

/// The marks in a part of a file, given by its offset and length.
fn look_through(file: &File, part: (u64, u64)) -> io::Result<Option<(Flavour, String)>> {
    let (mut at, length) = part;
    let end = at.saturating_add(length.min(CONSTANTS_BYTES_MAX));
    let mut is_server = false;
    let (mut mariadb, mut mysql) = (None, None);
    let mut chunk = Vec::with_capacity(CHUNK);
    while at < end {
        // What stands at the end of a piece, and what it is looked for in, is in the next, too.
        let overlap = chunk.len().min(2 * CONSTANT_BYTES_MAX);
        chunk.drain(..chunk.len() - overlap);
        let room = (CHUNK - overlap).min(usize::try_from(end - at).unwrap_or(CHUNK));
        chunk.resize(overlap + room, 0);
        let count = file.read_at(&mut chunk[overlap..], at)?;
        chunk.truncate(overlap + count);
        if count == 0 {
            break;
        }
        at += count as u64;
        is_server |= memmem::find(&chunk, SERVER_MARK).is_some();
        match marks(&chunk) {
            Some((Flavour::MariaDb, version)) => mariadb = mariadb.or(Some(version)),
            Some((Flavour::MySql, version)) => mysql = mysql.or(Some(version)),
            None => {}
        }
    }
    let mariadb = mariadb.map(|version| (Flavour::MariaDb, version));
    let found = mariadb.or(mysql.map(|version| (Flavour::MySql, version)));
    Ok(found.filter(|_| is_server))
}

/// Where the exported variable `server_version`, an array of characters, lies in a server:
/// its address as linked, and the address the first segment is linked at.
pub(crate) fn version_variable(path: &Path) -> Option<(u64, u64)> {
    let bytes = FileBytes::new(&open_regular(path).ok()?).ok()?;
    let elf = bytes.elf().ok()?;
    let symbol = elf
        .dynamic_symbols()
        .take(SYMBOLS_MAX)
        .find(|symbol| symbol.name() == Ok("server_version"))?;
    let base = elf.segments().map(|segment| segment.address()).min()?;
    Some((symbol.address(), base & !0xfff))
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
    const LONGEST: usize = CONSTANT_BYTES_MAX;
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
    digits > 0
        && !patch.contains(' ')
        && matches!(patch.as_bytes().get(digits), None | Some(b'-'))
        && !text.chars().any(is_harmful)
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
