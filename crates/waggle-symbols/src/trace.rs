//! Follows a function's arguments through its code: which memory behind which argument it reads,
//! writes, or returns.
//!
//! Every path is walked once, branches included, with the registers known at the first arrival.
//! A value is only ever `argument, then so many dereferences, plus an offset`; whatever is not of
//! that form is unknown, and nothing is concluded from it.

use std::collections::HashSet;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

use crate::elf::Function;

/// `argument`, dereferenced at each of `derefs` in turn, plus `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Which integer argument of the function: 0 for the first.
    pub argument: u8,
    /// Offsets at which a pointer was loaded, outermost first.
    pub derefs: Vec<i64>,
    /// Added after the last dereference, bytes.
    pub offset: i64,
    /// Bytes of the last load (8 for pointers; 0 before any load).
    pub width: u8,
}

/// One access to memory behind an argument.
#[derive(Debug, Clone)]
pub struct Access {
    /// The address.
    pub address: Expression,
    /// Bytes accessed.
    pub size: u8,
    /// The memory is read.
    pub reads: bool,
    /// The memory is written.
    pub writes: bool,
    /// The immediate operand, if there is one (`cmpl $5, mem`).
    pub immediate: Option<u64>,
    /// What is stored, where that is known.
    pub stored: Option<Expression>,
}

/// What following a function's arguments found.
#[derive(Debug, Default)]
pub struct Trace {
    /// Accesses, in the order of the walk.
    pub accesses: Vec<Access>,
    /// `rax` and `rdx` at each return.
    pub returns: Vec<(Option<Expression>, Option<Expression>)>,
}

impl Trace {
    /// Accesses directly behind argument `argument` (no dereference), of `size` bytes.
    pub fn direct(&self, argument: u8, size: u8) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(move |a| {
            a.address.argument == argument && a.address.derefs.is_empty() && a.size == size
        })
    }
}

const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Bound on instructions walked in one function.
const INSTRUCTIONS_MAX: usize = 4096;

/// What is known of the sixteen general registers.
#[derive(Debug, Clone, Default)]
struct State([Option<Expression>; 16]);

impl State {
    fn at_entry() -> Self {
        let mut state = Self::default();
        for (argument, register) in (0u8..).zip(ARGUMENTS) {
            let start = Expression {
                argument,
                derefs: Vec::new(),
                offset: 0,
                width: 0,
            };
            state.set(register, Some(start));
        }
        state
    }

    fn slot(register: Register) -> Option<usize> {
        let full = register.full_register();
        full.is_gpr64().then(|| full.number())
    }

    fn get(&self, register: Register) -> Option<&Expression> {
        self.0[Self::slot(register)?].as_ref()
    }

    fn set(&mut self, register: Register, value: Option<Expression>) {
        if let Some(slot) = Self::slot(register) {
            self.0[slot] = value;
        }
    }
}

/// Walks `function` and reports every access to memory behind its arguments.
pub fn trace(function: &Function) -> Trace {
    let mut result = Trace::default();
    let mut factory = InstructionInfoFactory::new();
    let mut seen = HashSet::new();
    let mut work = vec![(function.address, State::at_entry())];
    let end = function.address + function.code.len() as u64;
    while let Some((start, mut state)) = work.pop() {
        let Some(skip) = start.checked_sub(function.address).filter(|_| start < end) else {
            continue;
        };
        let code = &function.code[usize::try_from(skip).unwrap_or(usize::MAX)..];
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        while decoder.can_decode() && seen.len() < INSTRUCTIONS_MAX {
            let instruction = decoder.decode();
            if instruction.is_invalid() || !seen.insert(instruction.ip()) {
                break;
            }
            record(&instruction, &state, &mut factory, &mut result);
            if matches!(instruction.flow_control(), FlowControl::Return) {
                let value = |register| state.get(register).cloned();
                result
                    .returns
                    .push((value(Register::RAX), value(Register::RDX)));
                break;
            }
            match instruction.flow_control() {
                FlowControl::Next => step(&instruction, &mut state, &mut factory),
                FlowControl::Call | FlowControl::IndirectCall => {
                    for register in CALLER_SAVED {
                        state.set(register, None);
                    }
                }
                FlowControl::ConditionalBranch => {
                    work.push((instruction.near_branch_target(), state.clone()));
                }
                FlowControl::UnconditionalBranch => {
                    work.push((instruction.near_branch_target(), state));
                    break;
                }
                _ => break,
            }
        }
    }
    result
}

/// A memory operand whose base is any register but the stack's.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// Bytes from the base.
    pub displacement: i64,
    /// Bytes accessed.
    pub size: u8,
    /// The instruction is a plain `add`.
    pub is_add: bool,
    /// The instruction is a plain `mov`.
    pub is_move: bool,
    /// The operand is the instruction's target.
    pub writes: bool,
    /// The immediate operand, if there is one.
    pub immediate: Option<u64>,
}

/// Every operand `displacement(register)` of `function`, in order of address, whatever the
/// register holds: for functions that take their object from the thread, not from an argument.
pub fn operands(function: &Function) -> impl Iterator<Item = Operand> {
    let options = DecoderOptions::NONE;
    let mut decoder = Decoder::with_ip(64, &function.code, function.address, options);
    let stack = [Register::RSP, Register::RBP, Register::RIP, Register::None];
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
        .take_while(|instruction| !instruction.is_invalid())
        .filter(move |i| {
            let memory = (0..i.op_count()).any(|op| i.op_kind(op) == OpKind::Memory);
            memory
                && i.memory_index() == Register::None
                && !stack.contains(&i.memory_base())
                && !matches!(i.segment_prefix(), Register::FS | Register::GS)
        })
        .map(|i| {
            #[expect(
                clippy::cast_possible_wrap,
                reason = "a displacement is signed by definition"
            )]
            let displacement = i.memory_displacement64() as i64;
            Operand {
                displacement,
                size: u8::try_from(i.memory_size().size()).unwrap_or(u8::MAX),
                is_add: i.mnemonic() == Mnemonic::Add,
                is_move: i.mnemonic() == Mnemonic::Mov,
                writes: i.op0_kind() == OpKind::Memory,
                immediate: immediate(&i),
            }
        })
}

/// For each of the first `limit` instructions on the straight line from the start: a register that
/// holds argument `argument` unchanged when that instruction is about to run.
pub(crate) fn holders(
    function: &Function,
    argument: u8,
    limit: usize,
) -> Vec<Option<crate::site::Register>> {
    let mut factory = InstructionInfoFactory::new();
    let mut state = State::at_entry();
    let mut held = Vec::new();
    let code = &function.code[..];
    for instruction in &mut Decoder::with_ip(64, code, function.address, DecoderOptions::NONE) {
        if held.len() == limit {
            break;
        }
        let is_argument = |slot: &Option<Expression>| {
            slot.as_ref()
                .is_some_and(|e| e.argument == argument && e.derefs.is_empty() && e.offset == 0)
        };
        // The argument's own register first, so that reports read as the calling convention does.
        let own = State::slot(ARGUMENTS[usize::from(argument) % ARGUMENTS.len()]);
        let slot = own
            .filter(|slot| is_argument(&state.0[*slot]))
            .or_else(|| state.0.iter().position(is_argument));
        held.push(
            slot.and_then(|s| u8::try_from(s).ok())
                .map(crate::site::Register),
        );
        match instruction.flow_control() {
            FlowControl::Next => step(&instruction, &mut state, &mut factory),
            FlowControl::Call | FlowControl::IndirectCall => {
                for register in CALLER_SAVED {
                    state.set(register, None);
                }
            }
            _ => break,
        }
    }
    held
}

/// The address a memory operand names, if its base is known and it has no index.
fn address(instruction: &Instruction, state: &State) -> Option<Expression> {
    let plain = instruction.memory_index() == Register::None
        && !matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    if !plain {
        return None;
    }
    let mut base = state.get(instruction.memory_base())?.clone();
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a displacement is signed by definition"
    )]
    let displacement = instruction.memory_displacement64() as i64;
    base.offset = base.offset.checked_add(displacement)?;
    Some(base)
}

/// The last operand, if it is an immediate one.
fn immediate(instruction: &Instruction) -> Option<u64> {
    let last = instruction.op_count().saturating_sub(1);
    let is_immediate = |kind| {
        matches!(
            kind,
            OpKind::Immediate8
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    };
    (instruction.op_count() > 1 && is_immediate(instruction.op_kind(last)))
        .then(|| instruction.immediate(last))
}

fn record(
    instruction: &Instruction,
    state: &State,
    factory: &mut InstructionInfoFactory,
    result: &mut Trace,
) {
    if instruction.mnemonic() == Mnemonic::Lea || instruction.mnemonic() == Mnemonic::Nop {
        return;
    }
    let Some(address) = address(instruction, state) else {
        return;
    };
    let info = factory.info(instruction);
    let (mut reads, mut writes) = (false, false);
    for memory in info.used_memory() {
        let access = memory.access();
        reads |= matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        writes |= matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
    }
    let immediate = immediate(instruction);
    let stored = (writes && instruction.mnemonic() == Mnemonic::Mov)
        .then(|| state.get(instruction.op1_register()).cloned())
        .flatten();
    let size = u8::try_from(instruction.memory_size().size()).unwrap_or(u8::MAX);
    result.accesses.push(Access {
        address,
        size,
        reads,
        writes,
        immediate,
        stored,
    });
}

/// Applies one instruction that falls through to the known registers.
fn step(instruction: &Instruction, state: &mut State, factory: &mut InstructionInfoFactory) {
    let target = instruction.op0_register();
    let value = match instruction.mnemonic() {
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
            let width = u8::try_from(instruction.memory_size().size()).unwrap_or(0);
            address(instruction, state).map(|mut at| {
                at.derefs.push(at.offset);
                Expression {
                    argument: at.argument,
                    derefs: at.derefs,
                    offset: 0,
                    width,
                }
            })
        }
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
            state.get(instruction.op1_register()).cloned()
        }
        Mnemonic::Lea => address(instruction, state),
        Mnemonic::Add if instruction.code() == Code::Add_rm64_imm8 => {
            #[expect(clippy::cast_possible_wrap, reason = "sign-extended by the decoder")]
            let added = instruction.immediate(1) as i64;
            state.get(target).cloned().map(|mut e| {
                e.offset = e.offset.wrapping_add(added);
                e
            })
        }
        _ => None,
    };
    let written: Vec<Register> = factory
        .info(instruction)
        .used_registers()
        .iter()
        .filter(|used| {
            !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None
            )
        })
        .map(|used| used.register())
        .collect();
    for register in written {
        state.set(register, None);
    }
    if instruction.op0_kind() == OpKind::Register && value.is_some() {
        state.set(target, value);
    }
}
