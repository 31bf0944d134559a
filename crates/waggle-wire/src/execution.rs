//! The packet that executes a prepared statement, kept from one execution to the next.
//!
//! A [`Statement`](crate::Statement) has one. What does not change is written once; numbers are
//! overwritten where they lie. Invariant: the types are left out only when the server has taken
//! the same ones with the last execution of this statement, so that it never reads a value by
//! the type of another.

use crate::Value;

/// Header of the packet, filled in by the channel.
const HEADER_BYTES: usize = 4;
const COM_STMT_EXECUTE: u8 = 0x17;
/// Command, statement, flags and iteration count.
const FIXED_BYTES: usize = 1 + 4 + 1 + 4;
const NULLS_AT: usize = HEADER_BYTES + FIXED_BYTES;
/// A packet that large values blew up above this is given back at the next execution.
const PACKET_BYTES_KEPT: usize = 64 << 10;
const KIND_NULL: u16 = 0x06;
const KIND_BYTES: u16 = 0xfd;

/// The execute packet of one statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    packet: Vec<u8>,
    /// The types of the packet's parameters; NULL takes over the type of the value before it.
    kinds: Vec<u16>,
    /// Whether the server knows `kinds`.
    is_bound: bool,
    /// Whether the packet carries no types and every value in it has eight bytes.
    is_patchable: bool,
}

impl Execution {
    pub(crate) fn new(statement: u32, params: u16) -> Execution {
        let mut packet = Vec::new();
        packet.extend_from_slice(&[0; HEADER_BYTES]);
        packet.push(COM_STMT_EXECUTE);
        packet.extend_from_slice(&statement.to_le_bytes());
        packet.extend_from_slice(&[0, 1, 0, 0, 0]); // no cursor, one execution
        Execution {
            packet,
            kinds: vec![KIND_NULL; params.into()],
            is_bound: false,
            is_patchable: false,
        }
    }

    /// The packet with these values, as many as the statement has parameters.
    pub(crate) fn packet(&mut self, params: &[Value<'_>]) -> &mut [u8] {
        debug_assert_eq!(params.len(), self.kinds.len());
        if params.is_empty() {
            return &mut self.packet;
        }
        if !self.patch(params) {
            self.build(params);
        }
        &mut self.packet
    }

    /// The server has (not) taken the execution, and with it the types.
    pub(crate) fn set_bound(&mut self, is_bound: bool) {
        self.is_bound = is_bound;
    }

    /// Overwrites the values. False when they do not have the packet's form.
    fn patch(&mut self, params: &[Value<'_>]) -> bool {
        if !(self.is_patchable && self.is_bound) {
            return false;
        }
        let values_at = NULLS_AT + params.len().div_ceil(8) + 1;
        let (values, _) = self.packet[values_at..].as_chunks_mut::<8>();
        for ((param, kind), value) in params.iter().zip(&self.kinds).zip(values) {
            if param.kind() != *kind {
                return false;
            }
            *value = match param {
                Value::Int(number) => number.to_le_bytes(),
                Value::UInt(number) => number.to_le_bytes(),
                Value::Double(number) => number.to_le_bytes(),
                Value::Null | Value::Bytes(_) => return false,
            };
        }
        true
    }

    fn build(&mut self, params: &[Value<'_>]) {
        let out = &mut self.packet;
        out.truncate(NULLS_AT);
        out.shrink_to(PACKET_BYTES_KEPT);
        out.resize(NULLS_AT + params.len().div_ceil(8), 0);
        self.is_patchable = self.is_bound;
        for (i, (param, kind)) in params.iter().zip(&mut self.kinds).enumerate() {
            let new = param.kind();
            if new == KIND_NULL {
                out[NULLS_AT + i / 8] |= 1 << (i % 8);
            } else if *kind != new {
                *kind = new;
                self.is_bound = false;
            }
            self.is_patchable &= !matches!(new, KIND_NULL | KIND_BYTES);
        }
        self.is_patchable &= self.is_bound;
        out.push(u8::from(!self.is_bound)); // whether types follow
        if !self.is_bound {
            for kind in &self.kinds {
                out.extend_from_slice(&kind.to_le_bytes());
            }
        }
        for param in params {
            param.put(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(execution: &mut Execution, params: &[Value<'_>]) -> Vec<u8> {
        execution.packet(params)[HEADER_BYTES..].to_vec()
    }

    #[test]
    fn an_execution_has_the_protocols_form() {
        let mut none = Execution::new(7, 0);
        assert_eq!(body(&mut none, &[]), b"\x17\x07\0\0\0\0\x01\0\0\0");
        let values = [
            Value::Null,
            Value::Int(-2),
            Value::UInt(3),
            Value::Double(1.0),
            Value::Bytes(b"ab"),
        ];
        let mut five = Execution::new(7, 5);
        let start = &b"\x17\x07\0\0\0\0\x01\0\0\0\x01"[..];
        let types = &b"\x01\x06\0\x08\0\x08\x80\x05\0\xfd\0"[..];
        let numbers = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f";
        let with_types = [start, types, numbers, b"\x02ab"].concat();
        assert_eq!(body(&mut five, &values), with_types);
        assert_eq!(
            body(&mut five, &values),
            with_types,
            "the server took none yet"
        );
        five.set_bound(true);
        let without = [start, b"\0", numbers, b"\x02ab"].concat();
        assert_eq!(body(&mut five, &values), without);
        five.set_bound(false);
        assert_eq!(body(&mut five, &values), with_types);

        let mut values = [Value::Null; 9];
        values[1] = Value::Int(0);
        let packet = body(&mut Execution::new(1, 9), &values);
        assert_eq!(packet[10..12], [0b1111_1101, 1]);
    }

    #[test]
    fn numbers_are_overwritten_in_place() {
        let mut execution = Execution::new(1, 2);
        for i in 0..4 {
            let packet = body(&mut execution, &[Value::Int(i), Value::Double(0.5)]);
            execution.set_bound(true);
            let values = [i.to_le_bytes(), 0.5f64.to_le_bytes()].concat();
            assert!(packet.ends_with(&values));
            let types = if i == 0 { 4 } else { 0 };
            assert_eq!(packet.len(), FIXED_BYTES + 2 + types + 16);
            assert_eq!(execution.is_patchable, i > 0);
        }
    }

    fn values() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Int),
            any::<u64>().prop_map(Value::UInt),
            (-1e9..1e9).prop_map(Value::Double),
            Just(Value::Bytes(b"abc")),
        ]
    }

    /// What a server makes of an execution, with the types that it keeps.
    fn served(packet: &[u8], kinds: &mut Vec<u16>, params: usize) -> Vec<String> {
        let mut cursor = crate::cursor::Cursor::new(packet, "execute");
        cursor.bytes(FIXED_BYTES).unwrap();
        let nulls = cursor.bytes(params.div_ceil(8)).unwrap().to_vec();
        if cursor.u8().unwrap() == 1 {
            *kinds = (0..params).map(|_| cursor.u16().unwrap()).collect();
        }
        let values = (0..params)
            .map(|i| match (nulls[i / 8] >> (i % 8) & 1, kinds[i]) {
                (1, _) => "Null".to_owned(),
                (_, 0x08) => format!("{:?}", Value::Int(cursor.u64().unwrap() as i64)),
                (_, 0x8008) => format!("{:?}", Value::UInt(cursor.u64().unwrap())),
                (_, 0x05) => {
                    let number = f64::from_bits(cursor.u64().unwrap());
                    format!("{:?}", Value::Double(number))
                }
                (_, 0xfd) => format!("{:?}", Value::Bytes(cursor.text().unwrap())),
                (_, other) => panic!("type {other:#x} of a value"),
            })
            .collect();
        assert!(cursor.is_empty());
        values
    }

    proptest! {
        #[test]
        fn a_server_reads_the_values_whatever_came_before(
            executions in proptest::collection::vec(
                (proptest::collection::vec(values(), 3), any::<bool>()), 1..12),
        ) {
            let mut execution = Execution::new(1, 3);
            let mut kinds = Vec::new();
            for (params, succeeds) in &executions {
                let packet = body(&mut execution, params);
                let expected: Vec<String> =
                    params.iter().map(|param| format!("{param:?}")).collect();
                // A server that fails an execution may have kept its types or not.
                let mut kept = kinds.clone();
                prop_assert_eq!(served(&packet, &mut kept, 3), expected);
                if *succeeds {
                    kinds = kept;
                }
                execution.set_bound(*succeeds);
            }
        }
    }
}
