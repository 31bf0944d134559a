//! What any user of a host may put in waggle's way: programs that call themselves servers, run
//! directories, names that write to a terminal. Held against the binary as root runs it.
//!
//! A figure is held here: how much memory the process had at most, which the kernel tells when it
//! has ended. It is a fact of that run, as is what was written; how long anything took is not.

mod fake;
mod labels;
mod programs;
mod runs;
mod terminal;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most memory that waggle may have had on a hostile host, bytes.
const MEMORY_MAX: u64 = 256 << 20;
/// Longer than any of these takes; what has not ended by then hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// How a run of waggle ended.
struct Ended {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Ended {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Runs a program as its only child, and writes how much memory that had at most, KiB, to a file.
/// What the kernel tells of a process's peak begins with that of its parent, which for a test may
/// be anything.
const MEASURE: &str = r#"
    my $file = shift @ARGV;
    my $child = fork // die;
    if (!$child) { exec @ARGV or die }
    waitpid $child, 0;
    my $status = $?;
    my $usage = "\0" x 144;
    syscall(98, -1, $usage) == 0 or die;
    open my $out, '>', $file or die;
    print $out unpack('q', substr($usage, 32, 8)), "\n";
    close $out;
    kill $status & 127, $$ if $status & 127;
    exit $status >> 8;
"#;

/// Runs waggle to its end, and holds that it ended by itself, in bounded memory, and wrote nothing
/// raw.
fn waggle(args: &[&str]) -> Ended {
    let peak = tempfile::NamedTempFile::new().expect("a file");
    // Traces are kept where it runs.
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new("/usr/bin/perl")
        .args(["-e", MEASURE])
        .arg(peak.path())
        .arg(env!("CARGO_BIN_EXE_waggle"))
        .args(args)
        .current_dir(folder.path())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("waggle starts");
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = wait(&mut child, args);
    let ended = Ended {
        code: status.code(),
        stdout: stdout.join().expect("a reader"),
        stderr: stderr.join().expect("a reader"),
    };
    assert!(
        ended.code.is_some(),
        "{args:?} died: {status} {}",
        ended.stderr()
    );
    let panicked = ended.stderr().contains("panicked at");
    assert!(!panicked, "{args:?}: {}", ended.stderr());
    let peak = std::fs::read_to_string(peak.path()).expect("what it had");
    let memory: u64 = peak.trim().parse().expect("a number");
    println!("{} MiB: {args:?}", memory >> 10);
    assert!(
        memory << 10 <= MEMORY_MAX,
        "{args:?} had {} MiB: {}",
        memory >> 10,
        ended.stderr()
    );
    assert_plain(&ended.stdout);
    assert_plain(&ended.stderr);
    ended
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("a pipe");
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe");
        bytes
    })
}

/// Waits for the end.
fn wait(child: &mut Child, args: &[&str]) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if begun.elapsed() > DEADLINE {
            let group = -i32::try_from(child.id()).expect("a process id");
            // SAFETY: the group is that of our child, which nobody has waited for.
            unsafe { libc::kill(group, libc::SIGKILL) };
            panic!("{args:?} hangs");
        }
        // sleep: between two looks at a process that will end by itself
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Holds that a terminal takes this for nothing but text.
fn assert_plain(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let is_raw = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e01ff}')
    };
    if let Some(at) = text.find(is_raw) {
        let before: String = text[..at].chars().rev().take(80).collect();
        let before: String = before.chars().rev().collect();
        let after: String = text[at..].chars().take(40).collect();
        panic!("raw: {before:?} {after:?}");
    }
}
