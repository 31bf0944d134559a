//! How the statement probe fits one server build: where it attaches and what it can read there.

use std::path::Path;

use waggle_symbols::hook::{Hook, HookError, HookSite};
use waggle_symbols::{Binary, BuildId, ElfError, Site, StatementLayout, recipe};

/// Mangled beginning of the function every statement passes at its end.
const STATEMENT_END: &str = "_Z18log_slow_statementP3THD";

/// The probe's site and fields in one server binary.
#[derive(Debug, Clone)]
pub struct Fit {
    /// GNU build id, if the binary has one.
    pub build_id: Option<BuildId>,
    /// The binary carries no full symbol table (as distributions ship it).
    pub stripped: bool,
    /// Where to attach, or why nowhere.
    pub site: Result<Site, String>,
    /// What can be read of a statement there.
    pub layout: StatementLayout,
    /// Functions that tell why a thread waits, or why they cannot be used; those that the other
    /// flavour alone has are left out.
    pub waits: Vec<(Hook, Result<HookSite, HookError>)>,
}

/// What tells why a thread waits.
const WAITS: [Hook; 8] = [
    Hook::WaitBegin,
    Hook::WaitEnd,
    Hook::RedoWrite,
    Hook::BinlogCommit,
    Hook::BinlogFlush,
    Hook::BinlogSync,
    Hook::BinlogQueue,
    Hook::BinlogLead,
];

impl Fit {
    /// Reads `binary` and finds site and fields. Attaches nothing.
    ///
    /// # Errors
    /// The file cannot be read or is no x86-64 ELF file.
    pub fn of(binary: &Path) -> Result<Self, ElfError> {
        let binary = Binary::open(binary, recipe::wanted)?;
        let site = match binary.function_by_prefix(STATEMENT_END) {
            Some(function) => Site::find(&function, 0).map_err(|error| error.to_string()),
            None => Err("it does not export log_slow_statement(THD*)".to_owned()),
        };
        Ok(Self {
            build_id: binary.build_id().cloned(),
            stripped: binary.is_stripped(),
            site,
            layout: StatementLayout::find(&binary),
            waits: WAITS.map(|hook| (hook, hook.find(&binary))).to_vec(),
        })
    }

    /// The hooks of [`waits`](Self::waits) that can be used.
    pub fn wait_hooks(&self) -> Vec<HookSite> {
        self.waits
            .iter()
            .filter_map(|(_, found)| found.as_ref().ok().cloned())
            .collect()
    }
}
