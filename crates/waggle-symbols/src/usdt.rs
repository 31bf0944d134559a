//! Which static probes does a binary carry, where, and where are their arguments?
//!
//! Programs built with SystemTap's or folly's macros say so in notes (`.note.stapsdt`): provider,
//! name, address, an optional counter that switches the probe on, and for each argument its size
//! and where it stands. Neighbour: [`boundary`], which says whether a probe may
//! stand at the address.
//!
//! A trap: folly's macro marks every argument as signed, whatever its type. So an argument's bytes
//! are taken as they are, without a sign, unless the reader asks for one.
//!
//! Invariant: what a note says is believed only as far as it fits the file.

use crate::boundary::{self, BoundaryError};
use crate::function::Program;
use crate::site::{Register, Site};

/// Type of the notes.
const NOTE_TYPE: u32 = 3;
/// Most probes read from one file.
const PROBES_MAX: usize = 65536;
/// Most arguments of a probe; SystemTap's macros take twelve.
const ARGUMENTS_MAX: usize = 16;
/// Longest text of a note, bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Where an argument stands when the probe is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// It is this number.
    Constant(i64),
    /// It is in a register.
    Register(Register),
    /// It is in memory: base, offset, and perhaps an index with its scale.
    Memory {
        /// The base.
        base: Register,
        /// Added to it.
        offset: i64,
        /// Another register and what it is multiplied by (1, 2, 4 or 8).
        index: Option<(Register, u8)>,
    },
}

/// An argument of a static probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Marked as signed; folly marks all.
    pub signed: bool,
    /// Where it stands; else why that cannot be read.
    pub operand: Result<Operand, String>,
}

/// One place of a static probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Who provides it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Address of the place, in the file's own address space.
    pub address: u64,
    /// Address of its counter; 0: it has none.
    pub semaphore: u64,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
}

impl Probe {
    /// The instruction where it stands.
    ///
    /// # Errors
    /// The address is no instruction of the file.
    pub fn site(&self, program: &Program) -> Result<Site, BoundaryError> {
        let function = program.around(self.address)?;
        boundary::at_address(&function, self.address)
    }

    /// Offset in the file of its counter, if it has one that is in the file.
    pub fn semaphore_offset(&self, program: &Program) -> Option<u64> {
        (self.semaphore != 0).then(|| program.file_offset(self.semaphore))?
    }
}

/// Every static probe of a binary, in the order of its notes.
pub fn probes(program: &Program) -> Vec<Probe> {
    let all = program.notes().iter();
    let found = all.flat_map(|(notes, base)| parse(notes, *base));
    found.take(PROBES_MAX).collect()
}

/// The notes of one section; `base` is where the file really has `.stapsdt.base`.
pub fn parse(notes: &[u8], base: Option<u64>) -> Vec<Probe> {
    let mut rest = notes;
    let mut found = Vec::new();
    while found.len() < PROBES_MAX {
        let Some((note, after)) = next_note(rest) else {
            break;
        };
        rest = after;
        if note.kind == NOTE_TYPE
            && note.name == b"stapsdt\0"
            && let Some(probe) = probe(note.description, base)
        {
            found.push(probe);
        }
    }
    found
}

struct Note<'a> {
    kind: u32,
    name: &'a [u8],
    description: &'a [u8],
}

fn next_note(bytes: &[u8]) -> Option<(Note<'_>, &[u8])> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(word))
    };
    let padded = |length: u32| usize::try_from(length).ok()?.checked_next_multiple_of(4);
    let (name_bytes, description_bytes, kind) = (word(0)?, word(4)?, word(8)?);
    let name = bytes.get(12..)?;
    let description = name.get(padded(name_bytes)?..)?;
    let note = Note {
        kind,
        name: name.get(..usize::try_from(name_bytes).ok()?)?,
        description: description.get(..usize::try_from(description_bytes).ok()?)?,
    };
    // The last one's padding may be missing.
    let after = description.get(padded(description_bytes)?..);
    Some((note, after.unwrap_or_default()))
}

fn probe(description: &[u8], base: Option<u64>) -> Option<Probe> {
    let word = |at: usize| {
        let word = description.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(word))
    };
    let (address, noted_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    // A prelinked file was moved after the note was written.
    let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
    let mut texts = description.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(std::str::from_utf8(texts.next()?).ok()?.to_owned());
    let (provider, name, arguments) = (text()?, text()?, text()?);
    if provider.is_empty() || name.is_empty() || description.len() > TEXT_BYTES_MAX {
        return None;
    }
    Some(Probe {
        provider,
        name,
        address: address.wrapping_add(moved),
        semaphore: match semaphore {
            0 => 0,
            address => address.wrapping_add(moved),
        },
        arguments: arguments
            .split_ascii_whitespace()
            .take(ARGUMENTS_MAX)
            .map(argument)
            .collect(),
    })
}

/// One argument, such as `-4@%eax`, `8@-16(%rbp)`, `8@(%rax,%rbx,8)` or `4@$5`.
fn argument(text: &str) -> Argument {
    let refused = |why: &str| Argument {
        bytes: 8,
        signed: false,
        operand: Err(format!("{why}: {text}")),
    };
    let Some((size, place)) = text.split_once('@') else {
        return refused("no argument with a size");
    };
    if size.ends_with('f') {
        return refused("a floating-point argument");
    }
    let Ok(size) = size.parse::<i8>() else {
        return refused("no size of an argument");
    };
    if !matches!(size.unsigned_abs(), 1 | 2 | 4 | 8) {
        return refused("an argument of an odd size");
    }
    Argument {
        bytes: size.unsigned_abs(),
        signed: size < 0,
        operand: operand(place),
    }
}

fn operand(place: &str) -> Result<Operand, String> {
    let refused = || format!("an argument at {place} cannot be read");
    if let Some(number) = place.strip_prefix('$') {
        return number.parse().map(Operand::Constant).map_err(|_| refused());
    }
    if let Some(name) = place.strip_prefix('%') {
        return register(name).map(Operand::Register).ok_or_else(refused);
    }
    let (offset, inner) = place.split_once('(').ok_or_else(refused)?;
    let inner = inner.strip_suffix(')').ok_or_else(refused)?;
    let offset = match offset {
        "" => 0,
        number => number.parse().map_err(|_| refused())?,
    };
    let mut parts = inner.split(',');
    let part = |text: Option<&str>| register(text?.strip_prefix('%')?);
    let base = part(parts.next()).ok_or_else(refused)?;
    let index = match parts.next() {
        None => None,
        Some(name) => {
            let index = part(Some(name)).ok_or_else(refused)?;
            let scale = parts.next().unwrap_or("1").parse::<u8>();
            let scale = scale.ok().filter(|s| matches!(s, 1 | 2 | 4 | 8));
            Some((index, scale.ok_or_else(refused)?))
        }
    };
    match parts.next() {
        None => Ok(Operand::Memory {
            base,
            offset,
            index,
        }),
        Some(_) => Err(refused()),
    }
}

/// A general register by any of its names. The second byte of a register (`%ah`) is not one: what
/// is read begins at the lowest.
pub fn register(name: &str) -> Option<Register> {
    const OLD: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    let found = |at: usize| u8::try_from(at).ok().map(Register);
    if let Some(number) = name.strip_prefix('r') {
        let number = number.trim_end_matches(['d', 'w', 'b']);
        if let Ok(number) = number.parse::<usize>() {
            return (8..16).contains(&number).then(|| found(number))?;
        }
    }
    let whole = name.strip_prefix(['r', 'e']).unwrap_or(name);
    if let Some(at) = OLD.iter().position(|old| *old == whole) {
        return found(at);
    }
    // `al`, `sil`.
    let low = name.strip_suffix('l')?;
    let is_low_of = |old: &&str| *old == low || old.strip_suffix('x') == Some(low);
    OLD.iter().position(is_low_of).and_then(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(provider: &str, name: &str, arguments: &str) -> Vec<u8> {
        let mut description = Vec::new();
        for word in [0x1010u64, 0x3000, 0x4002] {
            description.extend(word.to_le_bytes());
        }
        for text in [provider, name, arguments] {
            description.extend(text.as_bytes());
            description.push(0);
        }
        let mut note = Vec::new();
        for word in [8, u32::try_from(description.len()).unwrap(), 3] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"stapsdt\0");
        note.extend(&description);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_are_read_one_after_the_other() {
        let mut notes = note("wakeup", "wait_start", "-8@%rax");
        notes.extend(note("wakeup", "1", "8@-16(%rbp) -4@$-5 4@8(%rcx,%r9,4)"));
        let found = parse(&notes, Some(0x3100));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].address, 0x1110);
        assert_eq!(found[0].semaphore, 0x4102);
        assert_eq!(
            (&found[1].provider[..], &found[1].name[..]),
            ("wakeup", "1")
        );
        let operands: Vec<_> = found[1]
            .arguments
            .iter()
            .map(|a| a.operand.clone().unwrap())
            .collect();
        assert_eq!(
            operands,
            [
                Operand::Memory {
                    base: Register(5),
                    offset: -16,
                    index: None
                },
                Operand::Constant(-5),
                Operand::Memory {
                    base: Register(1),
                    offset: 8,
                    index: Some((Register(9), 4))
                },
            ]
        );
    }

    #[test]
    fn registers_are_known_by_all_their_names() {
        let names = [
            ("rax", 0),
            ("eax", 0),
            ("ax", 0),
            ("al", 0),
            ("cl", 1),
            ("esi", 6),
            ("sil", 6),
            ("dil", 7),
            ("bpl", 5),
            ("r8", 8),
            ("r8d", 8),
            ("r15w", 15),
            ("r10b", 10),
        ];
        for (name, number) in names {
            assert_eq!(register(name), Some(Register(number)), "{name}");
        }
        for name in ["ah", "xmm0", "rip", "r16", "r", "", "l", "r7d"] {
            assert_eq!(register(name), None, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_text() {
        for text in [
            "8f@%xmm0",
            "8@foo(%rip)",
            "8@",
            "3@%rax",
            "8@(%rax,%rbx,3)",
            "8@8(%rax",
            "",
        ] {
            let refused = argument(text).operand.unwrap_err();
            assert!(refused.contains(text) || refused.contains(text.trim_start_matches("8@")));
        }
    }

    #[test]
    fn damaged_notes_never_panic() {
        let mut notes = note("wakeup", "wait_start", "-8@%rax 8@-16(%rbp)");
        notes.extend(note("wakeup", "wait_end", "4@$5"));
        let mut seed = 0x5eed_u64;
        for _ in 0..20_000 {
            let mut damaged = notes.clone();
            for _ in 0..3 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let at = usize::try_from(seed >> 8).unwrap_or(0) % damaged.len();
                damaged[at] = seed.to_le_bytes()[0];
            }
            let length = usize::try_from(seed >> 20).unwrap_or(0) % (damaged.len() + 1);
            assert!(parse(&damaged, None).len() <= 2);
            assert!(parse(&damaged[..length], Some(seed)).len() <= 2);
        }
    }
}
