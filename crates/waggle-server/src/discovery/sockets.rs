//! Where does a process listen, in its own network?
//!
//! Neighbours: `instance` makes a name of it. Invariant: only sockets the process itself has open
//! count, whatever else listens in the same network; any text of the kernel is survived.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::process::proc_path;

/// Descriptors that are looked at: those a server listens on are among its first.
const DESCRIPTORS_MAX: usize = 4096;
/// Longest line of the kernel's lists that is looked at, bytes: a path has 108.
const LINE_BYTES_MAX: u64 = 1024;
/// Most sockets that one process is known to listen on.
const LISTENS_MAX: usize = 64;

/// Where a process listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listens {
    pub(super) tcp: Vec<(IpAddr, u16)>,
    /// Unix sockets with a path, as the process sees it.
    pub(super) unix: Vec<String>,
}

impl Listens {
    /// Of process `pid`; nothing if it may not be looked at.
    pub(super) fn of(pid: u32) -> Self {
        let inodes = socket_inodes(pid);
        if inodes.is_empty() {
            return Self::default();
        }
        // The kernel's lists are long on a busy host, and are never held whole. Those of TCP begin
        // with the sockets that are listened on.
        let mut tcp = Vec::new();
        for leaf in ["net/tcp", "net/tcp6"] {
            let listening = lines(pid, leaf)
                .skip(1)
                .take_while(|line| is_listening(line));
            tcp.extend(listening.filter_map(|line| listening_tcp(&line, &inodes)));
        }
        tcp.truncate(LISTENS_MAX);
        let unix = lines(pid, "net/unix").filter_map(|line| listening_unix(&line, &inodes));
        Self {
            tcp,
            unix: unix.take(LISTENS_MAX).collect(),
        }
    }
}

fn socket_inodes(pid: u32) -> HashSet<u64> {
    let Ok(entries) = fs::read_dir(proc_path(pid, "fd")) else {
        return HashSet::new();
    };
    let links = entries
        .take(DESCRIPTORS_MAX)
        .filter_map(|e| fs::read_link(e.ok()?.path()).ok());
    links
        .filter_map(|link| {
            let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse().ok()
        })
        .collect()
}

/// The lines of one of the kernel's lists for the network of process `pid`.
fn lines(pid: u32, leaf: &str) -> impl Iterator<Item = String> {
    let mut file = File::open(proc_path(pid, leaf)).ok().map(BufReader::new);
    std::iter::from_fn(move || {
        let file = file.as_mut()?;
        let mut line = Vec::new();
        let read = file
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        (read.ok()? > 0).then(|| String::from_utf8_lossy(&line).into_owned())
    })
}

fn is_listening(line: &str) -> bool {
    const LISTEN: &str = "0A";
    line.split_ascii_whitespace().nth(3) == Some(LISTEN)
}

pub(super) fn listening_tcp(line: &str, inodes: &HashSet<u64>) -> Option<(IpAddr, u16)> {
    // number: local remote state queues timer retransmits uid timeout inode ...
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let (local, inode) = (words.get(1)?, words.get(9)?);
    if !is_listening(line) || !inodes.contains(&inode.parse().ok()?) {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    Some((address_of(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// An address as the kernel prints it: words of 32 bits in this machine's byte order.
fn address_of(hex: &str) -> Option<IpAddr> {
    if !hex.is_ascii() {
        return None;
    }
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

pub(super) fn listening_unix(line: &str, inodes: &HashSet<u64>) -> Option<String> {
    /// __SO_ACCEPTCON
    const ACCEPTS: u32 = 0x10000;
    // address: references protocol flags type state inode path
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let inode = words.nth(2)?.parse().ok()?;
    let path = words.next()?;
    let listens = flags & ACCEPTS != 0 && inodes.contains(&inode);
    (listens && path.starts_with('/')).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn own_listeners_and_nobody_elses() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let six = TcpListener::bind("[::1]:0");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let _unix = UnixListener::bind(&path).unwrap();
        let listens = Listens::of(std::process::id());
        let address = tcp.local_addr().unwrap();
        assert!(listens.tcp.contains(&(address.ip(), address.port())));
        if let Ok(six) = six {
            let address = six.local_addr().unwrap();
            assert!(listens.tcp.contains(&(address.ip(), address.port())));
        }
        assert!(
            listens
                .unix
                .iter()
                .any(|known| known == path.to_str().unwrap())
        );
        let others = lines(std::process::id(), "net/tcp");
        assert!(
            others
                .filter_map(|line| listening_tcp(&line, &HashSet::new()))
                .next()
                .is_none()
        );
    }

    #[test]
    fn hostile_texts_are_survived() {
        let inodes = HashSet::from([7]);
        let good = "0: 0100007F:0CEA 00000000:0000 0A 0:0 0:0 0 0 0 7 1";
        let expected = (Ipv4Addr::from(0x0100_007f_u32.to_ne_bytes()).into(), 3306);
        assert_eq!(listening_tcp(good, &inodes), Some(expected));
        for at in 0..good.len() {
            for odd in ["", ":", "\u{fffd}", "F", " "] {
                let bad = format!("{}{odd}{}", &good[..at], &good[at + 1..]);
                let _ = (listening_tcp(&bad, &inodes), listening_unix(&bad, &inodes));
            }
        }
        assert_eq!(address_of("0\u{e9}00007F"), None);
    }
}
