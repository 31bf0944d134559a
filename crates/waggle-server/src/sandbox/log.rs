//! What a server's error log says.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// At most this much of the end of a log is read for a message.
const TAIL_BYTES: u64 = 256 * 1024;

/// The server's own words about its failure: its error lines from `from` on, or the last lines
/// if there are none.
pub(super) fn failure(path: &Path, from: u64) -> String {
    let text = tail(path, from).unwrap_or_default();
    let mut errors: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once("[ERROR]") else {
            continue;
        };
        let rest = without_tags(rest);
        // It follows every error and says nothing of its own.
        if !rest.starts_with("Aborting") && !errors.contains(&rest) {
            errors.push(rest);
        }
    }
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let lines = &lines[lines.len().saturating_sub(3)..];
    match errors.as_slice() {
        [] if lines.is_empty() => return "it wrote nothing to its log".into(),
        [] => return format!("its log ends with\n  {}", lines.join("\n  ")),
        _ => {}
    }
    let more = errors.len().saturating_sub(6);
    errors.truncate(6);
    let mut message = errors.join("\n  ");
    if more > 0 {
        message.push_str(&format!("\n  and {more} more"));
    }
    message
}

/// Settings that the server changed rather than refuse, in its own words.
pub(super) fn adjusted_settings(path: &Path, from: u64) -> Vec<String> {
    let text = tail(path, from).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once("[Warning]"))
        .map(|(_, rest)| without_tags(rest))
        .filter(|rest| rest.contains("option '") || rest.contains("adjusted"))
        .map(str::to_owned)
        .collect()
}

/// A message without the `[MY-000067] [Server]` that MySQL puts before it.
fn without_tags(mut text: &str) -> &str {
    loop {
        text = text.trim();
        match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((tag, rest)) if !tag.contains(' ') => text = rest,
            _ => return text,
        }
    }
}

fn tail(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(len.saturating_sub(TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        failure(file.path(), 0)
    }

    #[test]
    fn the_servers_own_words() {
        let mysql = "2026-01-01T00:00:00.000000Z 0 [System] [MY-015015] [Server] start\n\
            2026-01-01T00:00:00.000001Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.\n\
            2026-01-01T00:00:00.000002Z 0 [ERROR] [MY-010119] [Server] Aborting\n";
        assert_eq!(check(mysql), "unknown variable 'x=1'.");
        let mariadb = "2026-01-01  0:00:00 0 [Note] Starting\n\
            2026-01-01  0:00:00 0 [ERROR] mariadbd: unknown variable 'x=1'\n\
            2026-01-01  0:00:00 0 [ERROR] Aborting\n";
        assert_eq!(check(mariadb), "mariadbd: unknown variable 'x=1'");
        assert_eq!(
            check("ld.so: no lib\n\n"),
            "its log ends with\n  ld.so: no lib"
        );
        assert_eq!(check(""), "it wrote nothing to its log");
    }

    #[test]
    fn a_flood_is_cut() {
        let flood: String = (0..9).map(|i| format!("0 [ERROR] e{i}\n")).collect();
        assert!(check(&flood).ends_with("e5\n  and 3 more"));
    }
}
