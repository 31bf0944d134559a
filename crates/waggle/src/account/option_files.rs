//! Option files as MySQL's clients read them: which, in which order, and what a line means.
//!
//! `waggle-server` reads those of servers, in their own root and without a word about what is wrong
//! with them; here the user's own are read, and what is not read is said. Invariant: a file that
//! everybody may write is passed over, and none can make reading hang or grow without bound.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most files, and how deep they may include each other (MySQL's own limit is 10).
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 10;
/// Read first, in this order.
const OF_HOST: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// Which files to read.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// This one and no other.
    pub(super) only: Option<PathBuf>,
    /// This one too.
    pub(super) extra: Option<PathBuf>,
    /// Where `.my.cnf` is.
    pub(super) home: Option<PathBuf>,
}

/// What was found, by name with `-` between words; later values took the place of earlier ones.
#[derive(Default)]
pub(super) struct Options(BTreeMap<String, String>);

// There are passwords in it.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

type IsOurs<'a> = &'a dyn Fn(&str) -> bool;

impl Options {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Takes the options of the groups that are ours; includes are not followed.
    pub(super) fn take_text(&mut self, text: &str, is_ours: IsOurs<'_>) {
        let mut of_us = false;
        for line in text.lines() {
            match Line::of(line) {
                Line::Group(group) => of_us = is_ours(group),
                Line::Option(name, value) if of_us => self.take(&name, value),
                _ => {}
            }
        }
    }

    fn take(&mut self, name: &str, value: Option<String>) {
        let name = name.replace('_', "-");
        let name = name.strip_prefix("loose-").unwrap_or(&name);
        // A name alone asks for the password on the terminal; there is a flag for that here.
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
    }
}

/// Reads the files. Those that the user named have to be there.
pub(super) fn read(files: &Files, is_ours: IsOurs<'_>) -> anyhow::Result<Options> {
    let mut reader = Reader {
        options: Options::default(),
        is_ours,
        count: 0,
    };
    if let Some(only) = &files.only {
        reader.named(only, "--defaults-file")?;
        return Ok(reader.options);
    }
    for path in OF_HOST {
        reader.usual(Path::new(path))?;
    }
    if let Some(extra) = &files.extra {
        reader.named(extra, "--defaults-extra-file")?;
    }
    if let Some(home) = &files.home {
        reader.usual(&home.join(".my.cnf"))?;
    }
    Ok(reader.options)
}

struct Reader<'a> {
    options: Options,
    is_ours: IsOurs<'a>,
    count: usize,
}

impl Reader<'_> {
    fn named(&mut self, path: &Path, flag: &str) -> anyhow::Result<()> {
        let text = text_of(path).with_context(|| format!("{flag} {}", path.display()))?;
        let Some(text) = text else {
            bail!("{flag} {}: everybody may write it", path.display());
        };
        self.take(path, &text, 0)
    }

    /// One that need not be there.
    fn usual(&mut self, path: &Path) -> anyhow::Result<()> {
        self.found(path, 0)
    }

    fn found(&mut self, path: &Path, depth: usize) -> anyhow::Result<()> {
        match text_of(path) {
            Ok(Some(text)) => self.take(path, &text, depth),
            Ok(None) => {
                let path = path.display();
                eprintln!("waggle: the option file {path} may be written by everybody: not read");
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                eprintln!(
                    "waggle: the option file {}: {error}: not read",
                    path.display()
                );
                Ok(())
            }
        }
    }

    fn take(&mut self, path: &Path, text: &str, depth: usize) -> anyhow::Result<()> {
        self.count += 1;
        if depth > DEPTH_MAX || self.count > FILES_MAX {
            bail!(
                "option files include each other without end, as {}",
                path.display()
            );
        }
        let mut of_us = false;
        for line in text.lines() {
            match Line::of(line) {
                Line::Group(group) => of_us = (self.is_ours)(group),
                Line::Option(name, value) if of_us => self.options.take(&name, value),
                Line::Include(file) => self.found(Path::new(file), depth + 1)?,
                Line::IncludeDirectory(directory) => {
                    for file in list(Path::new(directory)) {
                        self.found(&file, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The files of a directory that are read, in the order of their names.
fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.take(1000).map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "cnf"))
        .collect();
    files.sort_unstable();
    files
}

/// The text of a file; `None` if everybody may write it.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    let file = open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o002 != 0 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opens an ordinary file, and does not wait for what is none.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no ordinary file")),
    }
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Nothing,
    Group(&'a str),
    Option(String, Option<String>),
    Include(&'a str),
    IncludeDirectory(&'a str),
}

impl Line<'_> {
    fn of(line: &str) -> Line<'_> {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Line::Nothing;
        }
        if let Some(directory) = line.strip_prefix("!includedir") {
            return Line::IncludeDirectory(directory.trim());
        }
        if let Some(file) = line.strip_prefix("!include") {
            return Line::Include(file.trim());
        }
        if let Some(group) = line.strip_prefix('[') {
            return Line::Group(group.split(']').next().unwrap_or_default().trim());
        }
        let line = without_comment(line);
        match line.split_once('=') {
            Some((name, value)) => Line::Option(name.trim().to_owned(), Some(unquoted(value))),
            None => Line::Option(line.trim().to_owned(), None),
        }
    }
}

/// The line up to a `#` that does not stand between quotation marks.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) if !is_escaped => quote = Some(c),
            ('\'' | '"', Some(open)) if !is_escaped && open == c => quote = None,
            ('#', None) => return &line[..at],
            _ => {}
        }
        is_escaped = quote.is_some() && c == '\\' && !is_escaped;
    }
    line
}

/// A value without the quotation marks around it, and with what its escapes mean.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inner = ['"', '\''].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?;
        inner.strip_suffix(quote)
    });
    let mut text = String::new();
    let mut rest = inner.unwrap_or(value).chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('s') => text.push(' '),
            Some(c @ ('"' | '\'' | '\\')) => text.push(c),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_client(group: &str) -> bool {
        matches!(group, "client" | "client_b")
    }

    #[test]
    fn lines_mean_what_they_mean_to_mysql() {
        for (line, expected) in [
            ("password=a#b", "a"),
            ("password = \"a#b\" # a comment", "a#b"),
            ("password='a\\'b'", "a'b"),
            (r"password=a\sb\\c\x", r"a b\c\x"),
            ("  password\t=  a b  ", "a b"),
            ("loose_password=p", "p"),
            ("password=", ""),
            ("password=\"unfinished", "\"unfinished"),
        ] {
            let mut options = Options::default();
            options.take_text(&format!("[client]\n{line}\n"), &is_client);
            assert_eq!(options.get("password"), Some(expected), "{line}");
        }
        let mut options = Options::default();
        let text = "[client]\npassword=a\n#password=b\n[mysqld]\npassword=c\n[client_b]\nuser=u";
        options.take_text(text, &is_client);
        assert_eq!(
            (options.get("password"), options.get("user")),
            (Some("a"), Some("u"))
        );
        assert!(!format!("{options:?}").contains("\"a\""));
    }

    #[test]
    fn files_are_read_in_their_order_and_included_where_they_say() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir(path("more")).unwrap();
        fs::write(path("more/a.cnf"), "[client]\nuser=of-a\nhost=h").unwrap();
        fs::write(path("more/b.txt"), "[client]\nuser=of-b").unwrap();
        fs::write(path("extra"), "[client]\npassword=of-extra\nuser=x").unwrap();
        let include = format!(
            "[client]\npassword=of-home\n!includedir {}\n!include {}\n",
            path("more").display(),
            path("none").display()
        );
        fs::write(path(".my.cnf"), include).unwrap();
        let files = Files {
            only: None,
            extra: Some(path("extra")),
            home: Some(home.path().to_owned()),
        };
        let options = read(&files, &is_client).unwrap();
        assert_eq!(options.get("password"), Some("of-home"));
        assert_eq!(options.get("user"), Some("of-a"));
        let files = Files {
            only: Some(path("extra")),
            ..files
        };
        let options = read(&files, &is_client).unwrap();
        assert_eq!(options.get("password"), Some("of-extra"));
    }

    #[test]
    fn what_everybody_may_write_is_no_ordinary_file_or_has_no_end_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".my.cnf");
        let files = || Files {
            home: Some(home.path().to_owned()),
            ..Files::default()
        };
        let password = || {
            let options = read(&files(), &is_client);
            options.map(|options| options.get("password").map(str::to_owned))
        };
        fs::write(&path, "[client]\npassword=p").unwrap();
        assert_eq!(password().unwrap().as_deref(), Some("p"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(password().unwrap(), None);
        let named = Files {
            only: Some(path.clone()),
            ..Files::default()
        };
        let error = read(&named, &is_client).unwrap_err();
        assert!(error.to_string().contains("everybody may write"), "{error}");

        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(password().unwrap(), None);
        fs::remove_file(&path).unwrap();
        fs::write(&path, format!("!include {}\n", path.display())).unwrap();
        assert!(password().unwrap_err().to_string().contains("without end"));
        let missing = Files {
            only: Some(home.path().join("none")),
            ..Files::default()
        };
        assert!(read(&missing, &is_client).is_err());
    }
}
