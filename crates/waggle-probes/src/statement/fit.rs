//! How the statement probe fits one server build: where it attaches and what it can read there.

use std::path::Path;

use waggle_symbols::hook::{Hook, HookError, HookSite};
use waggle_symbols::{Binary, BuildId, ElfError, Marks, Site, StatementLayout, mark, recipe};

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
    /// Where statements within routines end, if they do not end there too.
    pub routine_site: Option<Site>,
    /// What can be read of a statement there.
    pub layout: StatementLayout,
    /// Places that tell why a thread waits. A statement that neither waits nor commits passes none
    /// of them.
    pub waits: Vec<HookSite>,
    /// Which waits cannot be told, and why; [`Hook::RoutineStatementEnd`] if statements within
    /// routines cannot. What the other flavour alone has is left out.
    pub waits_missing: Vec<(Hook, String)>,
}

/// Functions that tell why a thread waits by being entered.
const ENTERED: [Hook; 4] = [
    Hook::MetadataWait,
    Hook::RedoWrite,
    Hook::BinlogCommit,
    Hook::BinlogWrite,
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
        let Marks {
            mut sites,
            mut missing,
        } = Marks::find(&binary);
        for hook in ENTERED {
            match hook.find(&binary) {
                Ok(site) => sites.push(site),
                // The other flavour's.
                Err(HookError::NotExported { .. }) => {}
                Err(error) => missing.push((hook, error.to_string())),
            }
        }
        let routine_site = mark::routine_end(&binary).and_then(|found| match (found, &site) {
            // The kernel half knows one register.
            (Some(routine), Ok(site)) if routine.register != site.register => Err(format!(
                "the session object is in {} there, but in {} where other statements end",
                routine.register, site.register
            )),
            (found, _) => Ok(found),
        });
        let routine_site = routine_site.unwrap_or_else(|why| {
            missing.push((Hook::RoutineStatementEnd, why));
            None
        });
        Ok(Self {
            build_id: binary.build_id().cloned(),
            stripped: binary.is_stripped(),
            site,
            routine_site,
            layout: StatementLayout::find(&binary),
            waits: sites,
            waits_missing: missing,
        })
    }
}
