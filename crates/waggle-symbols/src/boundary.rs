//! Where in a function may a probe stand that is not at its entry?
//!
//! At an instruction boundary that decoding from the function's start reaches, and nowhere else: a
//! breakpoint within an instruction destroys it. Neighbours: [`function`](crate::function) finds
//! the function, [`site`](crate::site) the places at its entry.
//!
//! Invariant: every site here was reached by decoding from where the file says that the function
//! begins, and carries its bytes.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::elf::Function;
use crate::function::{FunctionError, Program};
use crate::site::{Register, Site, TrapCost, is_emulated};

/// Why an offset is no place for a probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundaryError {
    /// The offset is not in the file's code.
    #[error("offset {0:#x} of the file is not code")]
    NotCode(u64),
    /// Nobody knows the function around it.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// It is within an instruction, or not reached by decoding.
    #[error("{at:#x} is no instruction's first byte in {function}: the nearest is {nearest:#x}")]
    Within {
        /// The function around it.
        function: String,
        /// The address asked for.
        at: u64,
        /// The instruction that it is within, or the last that could be decoded.
        nearest: u64,
    },
    /// Other bytes stand there.
    #[error("at offset {offset:#x} the file holds {found:02x?}, not {expected:02x?}")]
    Bytes {
        /// Offset in the file.
        offset: u64,
        /// What stands there.
        found: Vec<u8>,
        /// What was said to stand there.
        expected: Vec<u8>,
    },
}

/// The instruction at this offset of the file, where `expected` has to stand.
///
/// # Errors
/// It is no code, other bytes stand there, or it is within an instruction.
pub fn at_offset(program: &Program, offset: u64, expected: &[u8]) -> Result<Site, BoundaryError> {
    let address = program.address_at(offset);
    let address = address.ok_or(BoundaryError::NotCode(offset))?;
    let function = program.around(address)?;
    let start = usize::try_from(address.wrapping_sub(function.address)).unwrap_or(usize::MAX);
    let found = function.code.get(start..).unwrap_or_default();
    if !found.starts_with(expected) {
        let found = found[..expected.len().min(found.len())].to_vec();
        return Err(BoundaryError::Bytes {
            offset,
            found,
            expected: expected.to_vec(),
        });
    }
    at_address(&function, address)
}

/// The instruction at this address of a function.
///
/// # Errors
/// Decoding from the function's start does not come to it.
pub fn at_address(function: &Function, address: u64) -> Result<Site, BoundaryError> {
    let mut nearest = function.address;
    for instruction in instructions(function) {
        if instruction.is_invalid() || instruction.ip() > address {
            break;
        }
        if instruction.ip() == address {
            return Ok(site(function, &instruction));
        }
        nearest = instruction.ip();
    }
    Err(BoundaryError::Within {
        function: function.name.clone(),
        at: address,
        nearest,
    })
}

/// How far behind an instruction a cheap place is looked for.
const BEHIND_MAX: usize = 12;

/// The cheapest place right behind the instruction at `address`: the first that the kernel
/// emulates on the straight line, else the next instruction.
pub fn behind(function: &Function, address: u64) -> Option<Site> {
    let mut next = None;
    let after = instructions(function)
        .skip_while(|i| i.ip() <= address)
        .take(BEHIND_MAX);
    for instruction in after {
        if instruction.is_invalid() {
            break;
        }
        let found = site(function, &instruction);
        if found.trap == TrapCost::Emulated {
            return Some(found);
        }
        next.get_or_insert(found);
        if !matches!(instruction.flow_control(), FlowControl::Next) {
            break;
        }
    }
    next
}

/// The very first instruction: single-stepped or not, the return address is on top there.
pub fn first(function: &Function) -> Option<Site> {
    let instruction = instructions(function).next().filter(|i| !i.is_invalid())?;
    Some(site(function, &instruction))
}

pub(crate) fn instructions(function: &Function) -> impl Iterator<Item = Instruction> + '_ {
    let options = DecoderOptions::NONE;
    let mut decoder = Decoder::with_ip(64, &function.code, function.address, options);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

fn site(function: &Function, instruction: &Instruction) -> Site {
    let offset = instruction.ip() - function.address;
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let bytes = function.code[start..start + instruction.len()].to_vec();
    let trap = if is_emulated(instruction, &bytes) {
        TrapCost::Emulated
    } else {
        TrapCost::SingleStepped
    };
    Site {
        function: function.name.clone(),
        file_offset: function.file_offset + offset,
        function_offset: offset,
        instruction: format!("{:?}", instruction.mnemonic()).to_lowercase(),
        bytes,
        register: Register(7),
        trap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov $1, %eax; mov %rax, 8(%rdi); test %al, %al; jne +0; ret`
    const CODE: [u8; 14] = [
        0xb8, 1, 0, 0, 0, 0x48, 0x89, 0x47, 8, 0x84, 0xc0, 0x75, 0, 0xc3,
    ];

    fn function() -> Function {
        Function {
            name: "f".into(),
            address: 0x1000,
            file_offset: 0x200,
            code: CODE.to_vec(),
        }
    }

    #[test]
    fn only_boundaries_are_places() {
        let f = function();
        let places: Vec<u64> = (0x0ff0..0x1020)
            .filter(|at| at_address(&f, *at).is_ok())
            .collect();
        assert_eq!(places, [0x1000, 0x1005, 0x1009, 0x100b, 0x100d]);
        let error = at_address(&f, 0x1002).unwrap_err();
        assert!(
            error.to_string().contains("no instruction's first byte"),
            "{error}"
        );
    }

    #[test]
    fn the_cheapest_behind_is_the_branch() {
        let f = function();
        let found = behind(&f, 0x1005).unwrap();
        assert_eq!(
            (found.function_offset, found.trap),
            (11, TrapCost::Emulated)
        );
        // Behind the branch there is only the return.
        let found = behind(&f, 0x100b).unwrap();
        assert_eq!(found.trap, TrapCost::SingleStepped);
        assert_eq!(behind(&f, 0x100d), None);
    }
}
