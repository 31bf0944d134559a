//! A classic BPF program that leaves all packets but the server's in the kernel.
//!
//! The ring attaches it before it opens. It runs for every packet of the interface, so it decides
//! in a dozen instructions. Invariant: it lets through every TCP segment of the ports that `frame`
//! can read and that carries data, begins or ends a connection; and nothing else but a few.

use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JMP,
    BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MEM, BPF_MSH, BPF_RET, BPF_RSH, BPF_ST, BPF_SUB,
    BPF_W, BPF_X, sock_filter,
};

/// Loads from here on are not from the packet but about it.
const ABOUT: u32 = -0x1000_i32 as u32;
const PACKET_TYPE: u32 = ABOUT + 4;
const INTERFACE: u32 = ABOUT + 8;
const OTHER_HOST: u32 = 3;
const OUTGOING: u32 = 4;
/// The loopback interface has this number in every network namespace.
pub(super) const LOOPBACK: u32 = 1;
const TCP: u32 = 6;
const FIN_SYN_RST: u32 = 7;
/// More ports than this would not fit the program's short jumps.
pub(super) const PORTS_MAX: usize = 16;

const LOAD_BYTE: u32 = BPF_LD | BPF_B | BPF_ABS;
const LOAD_HALF: u32 = BPF_LD | BPF_H | BPF_ABS;
const LOAD_WORD: u32 = BPF_LD | BPF_W | BPF_ABS;
const LOAD_BYTE_AT_X: u32 = BPF_LD | BPF_B | BPF_IND;
const LOAD_HALF_AT_X: u32 = BPF_LD | BPF_H | BPF_IND;
const IF_EQUAL: u32 = BPF_JMP | BPF_JEQ | BPF_K;
const IF_SET: u32 = BPF_JMP | BPF_JSET | BPF_K;

/// A place in the program that is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Accept,
    Drop,
    V6,
    Segment,
    Port,
    Data,
    NotLoopback,
}

/// Instructions whose jumps are labels.
#[derive(Default)]
struct Program {
    code: Vec<(u32, u32, Label, Label)>,
    places: Vec<(Label, usize)>,
}

impl Program {
    fn op(&mut self, code: u32, k: u32) {
        self.code.push((code, k, Label::Next, Label::Next));
    }

    fn jump(&mut self, code: u32, k: u32, yes: Label, no: Label) {
        self.code.push((code, k, yes, no));
    }

    fn place(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    fn finish(self) -> Vec<sock_filter> {
        let Program { code, places } = self;
        let offset = |at: usize, label: Label| match label {
            Label::Next => 0,
            _ => {
                let place = places.iter().find(|(known, _)| *known == label);
                place.map_or(0, |(_, place)| (place - at - 1) as u32)
            }
        };
        code.iter()
            .enumerate()
            .map(|(at, &(code, k, yes, no))| {
                let is_always = code == BPF_JMP | BPF_JA;
                sock_filter {
                    code: code as u16,
                    jt: if is_always { 0 } else { offset(at, yes) as u8 },
                    jf: offset(at, no) as u8,
                    k: if is_always { offset(at, yes) } else { k },
                }
            })
            .collect()
    }
}

/// The program for these ports. It sees packets from their IP header on.
pub(super) fn program(ports: &[u16], all_interfaces: bool) -> Vec<sock_filter> {
    let mut p = Program::default();
    p.op(LOAD_WORD, PACKET_TYPE);
    p.jump(IF_EQUAL, OTHER_HOST, Label::Drop, Label::Next);
    if all_interfaces {
        // What leaves by the loopback interface comes in by it too.
        p.jump(IF_EQUAL, OUTGOING, Label::Next, Label::NotLoopback);
        p.op(LOAD_WORD, INTERFACE);
        p.jump(IF_EQUAL, LOOPBACK, Label::Drop, Label::Next);
        p.place(Label::NotLoopback);
    }
    p.op(LOAD_BYTE, 0);
    p.op(BPF_ALU | BPF_RSH | BPF_K, 4);
    p.jump(IF_EQUAL, 6, Label::V6, Label::Next);
    p.jump(IF_EQUAL, 4, Label::Next, Label::Drop);
    p.op(LOAD_BYTE, 9);
    p.jump(IF_EQUAL, TCP, Label::Next, Label::Drop);
    p.op(LOAD_HALF, 6);
    p.jump(IF_SET, 0x3fff, Label::Drop, Label::Next); // a fragment
    // X: where TCP begins; M[0]: where the packet ends.
    p.op(BPF_LDX | BPF_B | BPF_MSH, 0);
    p.op(LOAD_HALF, 2);
    p.jump(IF_EQUAL, 0, Label::Next, Label::Segment);
    p.op(BPF_LD | BPF_W | BPF_LEN, 0);
    p.jump(BPF_JMP | BPF_JA, 0, Label::Segment, Label::Next);
    p.place(Label::V6);
    p.op(BPF_LDX | BPF_W | BPF_IMM, 40);
    p.op(LOAD_BYTE, 6);
    // Anything else but TCP here is a jumbo packet, or is found out by user space.
    p.jump(IF_EQUAL, TCP, Label::Port, Label::Next);
    p.jump(IF_EQUAL, 0, Label::Next, Label::Drop);
    p.op(LOAD_HALF, 40);
    p.jump(IF_EQUAL, TCP << 8, Label::Next, Label::Drop);
    p.op(BPF_LDX | BPF_W | BPF_IMM, 48);
    p.place(Label::Port);
    p.op(LOAD_HALF, 4);
    p.op(BPF_ALU | BPF_ADD | BPF_K, 40);
    p.jump(IF_EQUAL, 40, Label::Next, Label::Segment);
    p.op(BPF_LD | BPF_W | BPF_LEN, 0);
    p.place(Label::Segment);
    p.op(BPF_ST, 0);
    for at in [2, 0] {
        p.op(LOAD_HALF_AT_X, at);
        for &port in ports {
            p.jump(IF_EQUAL, port.into(), Label::Data, Label::Next);
        }
    }
    p.jump(BPF_JMP | BPF_JA, 0, Label::Drop, Label::Next);
    p.place(Label::Data);
    p.op(LOAD_BYTE_AT_X, 13);
    p.jump(IF_SET, FIN_SYN_RST, Label::Accept, Label::Next);
    // Bare acknowledgements say nothing that the next segment does not.
    p.op(LOAD_BYTE_AT_X, 12);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.op(BPF_ALU | BPF_RSH | BPF_K, 2);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_ST, 1);
    p.op(BPF_LDX | BPF_W | BPF_MEM, 1);
    p.op(BPF_LD | BPF_W | BPF_MEM, 0);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(IF_EQUAL, 0, Label::Drop, Label::Next);
    p.place(Label::Accept);
    p.op(BPF_RET | BPF_K, u32::MAX);
    p.place(Label::Drop);
    p.op(BPF_RET | BPF_K, 0);
    p.finish()
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{ends, packet};
    use super::super::frame::{ACK, End, FIN};
    use super::*;

    /// Runs the program as the kernel does; a load beyond the packet drops it.
    fn run(program: &[sock_filter], packet: &[u8], kind: u32, interface: u32) -> Option<u32> {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 2], 0);
        let load = |offset: u32, length: usize| {
            let bytes = packet.get(offset as usize..)?.get(..length)?;
            Some(
                bytes
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | u32::from(byte)),
            )
        };
        loop {
            let op = program[at];
            at += 1;
            match u32::from(op.code) {
                LOAD_WORD if op.k == PACKET_TYPE => a = kind,
                LOAD_WORD if op.k == INTERFACE => a = interface,
                LOAD_BYTE => a = load(op.k, 1)?,
                LOAD_HALF => a = load(op.k, 2)?,
                LOAD_BYTE_AT_X => a = load(x + op.k, 1)?,
                LOAD_HALF_AT_X => a = load(x + op.k, 2)?,
                code if code == BPF_LDX | BPF_B | BPF_MSH => x = (load(op.k, 1)? & 15) * 4,
                code if code == BPF_LDX | BPF_W | BPF_IMM => x = op.k,
                code if code == BPF_LDX | BPF_W | BPF_MEM => x = memory[op.k as usize],
                code if code == BPF_LD | BPF_W | BPF_MEM => a = memory[op.k as usize],
                code if code == BPF_LD | BPF_W | BPF_LEN => a = packet.len() as u32,
                code if code == BPF_ST => memory[op.k as usize] = a,
                code if code == BPF_ALU | BPF_RSH | BPF_K => a >>= op.k,
                code if code == BPF_ALU | BPF_AND | BPF_K => a &= op.k,
                code if code == BPF_ALU | BPF_ADD | BPF_K => a = a.wrapping_add(op.k),
                code if code == BPF_ALU | BPF_ADD | BPF_X => a = a.wrapping_add(x),
                code if code == BPF_ALU | BPF_SUB | BPF_X => a = a.wrapping_sub(x),
                code if code == BPF_JMP | BPF_JA => at += op.k as usize,
                IF_EQUAL => at += usize::from(if a == op.k { op.jt } else { op.jf }),
                IF_SET => at += usize::from(if a & op.k != 0 { op.jt } else { op.jf }),
                code if code == BPF_RET | BPF_K => return Some(op.k),
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn only_segments_of_the_ports_that_say_something_pass() {
        let ports: Vec<u16> = (0..PORTS_MAX as u16).map(|n| 3306 - n).collect();
        for all_interfaces in [true, false] {
            let program = program(&ports, all_interfaces);
            let passes = |packet: &[u8], kind, interface| {
                run(&program, packet, kind, interface).is_some_and(|taken| taken > 0)
            };
            for is_v4 in [true, false] {
                let (client, server) = ends(is_v4);
                let other = End { port: 80, ..server };
                let data = packet(client, server, 1, ACK, b"x");
                let answer = packet(server, client, 1, ACK, b"x");
                let mut bare = packet(client, server, 1, ACK, b"");
                bare.extend([0; 6]); // padding is no data
                assert!(passes(&data, 0, 2) && passes(&answer, OUTGOING, 2));
                assert!(passes(&packet(client, server, 1, ACK | FIN, b""), 0, 2));
                assert!(!passes(&bare, 0, 2));
                assert!(!passes(&packet(client, other, 1, ACK, b"x"), 0, 2));
                assert!(!passes(&data, OTHER_HOST, 2));
                assert_eq!(passes(&data, OUTGOING, LOOPBACK), !all_interfaces);
                assert!(passes(&data, 0, LOOPBACK));
                for length in 0..data.len() {
                    passes(&data[..length], 0, 2);
                }
                let mut udp = data.clone();
                udp[if is_v4 { 9 } else { 6 }] = 17;
                assert!(!passes(&udp, 0, 2));
            }
        }
    }

    #[test]
    fn a_packet_without_a_length_passes() {
        let program = program(&[3306], true);
        for is_v4 in [true, false] {
            let (client, server) = ends(is_v4);
            let mut packet = packet(client, server, 1, ACK, b"x");
            let at = if is_v4 { 2 } else { 4 };
            packet[at..at + 2].fill(0);
            assert_eq!(run(&program, &packet, 0, 2), Some(u32::MAX));
        }
    }
}
