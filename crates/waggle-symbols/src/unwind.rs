//! How does one get from a place in a file's code to the place that called it, and where does each
//! of its functions begin?
//!
//! Both stand in `.eh_frame`, which stripped files keep, too. The kernel half of `waggle-probes`
//! walks stacks by these rows where code keeps no frame pointers (the C library, where threads
//! wait), and by frame pointers elsewhere. Neighbour: `elf` reads symbols.
//!
//! Invariant: what the rows cannot express is a row that says so; it is never left out, since its
//! neighbour's would be taken for it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EhFrame, EhFrameOffset, EndianSlice,
    LittleEndian, Reader, RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment, ReadRef};
use waggle_foreign::FileBytes;

/// Largest `.eh_frame` that is read, bytes: MySQL has 3.3 MB, a browser 20.
const FRAMES_BYTES_MAX: u64 = 32 << 20;
/// Most descriptions that functions have in common; MariaDB has 4, the C library 3.
const COMMON_MAX: usize = 512;
/// Longest of these, bytes: each function's rows begin with it. Compilers' have 20 to 40.
const COMMON_BYTES_MAX: usize = 256;

/// Why a file has no rows.
#[derive(Debug, thiserror::Error)]
pub enum UnwindError {
    /// The file is no ELF file, or damaged.
    #[error("no usable ELF file: {0}")]
    Malformed(String),
    /// The file describes no frames.
    #[error("it has no .eh_frame")]
    NoFrames,
}

/// How the caller is found from an address on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nothing is said: follow the frame pointer.
    Chain,
    /// The frame ends this many bytes above the stack pointer.
    Stack(i32),
    /// The frame ends this many bytes above the frame pointer.
    Frame(i32),
    /// A stub of the procedure linkage table: 8 bytes above the stack pointer, or 16 in its end.
    Stub,
    /// The kernel called a signal handler here: all registers stand above the stack pointer.
    Signal,
    /// Nobody called: a thread begins here.
    End,
    /// By a rule that is not understood here.
    Unknown,
}

/// From `address` to the next row's, the caller is found by `rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// First address, in the file's own address space.
    pub address: u32,
    /// Where the frame ends; the return address stands right below.
    pub rule: Rule,
    /// Where the caller's frame pointer stands, bytes from the frame's end; 0 if it is still in
    /// its register.
    pub saved_frame_pointer: i16,
}

/// What a file's `.eh_frame` tells.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    /// By address; neighbours differ.
    pub rows: Vec<Row>,
    /// First and past-the-last address of each function, by address.
    pub functions: Vec<(u64, u64)>,
    /// True if there were more than `rows_max` rows; none are kept then.
    pub too_many_rows: bool,
    segments: Vec<Segment>,
}

/// A piece of the file and where it is loaded.
#[derive(Debug, Clone, Copy)]
struct Segment {
    file_offset: u64,
    size: u64,
    address: u64,
}

impl Frames {
    /// Reads the frames of a file. With more than `rows_max` rows, only the functions are kept.
    ///
    /// # Errors
    /// The file is no ELF file, is damaged, or describes no frames.
    pub fn read(file: &File, rows_max: usize) -> Result<Self, UnwindError> {
        let bytes = FileBytes::new(file).map_err(|e| damaged(&e))?;
        let elf = bytes.elf().map_err(UnwindError::Malformed)?;
        Self::parse(&elf, rows_max)
    }

    fn parse<'a, R: ReadRef<'a>>(
        elf: &object::File<'a, R>,
        rows_max: usize,
    ) -> Result<Self, UnwindError> {
        let section = elf
            .section_by_name(".eh_frame")
            .ok_or(UnwindError::NoFrames)?;
        if section.size() > FRAMES_BYTES_MAX {
            let why = format!("its .eh_frame is larger than {FRAMES_BYTES_MAX} bytes");
            return Err(UnwindError::Malformed(why));
        }
        let bytes = section.data().map_err(|e| damaged(&e))?;
        let address = |name| elf.section_by_name(name).map_or(0, |s| s.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address())
            .set_text(address(".text"))
            .set_got(address(".got"));
        let segments = elf.segments().map(|segment| {
            let (file_offset, size) = segment.file_range();
            Segment {
                file_offset,
                size,
                address: segment.address(),
            }
        });
        Ok(Self {
            segments: segments.collect(),
            ..Self::of_section(bytes, &bases, rows_max)?
        })
    }

    /// The address, in the file's own address space, of what stands at this offset of it.
    pub fn address_at(&self, file_offset: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .find(|s| file_offset >= s.file_offset && file_offset - s.file_offset < s.size)?;
        segment
            .address
            .checked_add(file_offset - segment.file_offset)
    }

    fn of_section(
        bytes: &[u8],
        bases: &BaseAddresses,
        rows_max: usize,
    ) -> Result<Self, UnwindError> {
        let section = EhFrame::new(bytes, LittleEndian);
        let mut context = UnwindContext::new();
        let mut rows = BTreeMap::new();
        let mut functions = Vec::new();
        let mut too_many_rows = false;
        let mut entries = section.entries(bases);
        let mut common = Common::default();
        while let Some(entry) = entries.next().map_err(|e| damaged(&e))? {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let cie = |section: &_, bases: &_, at| common.get(section, bases, at);
            let Ok(function) = partial.parse(cie) else {
                continue;
            };
            let (start, end) = (function.initial_address(), function.end_address());
            if start >= end || end > u64::from(u32::MAX) {
                continue;
            }
            functions.push((start, end));
            if too_many_rows {
                continue;
            }
            add_rows(
                &mut rows,
                rows_max,
                &section,
                bases,
                &mut context,
                &function,
            );
            too_many_rows = rows.len() > rows_max;
        }
        functions.sort_unstable();
        functions.dedup();
        if too_many_rows {
            rows.clear();
        }
        let rows = merged(&rows, &functions);
        Ok(Self {
            too_many_rows,
            rows,
            functions,
            segments: Vec::new(),
        })
    }

    /// The function that the address is in.
    pub fn function_of(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.functions.partition_point(|f| f.0 <= address);
        let (start, end) = *self.functions.get(after.checked_sub(1)?)?;
        (address < end).then_some((start, end))
    }
}

fn damaged(error: &dyn std::fmt::Display) -> UnwindError {
    UnwindError::Malformed(error.to_string())
}

/// What functions have in common, each read once, however many point to it.
#[derive(Default)]
struct Common<'a>(HashMap<usize, gimli::Result<CommonInformationEntry<Slice<'a>>>>);

impl<'a> Common<'a> {
    fn get(
        &mut self,
        section: &EhFrame<Slice<'a>>,
        bases: &BaseAddresses,
        at: EhFrameOffset,
    ) -> gimli::Result<CommonInformationEntry<Slice<'a>>> {
        let refused = Err(gimli::Error::CfiInstructionInInvalidContext);
        if self.0.len() >= COMMON_MAX && !self.0.contains_key(&at.0) {
            return refused;
        }
        let found = self.0.entry(at.0);
        let found = found.or_insert_with(|| match section.cie_from_offset(bases, at) {
            Ok(common) if common.entry_len() > COMMON_BYTES_MAX => refused,
            other => other,
        });
        found.clone()
    }
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Rows = BTreeMap<u32, (Rule, i16)>;

/// Adds a function's rows, up to one more than `rows_max` in all.
fn add_rows<'a>(
    rows: &mut Rows,
    rows_max: usize,
    section: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    function: &gimli::FrameDescriptionEntry<Slice<'a>>,
) {
    let unknown = (Rule::Unknown, 0);
    let start = u32::try_from(function.initial_address()).unwrap_or(u32::MAX);
    let Ok(mut table) = function.rows(section, bases, context) else {
        rows.insert(start, unknown);
        return;
    };
    while rows.len() <= rows_max {
        match table.next_row() {
            Ok(Some(row)) => {
                let saved = saved_frame_pointer(row.register(X86_64::RBP));
                let ends = row.register(X86_64::RA) == Some(RegisterRule::Undefined);
                let rule = if ends {
                    Rule::End
                } else {
                    rule_of(row.cfa(), section)
                };
                let address = u32::try_from(row.start_address()).unwrap_or(u32::MAX);
                let row = match (rule, saved) {
                    (Rule::Signal | Rule::End, _) => (rule, 0),
                    (rule, Some(saved)) => (rule, saved),
                    (_, None) => unknown,
                };
                rows.insert(address, row);
            }
            Ok(None) => return,
            Err(_) => {
                rows.insert(start, unknown);
                return;
            }
        }
    }
}

/// Bytes from the frame's end; `None` if the rule is not understood.
fn saved_frame_pointer(rule: Option<RegisterRule<usize>>) -> Option<i16> {
    match rule {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(0),
        Some(RegisterRule::Offset(at)) => i16::try_from(at).ok(),
        Some(_) => None,
    }
}

fn rule_of(rule: &CfaRule<usize>, section: &EhFrame<Slice<'_>>) -> Rule {
    match rule {
        CfaRule::RegisterAndOffset { register, offset } => {
            match (*register, i32::try_from(*offset)) {
                (X86_64::RSP, Ok(offset)) => Rule::Stack(offset),
                (X86_64::RBP, Ok(offset)) => Rule::Frame(offset),
                _ => Rule::Unknown,
            }
        }
        CfaRule::Expression(expression) => {
            let bytes = expression
                .get(section)
                .ok()
                .and_then(|e| e.0.to_slice().ok().map(std::borrow::Cow::into_owned));
            bytes.map_or(Rule::Unknown, |bytes| expressed(&bytes))
        }
    }
}

/// The two expressions that linkers and C libraries write.
fn expressed(bytes: &[u8]) -> Rule {
    // rsp + 8 + 8 if (rip & 15) >= 11 (10 where the stub begins with endbr64).
    const STUB: [u8; 11] = [
        0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22,
    ];
    // *(rsp + 160)
    const SIGNAL: [u8; 4] = [0x77, 0xa0, 0x01, 0x06];
    match bytes {
        b if b == SIGNAL => Rule::Signal,
        b if b.len() == STUB.len() && b[..6] == STUB[..6] && b[7..] == STUB[7..] => Rule::Stub,
        _ => Rule::Unknown,
    }
}

/// The rows with a [`Rule::Chain`] behind each function that no other follows, and without those
/// that say the same as the one before.
fn merged(rows: &Rows, functions: &[(u64, u64)]) -> Vec<Row> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut all = rows.clone();
    let mut covered = 0;
    for (at, (_, end)) in functions.iter().enumerate() {
        covered = covered.max(*end);
        let next = functions.get(at + 1).map_or(u64::MAX, |f| f.0);
        if next > covered
            && let Ok(end) = u32::try_from(covered)
        {
            all.entry(end).or_insert((Rule::Chain, 0));
        }
    }
    let mut kept: Vec<Row> = Vec::with_capacity(all.len());
    for (address, (rule, saved_frame_pointer)) in all {
        let same = kept
            .last()
            .is_some_and(|r| r.rule == rule && r.saved_frame_pointer == saved_frame_pointer);
        if !same {
            kept.push(Row {
                address,
                rule,
                saved_frame_pointer,
            });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library this test runs with.
    fn libc_file() -> File {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|l| l.contains("libc.so")).unwrap();
        File::open(line.split_whitespace().last().unwrap()).unwrap()
    }

    #[test]
    fn the_c_library_is_described_whole_and_in_order() {
        let frames = Frames::read(&libc_file(), 1 << 20).unwrap();
        assert!(frames.rows.len() > 1000, "{}", frames.rows.len());
        assert!(frames.rows.is_sorted_by(|a, b| a.address < b.address));
        assert!(frames.functions.is_sorted());
        let has = |rule: fn(&Rule) -> bool| frames.rows.iter().any(|r| rule(&r.rule));
        assert!(has(|r| *r == Rule::End), "threads begin in the C library");
        assert!(has(|r| *r == Rule::Signal), "handlers return through it");
        assert!(has(|r| matches!(r, Rule::Stack(8))), "a function's entry");
        let unknown = frames.rows.iter().filter(|r| r.rule == Rule::Unknown);
        let unknown = unknown.count();
        assert!(unknown * 50 < frames.rows.len(), "{unknown} rows unknown");
        let (start, end) = frames.functions[frames.functions.len() / 2];
        assert_eq!(frames.function_of(start), Some((start, end)));
        assert_eq!(frames.function_of(end - 1), Some((start, end)));
        println!(
            "{} rows, {} functions, {unknown} unknown",
            frames.rows.len(),
            frames.functions.len()
        );
    }

    #[test]
    fn a_limit_keeps_the_functions_only() {
        let frames = Frames::read(&libc_file(), 100).unwrap();
        assert!(frames.too_many_rows && frames.rows.is_empty());
        assert!(frames.functions.len() > 1000);
    }

    #[test]
    fn a_gap_between_functions_is_a_row_that_says_nothing() {
        let rows = Rows::from([
            (0x10, (Rule::Stack(8), 0)),
            (0x20, (Rule::Stack(8), 0)),
            (0x40, (Rule::Frame(16), -16)),
        ]);
        let merged = merged(&rows, &[(0x10, 0x20), (0x20, 0x30), (0x40, 0x50)]);
        let short: Vec<_> = merged.iter().map(|r| (r.address, r.rule)).collect();
        assert_eq!(
            short,
            [
                (0x10, Rule::Stack(8)),
                (0x30, Rule::Chain),
                (0x40, Rule::Frame(16)),
                (0x50, Rule::Chain)
            ]
        );
    }

    #[test]
    fn damaged_frames_end_in_an_error_or_in_fewer_rows_never_in_a_panic() {
        use std::io::Read;
        let mut whole = Vec::new();
        libc_file().read_to_end(&mut whole).unwrap();
        let elf = object::File::parse(&*whole).unwrap();
        let section = elf.section_by_name(".eh_frame").unwrap();
        let bases = BaseAddresses::default().set_eh_frame(section.address());
        let good = &section.data().unwrap()[..8192];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 8).unwrap_or(0)
        };
        for _ in 0..400 {
            let mut bytes = good.to_vec();
            for _ in 0..1 + random() % 8 {
                let at = random() % bytes.len();
                bytes[at] = u8::try_from(random() & 0xff).unwrap_or(0);
            }
            bytes.truncate(random() % (bytes.len() + 1));
            if let Ok(frames) = Frames::of_section(&bytes, &bases, 4096) {
                assert!(frames.rows.is_sorted_by(|a, b| a.address < b.address));
            }
        }
    }
}
