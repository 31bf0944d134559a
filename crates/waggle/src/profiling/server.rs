//! Which process of this machine answers at a DSN?
//!
//! A Unix socket says itself who listens on it. Of a port, `/proc` says which socket listens on it
//! in a server's network, and which process holds that socket.
//! Invariant: an answer is the pid of a server, never a guess from its name.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use rustix::net::sockopt::socket_peercred;
use waggle_server::process::{self, find_servers};
use waggle_wire::{Dsn, Endpoint};

/// A socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// The pid of the server at this DSN.
///
/// # Errors
/// It runs on another machine, in a namespace that cannot be seen, or may not be looked at.
pub(crate) fn pid_of(dsn: &Dsn) -> anyhow::Result<u32> {
    let pid = match &dsn.endpoint {
        Endpoint::Socket(path) => of_socket(path)?,
        Endpoint::Tcp { host, port } => of_port(host, *port)?,
    };
    process::from_pid(pid).with_context(|| format!("what answers at {dsn} cannot be profiled"))?;
    Ok(pid)
}

fn of_socket(path: &Path) -> anyhow::Result<u32> {
    let stream = UnixStream::connect(path)
        .with_context(|| format!("cannot ask {} who listens there", path.display()))?;
    let credentials = socket_peercred(&stream)
        .with_context(|| format!("{} does not say who listens there", path.display()))?;
    u32::try_from(credentials.pid.as_raw_nonzero().get()).context("a pid")
}

fn of_port(host: &str, port: u16) -> anyhow::Result<u32> {
    if !is_this_machine(host) {
        bail!(
            "{host} is another machine, as far as can be told from its name: a profile needs the \
             server's process; run waggle there, or name its socket in the DSN"
        );
    }
    let servers = find_servers();
    let listens = |pid: &u32| {
        let sockets = listening(*pid, port);
        !sockets.is_empty() && holds(*pid, &sockets)
    };
    let pids = servers.iter().map(|server| server.pid);
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self");
    let (near, far): (Vec<u32>, Vec<u32>) = pids
        .filter(listens)
        .partition(|pid| own.is_some() && network(&pid.to_string()) == own);
    the_one(&near, &far, port)
}

/// The one server that listens in this process's network, or else in another, as a container's
/// port that is published.
fn the_one(near: &[u32], far: &[u32], port: u16) -> anyhow::Result<u32> {
    let candidates = if near.is_empty() { far } else { near };
    match candidates {
        [] => Err(anyhow!(
            "no server of this machine listens on port {port}; name its socket in the DSN, or run \
             as root to see all of them"
        )),
        [pid] => Ok(*pid),
        several => Err(anyhow!(
            "several servers of this machine listen on port {port}, processes {several:?}; name \
             the socket of one in the DSN, or its process with --pid"
        )),
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

/// Inodes of the sockets that listen on a port in the network of a process.
fn listening(pid: u32, port: u16) -> Vec<String> {
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
    let texts = tables
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts.flat_map(|text| sockets_of(&text, port)).collect()
}

/// `sl local_address rem_address st ... inode`, the address as `hex:hex port`.
fn sockets_of(table: &str, port: u16) -> Vec<String> {
    let lines = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = columns.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(own, 16) == Ok(port) && columns.get(3) == Some(&LISTENS);
        is_it.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
    });
    lines.collect()
}

fn holds(pid: u32, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let links = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    let mut names = links.map(|link| link.to_string_lossy().into_owned());
    names.any(|name| {
        let inode = name
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| sockets.iter().any(|own| own == inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_where_it_listens_only() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt \
                     uid timeout inode\n   \
                     0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 \
                     4711 1 0\n   \
                     1: 0100007F:0CEA 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 \
                     4712 1 0\nbroken\n";
        assert_eq!(sockets_of(table, 3306), ["4711"]);
        assert!(sockets_of(table, 3307).is_empty());
        assert!(!is_this_machine("db.example"));
    }

    #[test]
    fn of_several_that_listen_none_is_guessed() {
        assert_eq!(the_one(&[7], &[8, 9], 3306).unwrap(), 7);
        assert_eq!(the_one(&[], &[8], 3306).unwrap(), 8);
        for (near, far) in [(&[7, 6][..], &[][..]), (&[], &[8, 9])] {
            let error = the_one(near, far, 3306).unwrap_err().to_string();
            assert!(error.contains("--pid"), "{error}");
        }
        assert!(the_one(&[], &[], 3306).is_err());
    }
}
