//! Where does a server listen, and which addresses are this host's?
//!
//! The kernel's tables in `/proc/PID/net` are those of the process's network namespace; the
//! listening sockets in them that the process has open are the server's. Invariant: read only.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::frame::End;

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Its address; unspecified for all.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}

/// The state of a listening socket in the kernel's tables.
const LISTEN: &str = "0A";

/// Every TCP socket on which the process listens.
///
/// # Errors
/// Its open files may not be read.
pub fn listeners(pid: u32) -> io::Result<Vec<Listener>> {
    let mut inodes = HashSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let link = entry.and_then(|entry| fs::read_link(entry.path()));
        // A file may be closed while they are listed.
        let link = link.unwrap_or_default();
        let inode = link.to_str().and_then(|link| {
            let link = link.strip_prefix("socket:[")?;
            link.strip_suffix(']')?.parse::<u64>().ok()
        });
        inodes.extend(inode);
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        // There is no tcp6 without IPv6.
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        found.extend(listening(&table, &inodes));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn listening<'a>(table: &'a str, inodes: &'a HashSet<u64>) -> impl Iterator<Item = Listener> + 'a {
    table.lines().skip(1).filter_map(|line| {
        // number, local address, remote address, state, queues, timer, retransmits, uid, timeout,
        // inode
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        if state != LISTEN || !inodes.contains(&inode) {
            return None;
        }
        let (address, port) = local.split_once(':')?;
        Some(Listener {
            address: address_of(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
        })
    })
}

/// An address as the kernel prints it: words in the processor's order.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let mut bytes = [0; 16];
    for index in 0..4 {
        bytes[index * 4..][..4].copy_from_slice(&word(index * 8)?);
    }
    Some(IpAddr::from(bytes).to_canonical())
}

/// Addresses of the process's network namespace.
pub(super) fn own_addresses(pid: u32) -> HashSet<u128> {
    let v4 = fs::read_to_string(format!("/proc/{pid}/net/fib_trie")).unwrap_or_default();
    let v6 = fs::read_to_string(format!("/proc/{pid}/net/if_inet6")).unwrap_or_default();
    own_v4(&v4).chain(own_v6(&v6)).collect()
}

fn own_v4(table: &str) -> impl Iterator<Item = u128> {
    let mut address = None;
    table.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(leaf) = line.strip_prefix("|-- ") {
            address = leaf.parse::<Ipv4Addr>().ok();
            return None;
        }
        let is_own = line.contains("/32 host LOCAL");
        address
            .filter(|_| is_own)
            .map(|own| super::frame::mapped(own.octets()))
    })
}

fn own_v6(table: &str) -> impl Iterator<Item = u128> {
    table
        .lines()
        .filter_map(|line| u128::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok())
}

/// What tells a server's end of a connection.
#[derive(Debug)]
pub(super) struct Place {
    pid: u32,
    listeners: Vec<Listener>,
    own: HashSet<u128>,
    /// Addresses are read again at most once a look: a new interface may have come up.
    pub(super) may_read: bool,
}

impl Place {
    pub(super) fn new(pid: u32, listeners: Vec<Listener>) -> Place {
        Place {
            pid,
            listeners,
            own: own_addresses(pid),
            may_read: false,
        }
    }

    /// Whether a connection's end is the server's.
    pub(super) fn is_server(&mut self, end: End) -> bool {
        let mut listens_on_all = false;
        for listener in self.listeners.iter().filter(|l| l.port == end.port) {
            if listener.address.is_unspecified() {
                listens_on_all = true;
            } else if listener.address == super::frame::ip(end.address) {
                return true;
            }
        }
        listens_on_all && self.is_own(end.address)
    }

    fn is_own(&mut self, address: u128) -> bool {
        if self.own.contains(&address) || Ipv6Addr::from_bits(address).to_canonical().is_loopback()
        {
            return true;
        }
        if self.may_read {
            self.may_read = false;
            self.own = own_addresses(self.pid);
        }
        self.own.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn finds_the_sockets_of_a_process() {
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = TcpListener::bind("0.0.0.0:0").unwrap();
        let pid = std::process::id();
        let found = listeners(pid).unwrap();
        for socket in [&v4, &all] {
            let address = socket.local_addr().unwrap();
            let expected = Listener {
                address: address.ip(),
                port: address.port(),
            };
            assert!(found.contains(&expected), "{expected:?} in {found:?}");
        }
        drop(v4);
        assert!(own_addresses(pid).contains(&super::super::frame::mapped([127, 0, 0, 1])));
    }

    #[test]
    fn reads_the_kernels_tables() {
        let table = "  sl  local_address\n   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 \
                     00:00000000 00000000   104        0 8210 1 0 100 0 0 10 0\n";
        let found: Vec<_> = listening(table, &HashSet::from([8210])).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].address.to_string().as_str(), found[0].port),
            ("127.0.0.1", 3306)
        );
        assert_eq!(listening(table, &HashSet::from([1])).count(), 0);
        let mapped = address_of("0000000000000000FFFF00000100007F").unwrap();
        assert_eq!(mapped.to_string(), "127.0.0.1");
        assert_eq!(
            own_v6("00000000000000000000000000000001 01 80 10 80 lo\n").next(),
            Some(1)
        );
    }

    #[test]
    fn a_servers_end_is_one_of_its_own_addresses() {
        let end = |address: [u8; 4]| End {
            address: super::super::frame::mapped(address),
            port: 3306,
        };
        let listener = |address: &str| Listener {
            address: address.parse().unwrap(),
            port: 3306,
        };
        let mut all = Place::new(std::process::id(), vec![listener("::")]);
        assert!(all.is_server(end([127, 0, 0, 9])));
        assert!(!all.is_server(end([192, 0, 2, 1])), "another host's server");
        assert!(!all.is_server(End {
            port: 1,
            ..end([127, 0, 0, 1])
        }));
        let mut one = Place::new(std::process::id(), vec![listener("127.0.0.1")]);
        assert!(one.is_server(end([127, 0, 0, 1])));
        assert!(!one.is_server(end([127, 0, 0, 2])));
    }
}
