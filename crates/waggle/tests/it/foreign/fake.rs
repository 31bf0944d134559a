//! A program of another user that calls itself `mysqld`, with headers that say whatever is wanted.
//!
//! It is `perl`, which can listen too, with other section headers: the kernel does not look at
//! these when it starts one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A user that is nobody on this host.
pub(super) const USER: u32 = 54_321;

/// A section header.
#[derive(Clone, Copy, Default)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) kind: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) link: u32,
    pub(super) entry: u64,
}

/// The program being made.
pub(super) struct Fake {
    pub(super) dir: tempfile::TempDir,
    pub(super) path: PathBuf,
    file: File,
    /// Where the next part goes.
    end: u64,
    sections: Vec<Section>,
}

impl Fake {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let path = dir.path().join("mysqld");
        fs::copy("/usr/bin/perl", &path).expect("a copy");
        let file = File::options().write(true).open(&path).expect("the copy");
        let end = file
            .metadata()
            .expect("its size")
            .len()
            .next_multiple_of(4096);
        Self {
            dir,
            path,
            file,
            end,
            sections: vec![Section::default()],
        }
    }

    /// Writes bytes behind all others; where they are.
    pub(super) fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.end;
        self.file.write_all_at(bytes, at).expect("room on the disk");
        self.end = (at + bytes.len() as u64).next_multiple_of(8);
        at
    }

    pub(super) fn section(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The marks of a server, so that it is taken for one.
    pub(super) fn with_marks(mut self) -> Self {
        // Put together here: with them whole in it, this program would be taken for a server, too.
        let marks = "|secure_file_priv|MySQL 9.7.4|".replace('|', "\0");
        let offset = self.put(marks.as_bytes());
        self.section(Section {
            name: ".rodata",
            kind: 1,
            offset,
            size: marks.len() as u64,
            ..Section::default()
        });
        self
    }

    /// Writes the headers; the file has `length` bytes, if it had fewer.
    pub(super) fn finish(mut self, length: u64) -> Made {
        let mut names = vec![0_u8];
        let starts: Vec<u32> = self
            .sections
            .iter()
            .map(|section| {
                let start = u32::try_from(names.len()).expect("few names");
                names.extend(section.name.as_bytes());
                names.push(0);
                start
            })
            .collect();
        let offset = self.put(&names);
        let mut headers = Vec::new();
        for (section, start) in self.sections.iter().zip(starts) {
            headers.extend(header(section, start));
        }
        let of_names = Section {
            kind: 3,
            offset,
            size: names.len() as u64,
            ..Section::default()
        };
        headers.extend(header(&of_names, 0));
        let at = self.put(&headers);
        let count = u16::try_from(self.sections.len() + 1).expect("few sections");
        self.file
            .write_all_at(&at.to_le_bytes(), 0x28)
            .expect("the header");
        self.file
            .write_all_at(&64_u16.to_le_bytes(), 0x3a)
            .expect("the header");
        self.file
            .write_all_at(&count.to_le_bytes(), 0x3c)
            .expect("the header");
        self.file
            .write_all_at(&(count - 1).to_le_bytes(), 0x3e)
            .expect("the header");
        if self.file.metadata().expect("its size").len() < length {
            self.file.set_len(length).expect("a file with a hole");
        }
        Made {
            path: self.path,
            _dir: self.dir,
        }
    }
}

fn header(section: &Section, name: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(name.to_le_bytes());
    bytes.extend(section.kind.to_le_bytes());
    for word in [2, 0x0010_0000, section.offset, section.size] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(section.link.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(8_u64.to_le_bytes());
    bytes.extend(section.entry.to_le_bytes());
    bytes
}

/// A program that is ready to run.
pub(super) struct Made {
    pub(super) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Made {
    /// Runs it as another user; it ends with the test.
    pub(super) fn run(&self, args: &[&str]) -> Running {
        Running(run(&self.path, IDLE, args).spawn().expect("it starts"))
    }

    /// Runs it as another user, listening at this address of the host.
    pub(super) fn run_listening(&self, address: &str, port: u16) -> Running {
        let script = format!(
            "use Socket; $| = 1; socket(S, PF_INET, SOCK_STREAM, 0) or die; \
             setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); \
             bind(S, sockaddr_in({port}, inet_aton('{address}'))) or die; \
             listen(S, 5) or die; print \"ready\\n\"; {IDLE}"
        );
        let mut command = run(&self.path, &script, &[]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its first line");
        assert_eq!(line, "ready\n");
        Running(child)
    }
}

/// A process of another user.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does nothing for a while.
const IDLE: &str = "sleep 600";

/// Runs a program under the name of a server, with these arguments of which it makes nothing.
fn run(program: &Path, script: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .arg0("mysqld")
        .args(["-e", script, "--"])
        .args(args)
        .uid(USER)
        .gid(USER)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
