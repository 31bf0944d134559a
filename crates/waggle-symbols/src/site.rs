//! Where in a function a probe is cheapest, and which register holds the argument there.
//!
//! The kernel emulates a few instructions when it takes a breakpoint (`push`, branches, calls,
//! one-byte `nop`) and single-steps the rest, which costs twenty times more in a virtual machine.
//! Many builds begin every function with `endbr64`, which is single-stepped; some functions begin
//! with neither. So the site is the first instruction the kernel emulates on the straight line
//! from the function's start, as long as no branch leads back into that line and a register still
//! holds the argument.

use std::fmt;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess,
};

use crate::elf::Function;
use crate::trace;

pub use iced_x86::Register as MachineRegister;

/// How far from the start a site may lie, instructions.
const INSTRUCTIONS_MAX: usize = 32;

/// A register a probe can read, by its index in the order rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
/// r8 to r15 (the processor's own numbering).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register(pub u8);

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        f.write_str(NAMES[usize::from(self.0 & 15)])
    }
}

/// What the kernel does at the breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapCost {
    /// The instruction is emulated: one trap.
    Emulated,
    /// The instruction is executed out of line and stepped: two traps.
    SingleStepped,
}

impl fmt::Display for TrapCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emulated => "emulated",
            Self::SingleStepped => "single-stepped",
        })
    }
}

/// A place to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Mangled name of the function.
    pub function: String,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Offset from the start of the function, bytes.
    pub function_offset: u64,
    /// The instruction's bytes, to be compared before attaching.
    pub bytes: Vec<u8>,
    /// The instruction's mnemonic, for reports.
    pub instruction: String,
    /// The register that holds the argument here.
    pub register: Register,
    /// What a hit costs.
    pub trap: TrapCost,
}

/// Why a function offers no site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// The bytes are no instructions.
    #[error("{function} cannot be decoded at +{at:#x}")]
    Undecodable {
        /// Mangled name.
        function: String,
        /// Offset from the start, bytes.
        at: u64,
    },
    /// Every straight-line instruction is reached again by a branch, or lost the argument.
    #[error(
        "{function} has no instruction that runs once a call and still holds argument {argument}"
    )]
    NoSite {
        /// Mangled name.
        function: String,
        /// Which argument was wanted.
        argument: u8,
    },
    /// A branch leads back to where the function begins, or it begins with no instruction that a
    /// probe can stand at.
    #[error("{function} has no instruction before its stack moves that runs once a call")]
    NoEntry {
        /// Mangled name.
        function: String,
    },
}

/// True if the kernel emulates `instruction` at a breakpoint (x86-64, Linux 4.18 and later).
pub(crate) fn is_emulated(instruction: &Instruction, bytes: &[u8]) -> bool {
    if bytes.first() == Some(&0x66) {
        return false;
    }
    match instruction.code() {
        Code::Push_r64 | Code::Nopd | Code::Nopw | Code::Nopq => true,
        Code::Call_rel32_64 | Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => true,
        _ => instruction.is_jcc_short_or_near(),
    }
}

impl Site {
    /// The cheapest site in `function` where argument `argument` (0 is the first) is in a register.
    ///
    /// # Errors
    /// The code cannot be decoded, or no instruction qualifies.
    pub fn find(function: &Function, argument: u8) -> Result<Self, SiteError> {
        cheapest(candidates(function, argument)?).ok_or_else(|| SiteError::NoSite {
            function: function.name.clone(),
            argument,
        })
    }

    /// True if nothing of `function` has moved the stack when it comes here: the return address is
    /// still on top.
    pub fn is_before_stack_moves(&self, function: &Function) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let here = function.address + self.function_offset;
        let before = Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
            .into_iter()
            .take_while(|i| i.ip() < here);
        let mut moves = before.filter(|i| {
            let used = factory.info(i).used_registers();
            used.iter().any(|u| {
                u.register().full_register() == MachineRegister::RSP && u.access() != OpAccess::Read
            })
        });
        moves.next().is_none()
    }

    /// The cheapest site in `function` where its return address is still on top of the stack: one
    /// where a return can be watched too. Nothing else is known of the registers there.
    ///
    /// # Errors
    /// The code cannot be decoded, or a branch leads back to its beginning.
    pub fn at_entry(function: &Function) -> Result<Self, SiteError> {
        let mut sites = candidates(function, 4)?;
        sites.retain(|site| site.is_before_stack_moves(function));
        cheapest(sites).ok_or_else(|| SiteError::NoEntry {
            function: function.name.clone(),
        })
    }

    /// The cheapest site in `function` where each of `arguments` is in a register, and these
    /// registers in the same order. With no argument wanted, any straight-line instruction does.
    ///
    /// # Errors
    /// The code cannot be decoded, or no instruction qualifies.
    pub fn find_holding(
        function: &Function,
        arguments: &[u8],
    ) -> Result<(Self, Vec<Register>), SiteError> {
        let first = arguments.first().copied().unwrap_or(0);
        let mut qualified = candidates(function, first)?;
        let others = arguments.get(1..).unwrap_or_default();
        let others = others
            .iter()
            .map(|argument| candidates(function, *argument))
            .collect::<Result<Vec<_>, _>>()?;
        let register_at = |sites: &[Self], offset: u64| {
            let mut sites = sites.iter();
            sites
                .find(|site| site.function_offset == offset)
                .map(|s| s.register)
        };
        qualified.retain(|site| {
            others
                .iter()
                .all(|other| register_at(other, site.function_offset).is_some())
        });
        let site = cheapest(qualified).ok_or_else(|| SiteError::NoSite {
            function: function.name.clone(),
            argument: first,
        })?;
        let mut registers = Vec::new();
        if !arguments.is_empty() {
            registers.push(site.register);
        }
        registers.extend(
            others
                .iter()
                .filter_map(|other| register_at(other, site.function_offset)),
        );
        Ok((site, registers))
    }
}

/// The first emulated one, else the first.
fn cheapest(candidates: Vec<Site>) -> Option<Site> {
    let emulated = candidates
        .iter()
        .position(|site| site.trap == TrapCost::Emulated);
    candidates.into_iter().nth(emulated.unwrap_or(0))
}

/// Every straight-line instruction that qualifies, in order of address.
fn candidates(function: &Function, argument: u8) -> Result<Vec<Site>, SiteError> {
    let first_target = first_branch_target(function);
    let holders = trace::holders(function, argument, INSTRUCTIONS_MAX);
    let mut sites = Vec::new();
    let mut decoder = Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE);
    for holder in holders {
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        let at = instruction.ip() - function.address;
        if instruction.is_invalid() {
            return Err(SiteError::Undecodable {
                function: function.name.clone(),
                at,
            });
        }
        // A branch back to here or before would run the probe more than once a call.
        if first_target.is_some_and(|target| target <= instruction.ip()) {
            break;
        }
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = function.code[start..start + instruction.len()].to_vec();
        if let Some(register) = holder
            && instruction.mnemonic() != Mnemonic::Endbr64
        {
            let emulated = is_emulated(&instruction, &bytes);
            sites.push(Site {
                function: function.name.clone(),
                file_offset: function.file_offset + at,
                function_offset: at,
                bytes,
                instruction: format!("{:?}", instruction.mnemonic()).to_lowercase(),
                register,
                trap: if emulated {
                    TrapCost::Emulated
                } else {
                    TrapCost::SingleStepped
                },
            });
        }
        if !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::Call
        ) {
            break;
        }
    }
    Ok(sites)
}

/// The lowest address within the function, its start included, that a branch in it leads to.
fn first_branch_target(function: &Function) -> Option<u64> {
    let end = function.address + function.code.len() as u64;
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
        .iter()
        .filter(|i| {
            matches!(
                i.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            )
        })
        .map(|i| i.near_branch_target())
        .filter(|target| (function.address..end).contains(target))
        .min()
}
