//! What is a point: where a probe goes, what is read there, and when it counts?
//!
//! Neighbours: `waggle-trace` makes these from a stage file and a binary; `mod.rs` attaches them;
//! `probe.bpf.c` reads the values. A value is a base and a few steps, since a program in the kernel
//! has to end.
//!
//! Invariant: a place in a file comes with the bytes that stand there.

use std::fmt;
use std::path::PathBuf;

pub use waggle_symbols::{Register, TrapCost};

/// Most steps of a value.
pub const STEPS_MAX: usize = 4;

/// Most tests of a point.
pub const TESTS_MAX: usize = 2;

/// A place in a file, with what has to stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as this process sees it (`/proc/PID/root/...` for one in another root).
    pub binary: PathBuf,
    /// Name of the function, for people.
    pub function: String,
    /// From the function's start, bytes.
    pub function_offset: u64,
    /// In the file, bytes: what a probe is placed by.
    pub file_offset: u64,
    /// The instruction's bytes.
    pub bytes: Vec<u8>,
    /// What a hit costs.
    pub trap: TrapCost,
    /// The return address is on top of the stack here: nothing of the function moved it yet.
    pub return_on_top: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.function, self.function_offset)
    }
}

/// Where a point is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// An instruction.
    At {
        /// Which.
        place: Place,
        /// Offset in the file of the 16-bit counter that switches a static probe on, if it has one.
        semaphore: Option<u64>,
    },
    /// The return of the function that begins at this place.
    Return(Place),
    /// A store to these bytes of the process' memory.
    Watch {
        /// First byte, an address in the process; a multiple of `bytes`.
        address: u64,
        /// 1, 2, 4 or 8.
        bytes: u8,
    },
    /// A tracepoint of the kernel.
    Tracepoint {
        /// Such as `block`.
        category: String,
        /// Such as `block_rq_issue`.
        name: String,
    },
}

/// What a value begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// Zero: the value is a constant, or an address that the first step adds.
    #[default]
    Zero,
    /// A register at the point.
    Register(Register),
    /// A register, and another times a scale (1, 2, 4 or 8).
    Indexed(Register, Register, u8),
    /// Where the process has the binary's address 0.
    Image,
    /// The thread pointer (`fs`): thread-local variables stand around it.
    ThreadPointer,
    /// Bytes of a tracepoint's record.
    Field {
        /// From the record's start.
        offset: u16,
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// True if the sign is to be extended.
        signed: bool,
    },
}

/// One step of a value: adds, then perhaps loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Added to what there is.
    pub add: i64,
    /// Bytes loaded from the address that this makes (1, 2, 4 or 8); 0: none, the sum stays.
    pub load: u8,
    /// The loaded number's sign is extended.
    pub signed: bool,
}

/// A number that is read when a thread passes a point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Value {
    /// What it begins with.
    pub base: Base,
    /// At most [`STEPS_MAX`].
    pub steps: Vec<Step>,
    /// Keeps the low bits only, this many bytes (1, 2, 4); 0 or 8: all.
    pub keep: u8,
    /// The kept number's sign is extended.
    pub signed: bool,
}

/// A comparison of unsigned numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Not less.
    AtLeast,
}

/// A passing that does not hold this is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// What is compared.
    pub value: Value,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub with: u64,
    /// `with` is an address of the binary; the process has it elsewhere.
    pub in_image: bool,
}

/// One place of a point, and what is read there. A point may have several: a static probe that
/// stands in the code more than once keeps its arguments elsewhere each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointSpec {
    /// The point's number, in every record.
    pub point: u16,
    /// Where.
    pub attach: Attach,
    /// The value.
    pub value: Value,
    /// A second one.
    pub second: Value,
    /// When it counts; all must hold.
    pub tests: Vec<Test>,
    /// The stack is wanted too.
    pub stack: bool,
    /// What passing it means for whether the thread is followed.
    pub follow: Follow,
}

/// Whether the scheduler's doings with a thread are told from a point on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// As before.
    #[default]
    AsItIs,
    /// A wait begins.
    Begins,
    /// It ends. A thread that passes here and is in no wait writes no record.
    Ends,
    /// A stage is carried out: a thread that does so outside a wait is followed for good.
    Stage,
}

impl PointSpec {
    /// What a hit costs; `None` for stores and tracepoints.
    pub fn trap(&self) -> Option<TrapCost> {
        match &self.attach {
            Attach::At { place, .. } | Attach::Return(place) => Some(place.trap),
            _ => None,
        }
    }
}
