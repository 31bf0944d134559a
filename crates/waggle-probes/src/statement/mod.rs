//! What did each statement do? One uprobe at the end of every statement.
//!
//! [`StatementProbe::load`] makes the kernel half fit one server build, `attach` places it in one
//! process, [`Events`] reads what it saw. Neighbours: `waggle_symbols` found the site and the
//! offsets; the reader of the events is the agent.
//!
//! Invariant: captured + lost = executed. The kernel half counts every hit; a statement for which
//! the ring buffer had no room is counted too.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/statement.skel.rs"));
}

mod cost;
mod fit;

pub use cost::trap_ns;
pub use fit::Fit;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramAttachType, UprobeMultiOpts, UprobeOpts,
};
use waggle_symbols::{FieldName, Site, StatementLayout};

use crate::kernel;
use crate::ring::{Ring, ring_bytes};
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/statement.bpf.o"));

/// Most bytes of text one event carries.
pub const TEXT_BYTES_MAX: u32 = 8192;

/// Why a probe could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused the program or a map.
    #[error("the kernel refused the statement probe: {source}{}", last_lines(.messages))]
    Load {
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// libbpf's messages, the verifier's log among them.
        messages: String,
    },
    /// The kernel refused the attachment.
    #[error("cannot attach at {site} of {path}: {source}")]
    Attach {
        /// The binary.
        path: PathBuf,
        /// Function and offset.
        site: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The file does not hold what was decoded.
    #[error(
        "{path} changed since it was read: at {offset:#x} it holds {found:02x?}, \
         not {expected:02x?}; try again"
    )]
    BytesDiffer {
        /// The binary.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Bytes now.
        found: Vec<u8>,
        /// Bytes decoded.
        expected: Vec<u8>,
    },
    /// The ring buffer could not be mapped, or the binary not read.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

fn refused(source: libbpf_rs::Error) -> ProbeError {
    ProbeError::Load {
        source,
        messages: kernel::take_messages(),
    }
}

/// The end of libbpf's messages, where the cause stands.
fn last_lines(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(12)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}

/// Which program an attachment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Capture the statement.
    Capture,
    /// Return at once: the price of the trap alone.
    Empty,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Capture => "statement_end",
            Self::Empty => "statement_empty",
        }
    }
}

/// How a probe is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Most text to copy of one statement, bytes; at most [`TEXT_BYTES_MAX`].
    pub text_bytes_max: u32,
    /// Room between kernel and agent, bytes; rounded up to a power of two.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            text_bytes_max: 2048,
            ring_bytes: 8 << 20,
        }
    }
}

/// Sums of the kernel half's counters over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements that ended while the probe was attached.
    pub hits: u64,
    /// Of these, lost because the ring buffer was full.
    pub ring_full: u64,
}

/// The loaded probe of one server process.
#[derive(Debug)]
pub struct StatementProbe {
    // Dropped first: a detached program runs no more.
    link: Option<Link>,
    object: Object,
    site: Site,
}

impl StatementProbe {
    /// Loads the kernel half for one build. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses the program (rights, lockdown, age).
    pub fn load(
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
    ) -> Result<Self, ProbeError> {
        kernel::collect_messages();
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(refused)?;
        let config = config(layout, site, options);
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".rodata") {
                set_config(&mut map, &config);
            } else if name == "events" {
                map.set_max_entries(ring_bytes(options.ring_bytes))
                    .map_err(refused)?;
            }
        }
        if kernel::has_uprobe_multi() {
            for mut program in open.progs_mut() {
                program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            }
        }
        let object = open.load().map_err(refused)?;
        Ok(Self {
            link: None,
            object,
            site: site.clone(),
        })
    }

    /// Attaches `program` in process `pid`, whose executable is `binary`; a former attachment is
    /// removed first. The bytes at the site are compared with those that were decoded.
    ///
    /// # Errors
    /// The bytes differ, or the kernel refuses.
    pub fn attach(&mut self, pid: i32, binary: &Path, program: Program) -> Result<(), ProbeError> {
        self.detach();
        let link = self.link_at(pid, binary, program, &self.site)?;
        self.link = Some(link);
        Ok(())
    }

    fn link_at(
        &self,
        pid: i32,
        binary: &Path,
        program: Program,
        site: &Site,
    ) -> Result<Link, ProbeError> {
        check_bytes(binary, site)?;
        let offset = usize::try_from(site.file_offset).unwrap_or(usize::MAX);
        let chosen = self
            .object
            .progs_mut()
            .find(|p| p.name() == program.name())
            .expect("both programs are in the object");
        let link = if kernel::has_uprobe_multi() {
            let options = UprobeMultiOpts {
                offsets: vec![offset],
                ..Default::default()
            };
            chosen.attach_uprobe_multi_with_opts(pid, binary, "", options)
        } else {
            chosen.attach_uprobe_with_opts(pid, binary, offset, UprobeOpts::default())
        };
        link.map_err(|source| ProbeError::Attach {
            path: binary.to_path_buf(),
            site: format!("{}+{:#x}", site.function, site.function_offset),
            source,
        })
    }

    /// Removes the probe from the process; harmless if it is not attached.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// True while attached.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// The site it attaches at.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Opens the ring buffer for reading.
    ///
    /// # Errors
    /// The ring buffer cannot be mapped.
    pub fn events(&self) -> Result<Events, ProbeError> {
        let map = self.map("events");
        let size = map.max_entries();
        let ring = Ring::new(map.as_fd(), size).map_err(|source| ProbeError::Io {
            doing: "mapping the ring buffer".into(),
            source,
        })?;
        Ok(Events { ring })
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        let values = self
            .map("counters")
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?
            .unwrap_or_default();
        let mut sum = Counters::default();
        for value in values {
            let word = |at: usize| {
                value
                    .get(at..at + 8)
                    .map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap_or([0; 8])))
            };
            sum.hits += word(std::mem::offset_of!(types::statement_counters, hits));
            sum.ring_full += word(std::mem::offset_of!(types::statement_counters, ring_full));
        }
        Ok(sum)
    }

    /// Runs and total run time (ns) of the capturing program, as the kernel counted them while
    /// [`kernel::RunTimeStats`] was held.
    pub fn run_time(&self) -> Option<(u64, u64)> {
        let program = self
            .object
            .progs_mut()
            .find(|p| p.name() == Program::Capture.name())?;
        kernel::run_time(program.as_fd())
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object
            .maps()
            .find(|m| m.name() == name)
            .expect("the map is in the object")
    }
}

/// Compares the file's bytes at the site with those that were decoded.
fn check_bytes(binary: &Path, site: &Site) -> Result<(), ProbeError> {
    use std::os::unix::fs::FileExt;
    let mut found = vec![0; site.bytes.len()];
    std::fs::File::open(binary)
        .and_then(|file| file.read_exact_at(&mut found, site.file_offset))
        .map_err(|source| ProbeError::Io {
            doing: format!("reading {}", binary.display()),
            source,
        })?;
    if found == site.bytes {
        return Ok(());
    }
    Err(ProbeError::BytesDiffer {
        path: binary.to_path_buf(),
        offset: site.file_offset,
        found,
        expected: site.bytes.clone(),
    })
}

fn set_config(map: &mut libbpf_rs::OpenMapMut<'_>, config: &types::statement_config) {
    let at = std::mem::offset_of!(types::rodata, config);
    let size = size_of::<types::statement_config>();
    // SAFETY: the type is plain integers without padding, and lives for the whole copy.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(config).cast(), size) };
    let value = map
        .initial_value_mut()
        .expect("the object has read-only data");
    value[at..at + size].copy_from_slice(bytes);
}

fn config(layout: &StatementLayout, site: &Site, options: &Options) -> types::statement_config {
    let place = |name| layout.location(name);
    let offset = |name| place(name).map_or(-1, |l| l.offset.cast_signed());
    let pointer = |name| {
        place(name)
            .and_then(|l| l.derefs.first())
            .map_or(-1, |at| at.cast_signed())
    };
    types::statement_config {
        thd_register: u32::from(site.register.0),
        query: offset(FieldName::Query),
        database: offset(FieldName::Database),
        user_pointer: pointer(FieldName::User),
        user: offset(FieldName::User),
        user_length_follows: place(FieldName::User)
            .is_some_and(|l| l.length_follows)
            .into(),
        connection_id: offset(FieldName::ConnectionId),
        connection_id_width: place(FieldName::ConnectionId).map_or(8, |l| l.width.into()),
        start_time: offset(FieldName::StartTime),
        rows_sent: offset(FieldName::RowsSent),
        rows_examined: offset(FieldName::RowsExamined),
        error_pointer: pointer(FieldName::ErrorNumber),
        error_number: offset(FieldName::ErrorNumber),
        command: offset(FieldName::Command),
        text_max: options.text_bytes_max.clamp(64, TEXT_BYTES_MAX),
    }
}

/// The reading end of a probe's ring buffer.
#[derive(Debug)]
pub struct Events {
    ring: Ring,
}

impl Events {
    /// Lends every finished event to `each`, at most `limit`; returns how many.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(StatementEvent<'_>)) -> usize {
        self.ring.consume(limit, |record| {
            if let Some(event) = StatementEvent::parse(record) {
                each(event);
            }
        })
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }
}

/// One finished statement, lent from the ring buffer.
#[derive(Clone, Copy)]
pub struct StatementEvent<'a> {
    header: &'a types::statement_event,
    user: &'a [u8],
    database: &'a [u8],
    text: &'a [u8],
}

impl<'a> StatementEvent<'a> {
    fn parse(record: &'a [u8]) -> Option<Self> {
        let (header, rest) = record.split_at_checked(size_of::<types::statement_event>())?;
        let header = header.as_ptr().cast::<types::statement_event>();
        if !header.is_aligned() {
            return None;
        }
        // SAFETY: long enough (split above), aligned (checked), all bit patterns are valid.
        let header = unsafe { &*header };
        let (user, rest) = rest.split_at_checked(header.user_length.into())?;
        let (database, rest) = rest.split_at_checked(header.database_length.into())?;
        let text = rest.get(..usize::from(header.text_copied))?;
        Some(Self {
            header,
            user,
            database,
            text,
        })
    }

    /// When it ended, ns of the monotonic clock.
    pub fn time_ns(&self) -> u64 {
        self.header.time_ns
    }

    /// When it began, us on the server's clock; `None` if unknown or unreadable.
    pub fn start_us(&self) -> Option<u64> {
        (self.header.start_us != 0).then_some(self.header.start_us)
    }

    /// Connection id; 0 if unknown.
    pub fn connection_id(&self) -> u64 {
        self.header.connection_id
    }

    /// Rows sent to the client.
    pub fn rows_sent(&self) -> u64 {
        self.header.rows_sent
    }

    /// Rows examined.
    pub fn rows_examined(&self) -> u64 {
        self.header.rows_examined
    }

    /// The server's error number, 0 for none.
    pub fn error_number(&self) -> u32 {
        self.header.error_number
    }

    /// The protocol command (3: query, 23: execute, ...); 0 if unknown.
    pub fn command(&self) -> u32 {
        self.header.command
    }

    /// The statement's text as far as it was copied.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// True if only the beginning of the text was copied.
    pub fn is_truncated(&self) -> bool {
        self.header.text_length as usize > self.text.len()
    }

    /// User name.
    pub fn user(&self) -> &'a [u8] {
        self.user
    }

    /// Default database.
    pub fn database(&self) -> &'a [u8] {
        self.database
    }

    /// True if `field` could not be read (its page was not in memory, or the pointer was stale).
    pub fn is_unread(&self, field: FieldName) -> bool {
        let bit = FieldName::ALL
            .iter()
            .position(|f| *f == field)
            .unwrap_or(31);
        self.header.unread & (1 << bit) != 0
    }

    /// True if some field could not be read.
    pub fn has_unread(&self) -> bool {
        self.header.unread != 0
    }
}
