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
mod event;
mod fit;
mod plan;

pub use cost::trap_ns;
pub use event::{Events, StatementEvent, Times};
pub use fit::Fit;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramAttachType, UprobeMultiOpts, UprobeOpts,
};
use waggle_symbols::hook::{Hook, HookSite};
use waggle_symbols::{Site, StatementLayout};

use crate::kernel;
use crate::ring::{Ring, ring_bytes};
use crate::sched::SchedProbe;
use plan::Plan;
use skeleton::types;

/// The kernel half, compiled by the build script: without the breakdown of time, and with it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/statement.bpf.o"));
const OBJECT_TIMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/statement_times.bpf.o"));

/// Most bytes of text one event carries.
pub const TEXT_BYTES_MAX: u32 = 8192;

/// Why a probe could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused the program or a map.
    #[error("the kernel refused the statement probe: {source}{messages}")]
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

pub(crate) fn refused(source: libbpf_rs::Error) -> ProbeError {
    ProbeError::Load {
        source,
        messages: kernel::last_messages(),
    }
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
    /// Of these, without a breakdown of time, because their thread is not known.
    pub threads_unknown: u64,
    /// Of these, only counted, as [`StatementProbe::leave_out`] asked.
    pub left_out: u64,
}

/// What splitting a statement's time needs beside the statement's end.
#[derive(Debug, Clone, Copy)]
pub struct Breakdown<'a> {
    /// Tells when threads run; the server has to be watched there too.
    pub sched: &'a SchedProbe,
    /// Functions of the server that tell why a thread waits, as far as they were found; others
    /// than those are passed over.
    pub hooks: &'a [HookSite],
}

/// The program for a hook that tells why a thread waits.
fn program_for(hook: Hook) -> Option<&'static str> {
    match hook {
        Hook::WaitBegin => Some("wait_begin"),
        Hook::WaitEnd => Some("wait_end"),
        Hook::RedoWrite => Some("redo_entered"),
        Hook::BinlogCommit
        | Hook::BinlogFlush
        | Hook::BinlogSync
        | Hook::BinlogQueue
        | Hook::BinlogLead => Some("binary_log_entered"),
        _ => None,
    }
}

/// The loaded probe of one server process.
#[derive(Debug)]
pub struct StatementProbe {
    // Dropped first: a detached program runs no more.
    link: Option<Link>,
    wait_links: Vec<Link>,
    object: Object,
    site: Site,
    hooks: Vec<HookSite>,
    refused_hooks: Vec<(Hook, String)>,
    plan: Plan,
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
        Self::load_object(OBJECT, layout, site, options, None)
    }

    /// As [`load`](Self::load), with the breakdown of each statement's time.
    ///
    /// # Errors
    /// The kernel refuses the program; [`load`](Self::load) may still work.
    pub fn load_with_times(
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
        breakdown: &Breakdown<'_>,
    ) -> Result<Self, ProbeError> {
        Self::load_object(OBJECT_TIMES, layout, site, options, Some(breakdown))
    }

    fn load_object(
        object: &[u8],
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
        breakdown: Option<&Breakdown<'_>>,
    ) -> Result<Self, ProbeError> {
        kernel::collect_messages();
        let mut open = ObjectBuilder::default()
            .open_memory(object)
            .map_err(refused)?;
        let hooks = breakdown.map_or(&[][..], |b| b.hooks);
        let plan = Plan::of(layout);
        let config = plan.config(layout, site, hooks, options);
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".rodata") {
                set_config(&mut map, &config);
            } else if name == "events" {
                map.set_max_entries(ring_bytes(options.ring_bytes))
                    .map_err(refused)?;
            } else if name == "threads"
                && let Some(breakdown) = breakdown
            {
                let shared = breakdown.sched.with_threads(|fd| map.reuse_fd(fd));
                shared.map_err(refused)?;
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
            wait_links: Vec::new(),
            object,
            site: site.clone(),
            hooks: hooks.to_vec(),
            refused_hooks: Vec::new(),
            plan,
        })
    }

    /// Attaches `program` in process `pid`, whose executable is `binary`; a former attachment is
    /// removed first. The bytes at the site are compared with those that were decoded.
    ///
    /// # Errors
    /// The bytes differ, or the kernel refuses.
    pub fn attach(&mut self, pid: i32, binary: &Path, program: Program) -> Result<(), ProbeError> {
        self.detach();
        let link = self.link_at(pid, binary, program.name(), &self.site)?;
        self.link = Some(link);
        if program == Program::Capture {
            self.attach_hooks(pid, binary);
        }
        Ok(())
    }

    /// Attaches at the functions that tell why a thread waits; those that cannot be had are told
    /// by [`refused_hooks`](Self::refused_hooks).
    fn attach_hooks(&mut self, pid: i32, binary: &Path) {
        self.refused_hooks.clear();
        for hook in std::mem::take(&mut self.hooks) {
            if let Some(program) = program_for(hook.hook) {
                match self.link_at(pid, binary, program, &hook.site) {
                    Ok(link) => self.wait_links.push(link),
                    Err(error) => self.refused_hooks.push((hook.hook, error.to_string())),
                }
            }
            self.hooks.push(hook);
        }
    }

    /// Functions that tell why a thread waits, but could not be attached to, with the reason.
    pub fn refused_hooks(&self) -> &[(Hook, String)] {
        &self.refused_hooks
    }

    fn link_at(
        &self,
        pid: i32,
        binary: &Path,
        program: &str,
        site: &Site,
    ) -> Result<Link, ProbeError> {
        check_bytes(binary, site)?;
        let offset = usize::try_from(site.file_offset).unwrap_or(usize::MAX);
        let chosen = self
            .object
            .progs_mut()
            .find(|p| p.name() == program)
            .expect("the program is in the object");
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
        self.wait_links.clear();
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
        Ok(Events::new(ring, self.plan.places))
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
            sum.threads_unknown += word(std::mem::offset_of!(
                types::statement_counters,
                threads_unknown
            ));
            sum.left_out += word(std::mem::offset_of!(types::statement_counters, left_out));
        }
        Ok(sum)
    }

    /// Leaves statements' texts out, or all but their count, from now on; or nothing any more. The
    /// probe stays in place, so that no statement goes uncounted.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn leave_out(&self, text: bool, all: bool) -> Result<(), ProbeError> {
        let bit = |on: bool, bit: types::statement_left_out| if on { bit.0 } else { 0 };
        let bits = bit(text, types::statement_left_out::LEAVE_TEXT)
            | bit(all, types::statement_left_out::LEAVE_ALL);
        let map = self
            .object
            .maps()
            .find(|m| m.name().to_string_lossy().ends_with(".data.left_out"))
            .expect("the map is in the object");
        map.update(&0u32.to_ne_bytes(), &bits.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)
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
pub(crate) fn check_bytes(binary: &Path, site: &Site) -> Result<(), ProbeError> {
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
