//! Where to listen, from what was given on the command line.
//!
//! Neighbour: [`http`](super::http) binds it. Invariant: without an address it is loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Port when none is given.
pub const DEFAULT_PORT: u16 = 9924;

/// Where to listen. What is left out is loopback: to be reachable from elsewhere takes an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)))
    }
}

/// Not an address to listen on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address to listen on; try 127.0.0.1:9924, :9924 or 9924")]
pub struct NotAnAddress(String);

impl FromStr for Listen {
    type Err = NotAnAddress;

    /// `address:port`, an address, `:port` or a port.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port_alone = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
        if let Ok(port) = port_alone {
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(SocketAddr::from((address, DEFAULT_PORT))));
        }
        let named = match text.rsplit_once(':') {
            Some(("localhost", port)) => port.parse::<u16>().ok(),
            _ => None,
        };
        if let Some(port) = named {
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        let address = text.parse().map_err(|_| NotAnAddress(text.to_owned()))?;
        Ok(Self(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_an_address_is_loopback() {
        let at = |text: &str| text.parse::<Listen>().map(|listen| listen.0.to_string());
        assert_eq!(Listen::default().0.to_string(), "127.0.0.1:9924");
        for (given, expected) in [
            ("9000", "127.0.0.1:9000"),
            (":9000", "127.0.0.1:9000"),
            ("localhost:1", "127.0.0.1:1"),
            ("0.0.0.0:9924", "0.0.0.0:9924"),
            ("10.0.0.7", "10.0.0.7:9924"),
            ("[::1]:5", "[::1]:5"),
            ("::1", "[::1]:9924"),
        ] {
            assert_eq!(at(given).as_deref(), Ok(expected), "{given}");
        }
        for wrong in ["", ":", "*:9924", "db1:9924", "1.2.3.4:", "70000", "a b"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
