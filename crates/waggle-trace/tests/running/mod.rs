//! A program of `tests/targets`: built for one test, told to begin, and ended with the value.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The program, as a process. It waits for a line before it begins, and for the end of its input
/// before it ends.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Builds and starts `name`.
    pub(crate) fn start(name: &str, flags: &[&str], arguments: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets");
        let built = Command::new("cc")
            .args(["-O2", "-pthread"])
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(sources.join(format!("{name}.c")))
            .status()
            .expect("cc");
        assert!(built.success(), "cc builds {name}");
        let mut child = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self {
            child,
            output,
            _folder: folder,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Tells it to begin.
    pub(crate) fn go(&mut self) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(b"go\n").expect("written");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
