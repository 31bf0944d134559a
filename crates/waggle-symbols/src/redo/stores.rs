//! Which instructions of a function store a number at one place of an object?
//!
//! The object's own address is in a register that nobody knows; the number's, once it was made, may
//! wait on the stack. Neighbour: `mysql` asks.
//!
//! Invariant: who holds the address is followed from one instruction to the next, through every
//! move; what is not understood holds it no more.

use std::collections::BTreeMap;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::boundary::instructions;
use crate::elf::Function;

/// Where a value was put that was made from the address `offset(register)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Register(u32),
    /// On the stack, at this offset of the frame.
    Slot(i64),
}

/// Addresses of the instructions that store 8 bytes at `offset` of an object, directly or through
/// its address in a register, which may have been put on the stack meanwhile.
pub(super) fn stores(function: &Function, offset: i64) -> Vec<u64> {
    let mut holders: BTreeMap<Holder, ()> = BTreeMap::new();
    let mut found = Vec::new();
    for i in instructions(function) {
        if i.is_invalid() {
            break;
        }
        if stores_eight(&i) && is_target(&i, offset, &holders) {
            found.push(i.ip());
        }
        follow(&i, offset, &mut holders);
    }
    found
}

pub(super) fn displacement(i: &Instruction) -> i64 {
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a displacement is signed by definition"
    )]
    let displacement = i.memory_displacement64() as i64;
    displacement
}

pub(super) fn is_frame(register: Register) -> bool {
    matches!(register, Register::RBP | Register::RSP)
}

/// A plain store or exchange of eight bytes with memory.
fn stores_eight(i: &Instruction) -> bool {
    let is_store = matches!(i.mnemonic(), Mnemonic::Mov | Mnemonic::Xchg);
    is_store && i.op0_kind() == OpKind::Memory && i.memory_size().size() == 8
}

fn is_target(i: &Instruction, offset: i64, holders: &BTreeMap<Holder, ()>) -> bool {
    let base = i.memory_base();
    if i.memory_index() != Register::None || base == Register::None || base == Register::RIP {
        return false;
    }
    let is_direct = displacement(i) == offset && !is_frame(base);
    let through = Holder::Register(u32::try_from(base.number()).unwrap_or(u32::MAX));
    is_direct || (displacement(i) == 0 && !is_frame(base) && holders.contains_key(&through))
}

/// Keeps track of who holds the address `offset(register)`.
fn follow(i: &Instruction, offset: i64, holders: &mut BTreeMap<Holder, ()>) {
    let register = |r: Register| {
        let full = r.full_register();
        let number = u32::try_from(full.number()).unwrap_or(u32::MAX);
        full.is_gpr64().then_some(Holder::Register(number))
    };
    let slot = || {
        let plain = i.memory_index() == Register::None && i.memory_base() == Register::RBP;
        plain.then(|| Holder::Slot(displacement(i)))
    };
    let is_move = i.mnemonic() == Mnemonic::Mov;
    if is_move && i.op0_kind() == OpKind::Memory {
        let from = (i.op1_kind() == OpKind::Register).then(|| register(i.op1_register()));
        let holds = from.flatten().is_some_and(|r| holders.contains_key(&r));
        match (slot(), holds) {
            (Some(slot), true) => drop(holders.insert(slot, ())),
            (Some(slot), false) => drop(holders.remove(&slot)),
            (None, _) => {}
        }
        return;
    }
    if i.op_count() == 0 || i.op0_kind() != OpKind::Register {
        return;
    }
    let Some(target) = register(i.op0_register()) else {
        return;
    };
    let makes = i.mnemonic() == Mnemonic::Lea
        && displacement(i) == offset
        && i.memory_index() == Register::None
        && !is_frame(i.memory_base())
        && !i.is_ip_rel_memory_operand();
    let source = match (is_move, i.op_count() > 1) {
        (true, true) if i.op1_kind() == OpKind::Memory => slot(),
        (true, true) if i.op1_kind() == OpKind::Register => register(i.op1_register()),
        _ => None,
    };
    let copies = source.is_some_and(|from| holders.contains_key(&from));
    let only_reads = matches!(
        i.mnemonic(),
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push
    );
    if makes || copies {
        holders.insert(target, ());
    } else if !only_reads {
        holders.remove(&target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(code: &[u8]) -> Function {
        Function {
            name: "f".into(),
            address: 0x1000,
            file_offset: 0,
            code: code.to_vec(),
        }
    }

    #[test]
    fn a_store_through_the_stack_is_found() {
        // lea 0x1c0(%rbx),%rax; mov %rax,-0x78(%rbp); xor %eax,%eax; mov %r15,%rcx
        // mov -0x78(%rbp),%rax; xchg %rcx,(%rax); ret
        let code = [
            0x48, 0x8d, 0x83, 0xc0, 1, 0, 0, 0x48, 0x89, 0x45, 0x88, 0x31, 0xc0, 0x4c, 0x89, 0xf9,
            0x48, 0x8b, 0x45, 0x88, 0x48, 0x87, 0x08, 0xc3,
        ];
        assert_eq!(stores(&function(&code), 0x1c0), [0x1014]);
        assert_eq!(stores(&function(&code), 0x1c8), [0u64; 0]);
        // Without the reload, the register holds something else.
        let mut other = code.to_vec();
        other.drain(16..20);
        assert_eq!(stores(&function(&other), 0x1c0), [0u64; 0]);
    }

    #[test]
    fn a_direct_store_is_found_and_a_read_is_not() {
        // mov 0x300(%rbx),%rax; mov %rax,0x300(%rbx); mov %rax,0x300(%rbp)
        let code = [
            0x48, 0x8b, 0x83, 0, 3, 0, 0, 0x48, 0x89, 0x83, 0, 3, 0, 0, 0x48, 0x89, 0x85, 0, 3, 0,
            0,
        ];
        assert_eq!(stores(&function(&code), 0x300), [0x1007]);
    }
}
