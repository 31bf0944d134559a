//! Login paths: what `mysql_config_editor` keeps in `~/.mylogin.cnf`.
//!
//! The file is an option file under AES, with the key beside it: hidden from a glance, not from a
//! reader, which is why only its owner may be one. Four bytes of nothing, twenty of which the key
//! is made, then lines, each with its length before it. Invariant: whatever the bytes are, reading
//! ends.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aes::Aes128;
use aes::cipher::{BlockDecrypt, KeyInit};
use anyhow::{Context, bail};

const UNUSED_BYTES: usize = 4;
const KEY_BYTES: usize = 20;
const BLOCK_BYTES: usize = 16;
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// All that others may do with it, and that it is no program.
const OTHERS: u32 = 0o177;

/// The text of the user's file; `None` if there is none.
///
/// # Errors
/// It cannot be read, or others may read it.
pub(super) fn text() -> anyhow::Result<Option<String>> {
    let path = match std::env::var_os("MYSQL_TEST_LOGIN_FILE") {
        Some(path) => PathBuf::from(path),
        None => match std::env::var_os("HOME") {
            Some(home) => Path::new(&home).join(".mylogin.cnf"),
            None => return Ok(None),
        },
    };
    read(&path).with_context(|| format!("the login path file {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    let file = match super::option_files::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        bail!("others than its owner may read or write it: chmod 600");
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    decrypted(&bytes).map(Some)
}

fn decrypted(bytes: &[u8]) -> anyhow::Result<String> {
    let Some((head, mut rest)) = bytes.split_at_checked(UNUSED_BYTES + KEY_BYTES) else {
        bail!("it is shorter than its key");
    };
    let mut key = [0; BLOCK_BYTES];
    for (at, byte) in head[UNUSED_BYTES..].iter().enumerate() {
        key[at % BLOCK_BYTES] ^= byte;
    }
    let cipher = Aes128::new(&key.into());
    let mut text = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((line, after)) = after.split_at_checked(length) else {
            bail!("it ends within a line");
        };
        if !length.is_multiple_of(BLOCK_BYTES) {
            bail!("a line of it is no whole number of blocks");
        }
        rest = after;
        let from = text.len();
        for block in line.chunks_exact(BLOCK_BYTES) {
            let mut block = aes::Block::clone_from_slice(block);
            cipher.decrypt_block(&mut block);
            text.extend_from_slice(&block);
        }
        // The last block is filled up with bytes that say how many they are.
        let filling = text.last().copied().map_or(0, usize::from);
        if text.len() > from {
            if !(1..=BLOCK_BYTES).contains(&filling) {
                bail!("a line of it does not decrypt");
            }
            text.truncate(text.len() - filling);
        }
    }
    String::from_utf8(text).context("it does not decrypt to text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::BlockEncrypt;

    /// As `mysql_config_editor` writes it.
    fn encrypted(lines: &[&str]) -> Vec<u8> {
        let head: Vec<u8> = (0..24).map(|at| if at < 4 { 0 } else { at * 7 }).collect();
        let mut key = [0; BLOCK_BYTES];
        for (at, byte) in head[4..].iter().enumerate() {
            key[at % BLOCK_BYTES] ^= byte;
        }
        let cipher = Aes128::new(&key.into());
        let mut bytes = head;
        for line in lines {
            let filling = BLOCK_BYTES - line.len() % BLOCK_BYTES;
            let mut plain = line.as_bytes().to_vec();
            plain.resize(line.len() + filling, filling as u8);
            bytes.extend_from_slice(&(plain.len() as u32).to_le_bytes());
            for block in plain.chunks_exact(BLOCK_BYTES) {
                let mut block = aes::Block::clone_from_slice(block);
                cipher.encrypt_block(&mut block);
                bytes.extend_from_slice(&block);
            }
        }
        bytes
    }

    #[test]
    fn lines_come_back() {
        let lines = [
            "[client]\n",
            "user = \"u\"\n",
            "password = \"sixteen bytes..\"\n",
        ];
        assert_eq!(decrypted(&encrypted(&lines)).unwrap(), lines.concat());
        assert_eq!(decrypted(&encrypted(&[])).unwrap(), "");
    }

    #[test]
    fn damaged_files_are_errors_or_text() {
        let whole = encrypted(&["[client]\n", "password = \"p\"\n"]);
        for length in 0..whole.len() {
            let _ = decrypted(&whole[..length]);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            let _ = decrypted(&damaged);
        }
        assert!(decrypted(&whole[..10]).is_err());
        assert!(decrypted(&whole[..whole.len() - 1]).is_err());
    }

    #[test]
    fn a_file_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".mylogin.cnf");
        assert_eq!(read(&path).unwrap(), None);
        std::fs::write(&path, encrypted(&["[client]\n"])).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(read(&path).unwrap_err().to_string().contains("chmod 600"));
        mode(0o600);
        assert_eq!(read(&path).unwrap().as_deref(), Some("[client]\n"));
    }
}
