//! The live screen on a real (pseudo) terminal, with real keys.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use waggle_server::Flavour;

use super::stage::{PATIENCE, can_watch, connect, run, server, turn};

const ENTERS: &str = "\x1b[?1049h";
const LEAVES: &str = "\x1b[?1049l";

const LINES: NonZero<u16> = NonZero::new(30).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(100).unwrap();

/// What a program wrote: all of it, and what a terminal would show now.
struct Written {
    bytes: Vec<u8>,
    terminal: vt100::Parser,
}

/// A program with a terminal, and what it wrote there.
struct OnTerminal {
    child: Child,
    terminal: File,
    written: Arc<Mutex<Written>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    fn start(arguments: &[&str]) -> Self {
        let size = libc::winsize {
            ws_row: LINES.get(),
            ws_col: COLUMNS.get(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: all pointers are valid or null, as openpty allows.
        let made = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                &raw const size as *mut _,
            )
        };
        assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
        // SAFETY: fresh descriptors that nobody else owns.
        let (master, slave) =
            unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_waggle"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("WAGGLE_DSN")
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        drop(slave);
        let terminal = File::from(master);
        let written = Arc::new(Mutex::new(Written {
            bytes: Vec::new(),
            terminal: vt100::Parser::new(LINES, COLUMNS, 0),
        }));
        let (mut from, sink) = (terminal.try_clone().unwrap(), written.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the other side is an error here, not an end of file.
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let mut written = sink.lock().unwrap();
                written.bytes.extend_from_slice(&buffer[..length]);
                written.terminal.process(&buffer[..length]);
            }
        });
        Self {
            child,
            terminal,
            written,
            reader: Some(reader),
        }
    }

    /// Waits until the terminal shows `text`.
    fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.written.lock().unwrap().terminal.screen().contents();
            if shown.contains(text) {
                return;
            }
            let in_time = Instant::now() < deadline;
            assert!(
                in_time,
                "waited in vain for {text:?}; the terminal shows\n{shown}"
            );
            // sleep: between two looks at a condition that has a deadline
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end; what was written in all.
    fn end(mut self) -> (bool, String) {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let bytes = self.written.lock().unwrap().bytes.clone();
        (
            status.success(),
            String::from_utf8_lossy(&bytes).into_owned(),
        )
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_screen_shows_a_servers_statements_and_gives_the_terminal_back() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let _turn = turn();
    let server = server(Flavour::MariaDb);
    let pid = server.pid().to_string();
    let mut screen = OnTerminal::start(&["watch", "--pid", &pid, "--interval", "1"]);
    screen.wait_for("average active sessions");
    let mut connection = connect(&server);
    run(&mut connection, &["SELECT 'a secret', 41"]);
    screen.wait_for("select ?, ?");
    screen.press("h");
    screen.wait_for("load by database");
    screen.press("l");
    screen.wait_for("Nobody waits for a lock.");
    screen.press("?");
    screen.wait_for("Its parts add up");
    screen.press("q");
    let (ended_well, text) = screen.end();
    assert!(ended_well, "{text}");
    let (_, shown) = text.split_once(ENTERS).expect("a screen of its own");
    let (shown, report) = shown
        .rsplit_once(LEAVES)
        .expect("the terminal is given back");
    assert!(!text.contains("a secret"), "{shown}");
    assert!(report.contains("select ?, ?"), "the final report: {report}");
}
