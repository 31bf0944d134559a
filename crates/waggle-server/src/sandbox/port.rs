//! A free TCP port for a server, held until the server has it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::SandboxError;

/// A TCP port on 127.0.0.1 that nobody else gets until the server has it.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    /// Bound but not listening. As both sockets allow reuse, the server can bind beside it,
    /// while the kernel gives the number to nobody who asks for just any port.
    _held: OwnedFd,
}

impl Port {
    /// Takes the port that is wanted, or any free one.
    pub(super) fn reserve(wanted: Option<u16>) -> Result<Self, SandboxError> {
        let doing = match wanted {
            Some(port) => format!("cannot use port {port} on 127.0.0.1"),
            None => "cannot find a free port on 127.0.0.1".into(),
        };
        let (held, number) = bind(wanted.unwrap_or(0)).map_err(SandboxError::io(doing))?;
        Ok(Self {
            number,
            _held: held,
        })
    }
}

fn bind(port: u16) -> io::Result<(OwnedFd, u16)> {
    let check = |result: i32| match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: integers in; a new descriptor that nothing else owns, or -1, out.
    let socket = unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, kind, 0))?)
    };
    let size = |len: usize| len as libc::socklen_t;
    let on: libc::c_int = 1;
    // SAFETY: sockaddr_in is plain data; every pointer is to a value of this frame of the size
    // that is passed with it.
    unsafe {
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
        let fd = socket.as_raw_fd();
        check(libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR,
            (&raw const on).cast(),
            size(size_of_val(&on)),
        ))?;
        let mut len = size(size_of_val(&address));
        check(libc::bind(fd, (&raw const address).cast(), len))?;
        check(libc::getsockname(
            fd,
            (&raw mut address).cast(),
            &raw mut len,
        ))?;
        Ok((socket, u16::from_be(address.sin_port)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_server_can_listen_beside_the_reservation_and_a_used_port_is_refused() {
        let port = Port::reserve(None).unwrap();
        // The standard library sets SO_REUSEADDR as the servers do.
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number)).unwrap();
        let error = Port::reserve(Some(port.number)).unwrap_err().to_string();
        assert!(error.contains("Address already in use"), "{error}");
        drop(server);
    }
}
