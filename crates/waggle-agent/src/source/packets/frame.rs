//! From an IP packet to a TCP segment.
//!
//! The ring gives packets from their IP header on (the kernel has taken off what lies below, VLAN
//! tags included), the flows take segments. Invariant: total over all bytes; lengths are those of
//! the IP header, so that padding is no payload, and of what was captured, if that is less.

/// One end of a connection; IPv4 addresses are mapped into IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) address: u128,
    pub(super) port: u16,
}

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// One TCP segment; several on the wire may have been merged into it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) flags: u8,
    pub(super) payload: &'a [u8],
    /// When it was seen, ns of the monotonic clock.
    pub(super) time_ns: u64,
}

const TCP: u8 = 6;
const IPV6_HEADER_BYTES: usize = 40;
/// A hop-by-hop header with nothing but the length of a packet beyond 64 KiB.
const JUMBO_HEADER_BYTES: usize = 8;

/// The prefix of IPv4 addresses in IPv6.
const MAPPED: u128 = 0xffff << 32;

pub(super) fn mapped(address: [u8; 4]) -> u128 {
    MAPPED | u128::from(u32::from_be_bytes(address))
}

pub(super) fn ip(address: u128) -> std::net::IpAddr {
    std::net::Ipv6Addr::from_bits(address).to_canonical()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a packet; `None` if it is no TCP segment, or a fragment of one.
pub(super) fn parse(packet: &[u8], time_ns: u64) -> Option<Segment<'_>> {
    let (from, to, tcp) = match packet.first()? >> 4 {
        4 => ipv4(packet)?,
        6 => ipv6(packet)?,
        _ => return None,
    };
    let header_bytes = usize::from(tcp.get(12)? >> 4) * 4;
    if header_bytes < 20 {
        return None;
    }
    Some(Segment {
        from: End {
            address: from,
            port: u16_at(tcp, 0)?,
        },
        to: End {
            address: to,
            port: u16_at(tcp, 2)?,
        },
        sequence: u32_at(tcp, 4)?,
        acknowledged: u32_at(tcp, 8)?,
        flags: *tcp.get(13)?,
        payload: tcp.get(header_bytes..)?,
        time_ns,
    })
}

fn ipv4(packet: &[u8]) -> Option<(u128, u128, &[u8])> {
    let header_bytes = usize::from(packet[0] & 15) * 4;
    // Without a length it is larger than that field can say.
    let total = match usize::from(u16_at(packet, 2)?) {
        0 => packet.len(),
        length => length.min(packet.len()),
    };
    let is_fragment = u16_at(packet, 6)? & 0x3fff != 0;
    if header_bytes < 20 || is_fragment || *packet.get(9)? != TCP {
        return None;
    }
    let from = mapped(*packet.get(12..)?.first_chunk()?);
    let to = mapped(*packet.get(16..)?.first_chunk()?);
    Some((from, to, packet.get(header_bytes..total)?))
}

fn ipv6(packet: &[u8]) -> Option<(u128, u128, &[u8])> {
    let total = match usize::from(u16_at(packet, 4)?) {
        0 => packet.len(),
        length => (IPV6_HEADER_BYTES + length).min(packet.len()),
    };
    let header_bytes = match *packet.get(6)? {
        TCP => IPV6_HEADER_BYTES,
        0 if packet.get(40..42)? == [TCP, 0] => IPV6_HEADER_BYTES + JUMBO_HEADER_BYTES,
        _ => return None,
    };
    let from = u128::from_be_bytes(*packet.get(8..)?.first_chunk()?);
    let to = u128::from_be_bytes(*packet.get(24..)?.first_chunk()?);
    Some((from, to, packet.get(header_bytes..total)?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A packet of IPv4 or IPv6, by its addresses.
    pub(crate) fn packet(from: End, to: End, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut tcp = [from.port.to_be_bytes(), to.port.to_be_bytes()].concat();
        tcp.extend(sequence.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend([0x80, flags]);
        tcp.extend([0; 18]); // window, checksum, urgent, 12 bytes of options
        tcp.extend(payload);
        let is_v4 = from.address >> 32 == 0xffff;
        let mut out = if is_v4 {
            let length = (tcp.len() + 24) as u16;
            let mut out = vec![0x46, 0];
            out.extend(length.to_be_bytes());
            out.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
            out.extend(&from.address.to_be_bytes()[12..]);
            out.extend(&to.address.to_be_bytes()[12..]);
            out.extend([1; 4]); // an option
            out
        } else {
            let mut out = vec![0x60, 0, 0, 0];
            out.extend((tcp.len() as u16).to_be_bytes());
            out.extend([TCP, 64]);
            out.extend(from.address.to_be_bytes());
            out.extend(to.address.to_be_bytes());
            out
        };
        out.extend(tcp);
        out
    }

    pub(crate) fn ends(is_v4: bool) -> (End, End) {
        let address = |last| match is_v4 {
            true => mapped([127, 0, 0, last]),
            false => u128::from(last),
        };
        let client = End {
            address: address(2),
            port: 40_000,
        };
        let server = End {
            address: address(1),
            port: 3306,
        };
        (client, server)
    }

    #[test]
    fn both_protocols_read_back_without_padding() {
        for is_v4 in [true, false] {
            let (client, server) = ends(is_v4);
            let mut bytes = packet(client, server, 77, ACK, b"hello");
            bytes.extend([0; 6]); // as Ethernet pads
            let segment = parse(&bytes, 5).unwrap();
            assert_eq!((segment.from, segment.to), (client, server));
            assert_eq!((segment.sequence, segment.flags), (77, ACK));
            assert_eq!(segment.payload, b"hello");
        }
        assert_eq!(ip(mapped([10, 0, 0, 1])).to_string(), "10.0.0.1");
    }

    #[test]
    fn what_is_cut_or_no_segment_gives_nothing_or_less() {
        for is_v4 in [true, false] {
            let (client, server) = ends(is_v4);
            let whole = packet(client, server, 77, ACK, b"hello");
            for length in 0..whole.len() {
                if let Some(segment) = parse(&whole[..length], 0) {
                    assert!(b"hello".starts_with(segment.payload), "{length}");
                    assert!(segment.payload.len() < 5);
                }
            }
        }
        let (client, server) = ends(true);
        let mut fragment = packet(client, server, 77, ACK, b"hello");
        fragment[7] = 1;
        assert!(parse(&fragment, 0).is_none());
    }
}
