//! How do operators know a server: by its port, else its socket, else its process id.
//!
//! Neighbours: `sockets` says where a server listens, `option_files` what it was told, which says
//! which of its own ports is the one for clients and nothing else: anyone may start a program
//! with another server's port in its arguments.
//!
//! Invariants: a port or socket in a name is one that the process itself listens on; a server that
//! restarts with the same settings gets the same name; no two servers have one name at the same
//! time, and of two that want one, that of a system's user has it.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;
use waggle_foreign::Printable;

use super::option_files::Settings;
use super::sockets::Listens;
use super::whereabouts::Whereabouts;

/// The port of servers that were told none.
const PORT_DEFAULT: u16 = 3306;
/// Ports that servers open beside the one for clients: the X protocol, administration.
const PORTS_BESIDE: [u16; 2] = [33060, 33062];
/// In the name of the socket of the X protocol.
const SOCKET_BESIDE: &str = "mysqlx";

/// A server's name, and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instance {
    /// The port; behind an `@`, the container if it has a network of its own. Else the socket,
    /// else the process id.
    pub name: String,
    /// The port for clients.
    pub port: Option<u16>,
    /// The address that port is bound to.
    pub address: Option<IpAddr>,
    /// The Unix socket, as the server sees it.
    pub socket: Option<PathBuf>,
    /// It listens where clients come; what does not may do so later, and be known better then.
    #[serde(skip)]
    pub(super) is_settled: bool,
}

impl Instance {
    /// That of process `pid`.
    pub(super) fn of(pid: u32, whereabouts: &Whereabouts) -> Self {
        let listens = Listens::of(pid);
        let told = match listens == Listens::default() {
            true => Settings::default(),
            false => Settings::of(pid),
        };
        Self::from(pid, &told, &listens, whereabouts)
    }

    fn from(pid: u32, told: &Settings, listens: &Listens, whereabouts: &Whereabouts) -> Self {
        let port = port(told, listens);
        let listener = listens.tcp.iter().find(|(_, number)| Some(*number) == port);
        let told_socket = told.socket.as_ref();
        let is_told = |path: &&String| Some(*path) == told_socket;
        let is_for_clients = |path: &&String| !path.contains(SOCKET_BESIDE);
        let sockets = || listens.unix.iter().filter(is_for_clients);
        let socket = sockets().find(is_told).or_else(|| sockets().min());
        let name = match (port, socket) {
            (Some(port), _) => port.to_string(),
            (None, Some(socket)) => Printable::of(socket).into_string(),
            (None, None) => format!("pid {pid}"),
        };
        Self {
            name: match whereabouts.network_name() {
                Some(network) => format!("{name}@{network}"),
                None => name,
            },
            port,
            address: listener.map(|(address, _)| *address),
            is_settled: port.is_some() || (told.is_off_network && socket.is_some()),
            socket: socket.map(PathBuf::from),
        }
    }

    /// Says more when another server already has this name: the address, the socket, the process.
    pub(super) fn make_unique(&mut self, pid: u32, taken: &HashSet<String>) {
        let with_address = self
            .address
            .map(|address| format!("{address}:{}", self.name));
        let socket = self.socket.as_ref();
        let with_socket = socket.map(|path| format!("{} {}", self.name, Printable::of_path(path)));
        let with_pid = format!("{} pid {pid}", self.name);
        let names = [Some(self.name.clone()), with_address, with_socket];
        let free = names
            .into_iter()
            .flatten()
            .find(|name| !taken.contains(name.as_str()));
        self.name = free.unwrap_or(with_pid);
    }
}

/// The port for clients, of those it listens on.
fn port(told: &Settings, listens: &Listens) -> Option<u16> {
    let expected = told.port.unwrap_or(PORT_DEFAULT);
    let ports: Vec<u16> = listens.tcp.iter().map(|(_, port)| *port).collect();
    if ports.contains(&expected) {
        return Some(expected);
    }
    if ports.contains(&PORT_DEFAULT) {
        return Some(PORT_DEFAULT);
    }
    ports
        .into_iter()
        .filter(|port| !PORTS_BESIDE.contains(port))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn name(told: &Settings, ports: &[u16], sockets: &[&str]) -> String {
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let listens = Listens {
            tcp: ports.iter().map(|port| (any, *port)).collect(),
            unix: sockets.iter().map(|&path| path.to_owned()).collect(),
        };
        Instance::from(42, told, &listens, &Whereabouts::default()).name
    }

    #[test]
    fn port_else_socket_else_process() {
        let told = Settings {
            port: Some(3307),
            ..Settings::default()
        };
        let nothing = Settings::default();
        assert_eq!(name(&told, &[], &[]), "pid 42", "its arguments are no port");
        assert_eq!(name(&told, &[], &["/s"]), "/s");
        assert_eq!(name(&told, &[33060, 3307], &["/s"]), "3307");
        assert_eq!(
            name(&told, &[33060, 4000, 5000], &["/s"]),
            "4000",
            "it listens elsewhere"
        );
        assert_eq!(name(&nothing, &[], &[]), "pid 42");
        assert_eq!(name(&nothing, &[33060], &["/s/mysqlx.sock"]), "pid 42");
        assert_eq!(
            name(&nothing, &[], &["/s\x1b[2J\u{202e}"]),
            "/s\\x1b[2J<U+202E>"
        );
        assert_eq!(name(&nothing, &[33062, 3306, 2000], &[]), "3306");
        assert_eq!(name(&nothing, &[], &["/run/b", "/run/a"]), "/run/a");
        let off = Settings {
            is_off_network: true,
            ..told
        };
        assert_eq!(name(&off, &[], &["/run/a"]), "/run/a");
        assert_eq!(name(&off, &[], &[]), "pid 42");
    }

    #[test]
    fn names_are_unique() {
        let whereabouts = Whereabouts {
            foreign_network: true,
            container: Some("0123456789ab".into()),
            ..Whereabouts::default()
        };
        let listens = Listens {
            tcp: vec![(Ipv4Addr::new(127, 0, 0, 2).into(), 3306)],
            unix: vec!["/s".into()],
        };
        let told = Settings::default();
        let in_container = Instance::from(1, &told, &listens, &whereabouts);
        assert_eq!(in_container.name, "3306@0123456789ab");
        let plain = Instance::from(1, &told, &listens, &Whereabouts::default());
        let mut taken: HashSet<String> = HashSet::new();
        for expected in ["3306", "127.0.0.2:3306", "3306 /s", "3306 pid 1"] {
            let mut instance = plain.clone();
            instance.make_unique(1, &taken);
            assert_eq!(instance.name, expected);
            taken.insert(expected.to_owned());
        }
    }
}
