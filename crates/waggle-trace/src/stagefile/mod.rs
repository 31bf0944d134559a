//! Which wait is broken down, and into which stages? A pipeline as a file says it, checked.
//!
//! A stage file is TOML: a wait with its start, its ends and the value it waits for, and stages,
//! each a place that other threads pass with a value of their own. The built-in ones are such files
//! too (`builtin/`). Neighbour: [`crate::resolve`] finds the places in a process.
//!
//! Invariant: what is here is well-formed; whether the places exist, only a process can tell.

use std::fmt;

mod builtin;
mod file;
mod text;

pub use builtin::{builtin, builtin_names, from_static_probes};
pub use file::{StageFileError, parse};

/// A pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// What it shows, a line.
    pub about: String,
    /// The process is one for it only if these hold there.
    pub when: Vec<Condition>,
    /// The wait.
    pub wait: Wait,
    /// The stages, in order.
    pub stages: Vec<Stage>,
}

/// The wait that is broken down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Where it begins.
    pub start: Place,
    /// What it waits for.
    pub key: Expression,
    /// A second value, kept with the wait: how far the last stage had come when it began, if that
    /// can be read; at least the key means that there was nothing to wait for.
    pub second: Option<Expression>,
    /// It counts only if all of these hold at its start.
    pub tests: Vec<Condition>,
    /// Where it ends: the same thread's next passing of one of these that holds its condition.
    pub ends: Vec<(Place, Option<Condition>)>,
    /// The stack at the start is wanted: who waits, by caller.
    pub stack: bool,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Where it is seen to be reached.
    pub at: Sighting,
    /// Which sighting of it belongs to a wait.
    pub rule: Rule,
    /// Where a thread takes up the batch that this stage then completes, with a value that goes by
    /// the same rule: what was before that was spent behind the batch before. May be empty.
    pub begins: Vec<(Place, Expression)>,
}

/// How a stage is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// A thread passes one of these places, with this value there.
    Places(Vec<(Place, Expression)>),
    /// The last wake-up of the waiter within the wait.
    Waking,
    /// The waiter takes a processor after that.
    SwitchIn,
}

/// Which sighting of a stage belongs to a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rule {
    /// The first whose value is at least the wait's key. The value only grows; it may have been
    /// reached before the wait began.
    #[default]
    AtLeast,
    /// The first since the wait began whose value is the key.
    Equal,
    /// As `Equal`; the value is an address, and is shown as one.
    SamePointer,
    /// The first since the stage before by the waiter itself.
    SameThread,
    /// The first since the stage before, whoever it is and whatever the value: what serves all who
    /// wait (`epoch`).
    Epoch,
    /// The first since the stage before by the thread that carried out that stage: the leader of
    /// a group goes on (`same-leader`).
    SameLeader,
}

/// A place, as a stage file names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// `fn:NAME` or `fn:NAME:ret`: a function's entry or return. The name is mangled, or demangled
    /// with or without its arguments.
    Function {
        /// The name.
        name: String,
        /// The return instead of the entry.
        is_return: bool,
    },
    /// `fde:0x1234`: the function that begins at this address of the file, exported or not.
    Start {
        /// The address.
        address: u64,
        /// The return instead of the entry.
        is_return: bool,
    },
    /// `off:0x1234=e8001122`: an instruction at this offset in the file, with its bytes.
    Offset {
        /// Bytes from the file's start.
        offset: u64,
        /// What has to stand there.
        bytes: Vec<u8>,
    },
    /// `usdt:PROVIDER:NAME`: a static probe.
    Static {
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
    },
    /// `watch:EXPRESSION`: a store to the word at this address.
    Watch(Expression),
    /// `tracepoint:CATEGORY:NAME`, of the kernel.
    Tracepoint {
        /// Its category.
        category: String,
        /// Its name.
        name: String,
    },
    /// `known:NAME`: a place that waggle finds by decoding the binary.
    Known(String),
}

/// A number, as a stage file says where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expression {
    /// A constant.
    Number(u64),
    /// `arg1` to `arg12`: an argument, at an entry or a static probe.
    Argument(u8),
    /// `ret`: what the function returned.
    Return,
    /// `new`: the watched word after the store.
    New,
    /// `%rdi`: a register, by its number.
    Register(u8),
    /// `field(NAME)`: a field of a tracepoint.
    Field(String),
    /// `&NAME`: the address of an exported object.
    Symbol(String),
    /// `tls`: the thread pointer.
    ThreadPointer,
    /// `$NAME`: an offset that waggle finds by decoding the binary.
    Known(String),
    /// A sum.
    Add(Box<Expression>, Box<Expression>),
    /// A difference; the second is a constant.
    Subtract(Box<Expression>, Box<Expression>),
    /// `arg3:u8`: the low bytes of what there is.
    Low {
        /// 1, 2 or 4.
        bytes: u8,
        /// The sign is extended.
        signed: bool,
        /// Of what.
        of: Box<Expression>,
    },
    /// `u64(...)`, `i32(...)`: what stands at an address.
    Load {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// The sign is extended.
        signed: bool,
        /// Where.
        at: Box<Expression>,
    },
}

/// A comparison, as a stage file says it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// What is compared.
    pub left: Expression,
    /// How.
    pub comparison: Comparison,
    /// With what: a number or an address.
    pub right: Expression,
}

/// How numbers without sign are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `>=`
    AtLeast,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ret = |is_return: &bool| if *is_return { ":ret" } else { "" };
        match self {
            Self::Function { name, is_return } => write!(f, "fn:{name}{}", ret(is_return)),
            Self::Start { address, is_return } => write!(f, "fde:{address:#x}{}", ret(is_return)),
            Self::Offset { offset, .. } => write!(f, "off:{offset:#x}"),
            Self::Static { provider, name } => write!(f, "usdt:{provider}:{name}"),
            Self::Watch(_) => f.write_str("watch:"),
            Self::Tracepoint { category, name } => write!(f, "tracepoint:{category}:{name}"),
            Self::Known(name) => write!(f, "known:{name}"),
        }
    }
}
