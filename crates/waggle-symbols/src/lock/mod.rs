//! Where a server says who waits for whose lock.
//!
//! All of these are on the path of a session that is about to block, or that has found a deadlock;
//! none is passed by a statement that gets its locks at once. Neighbours: `waggle-probes` attaches
//! at the sites; `callers` finds calls inside functions without a name.
//!
//! * A row or table lock is waited for between the calls of `thd_wait_begin` and `thd_wait_end` in
//!   `lock_wait_suspend_thread` (MySQL), or in the one caller of `thd_storage_lock_wait`, which is
//!   a hidden `lock_wait` (MariaDB).
//! * For whom: `thd_report_lock_wait` (MySQL); `thd_rpl_deadlock_check` (MariaDB), but that only
//!   with a binary log, or in a parallel replica.
//! * A deadlock of row locks: `lock_notify_about_deadlock` has cycle and victim (MySQL);
//!   `thd_deadlock_victim_preference` has the cycle, pair by pair (MariaDB).
//! * A metadata lock is waited for from `MDL_wait::timed_wait` to its call of `thd_wait_end`.
//! * For whom: `MDL_lock::visit_subgraph` and `MDL_context::visit_subgraph`, the search for
//!   deadlocks, which goes from each waiter to each of its blockers before every wait. MySQL's
//!   does not visit a session that holds only what plain statements need and does not wait.
//! * A deadlock of metadata locks: `MDL_wait::set_status` names the victim.
//!
//! The entries of `thd_wait_begin` and `thd_wait_end` themselves are left alone: MariaDB passes
//! them whenever it waits for a client.
//!
//! Invariant: at every site the arguments are where the calling convention puts them (`rdi`, `rsi`,
//! `rdx`), and each site runs once for what it reports.

mod names;
mod offsets;

use std::fmt;
use std::path::Path;

use crate::callers;
use crate::elf::{Binary, ElfError, Function};
use crate::site::{Register, Site, TrapCost};
use names::{
    DEADLOCK_CHECK, NOTIFY_DEADLOCK, PREFERENCE, REPORT, REPORT_ROW, SET_STATUS, STORAGE_LOCK_WAIT,
    SUSPEND, TIMED_WAIT, VISIT_CONTEXT, VISIT_LOCK, WAIT_BEGIN, WAIT_END, wanted,
};
use offsets::{members_offset, owner_offset, search, status_offset, transaction_thd};

/// What a site reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockHook {
    /// A session waits for another's row or table lock: `THD` of both.
    RowEdge,
    /// A wait for a row (3) or table (6) lock begins: `THD`, type.
    RowBegin,
    /// It ended.
    RowEnd,
    /// A deadlock of row locks, with its victim: vector of transactions, transaction.
    RowDeadlock,
    /// A deadlock of row locks, a pair of its members: `THD` of both.
    RowDeadlockPair,
    /// A wait for a metadata lock begins: its `MDL_context`, the owner.
    MetadataBegin,
    /// It ended, perhaps to begin again.
    MetadataEnd,
    /// The search for blockers goes on from a waiter: its lock, its ticket, the search.
    MetadataFrom,
    /// It goes on to one of its blockers: that one's `MDL_context`, the search.
    MetadataBy,
    /// A wait for a metadata lock is told its fate: `MDL_context`, status.
    MetadataVerdict,
}

impl LockHook {
    /// Every hook.
    pub const ALL: [Self; 10] = [
        Self::RowEdge,
        Self::RowBegin,
        Self::RowEnd,
        Self::RowDeadlock,
        Self::RowDeadlockPair,
        Self::MetadataBegin,
        Self::MetadataEnd,
        Self::MetadataFrom,
        Self::MetadataBy,
        Self::MetadataVerdict,
    ];

    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RowEdge => "row-lock blocker",
            Self::RowBegin => "row-lock wait",
            Self::RowEnd => "end of a row-lock wait",
            Self::RowDeadlock => "row-lock deadlock",
            Self::RowDeadlockPair => "row-lock deadlock's pair",
            Self::MetadataBegin => "metadata-lock wait",
            Self::MetadataEnd => "end of a metadata-lock wait",
            Self::MetadataFrom => "metadata-lock waiter",
            Self::MetadataBy => "metadata-lock blocker",
            Self::MetadataVerdict => "metadata-lock deadlock",
        }
    }
}

impl fmt::Display for LockHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSite {
    /// What it reports.
    pub hook: LockHook,
    /// Where.
    pub site: Site,
}

/// Every place of one build.
#[derive(Debug, Clone)]
pub struct LockLayout {
    /// What was found.
    pub sites: Vec<LockSite>,
    /// What was not, and why. A hook that only the other flavour has is not listed.
    pub missing: Vec<(LockHook, String)>,
    /// How far behind the start of a `THD` the owner of its metadata locks stands, bytes.
    pub owner_offset: u32,
    /// Where a transaction keeps the pointer to its `THD`, bytes; MySQL only.
    pub transaction_thd: Option<u32>,
    /// Where a vector of transactions keeps the address of its first, bytes; the end of the last
    /// follows. MySQL only.
    pub members_offset: Option<u32>,
    /// Where a metadata lock's wait keeps its status, bytes.
    pub status_offset: Option<u32>,
    /// What can be read of a search for the blockers of a metadata lock.
    pub search: Option<SearchLayout>,
    /// A reported blocker takes the place of the one before (MySQL); else there may be several.
    pub edge_replaces: bool,
}

/// Where the facts of a search for the blockers of a metadata lock stand, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLayout {
    /// In the search: how many steps it is from where it began.
    pub depth: u32,
    /// In a ticket: the `MDL_context` it belongs to.
    pub ticket_context: u32,
    /// In a ticket: the mode asked for.
    pub ticket_mode: u32,
    /// In a lock: its key's bytes (kind of object, database, NUL, name, NUL); their number stands
    /// at the lock's start, in 16 bits.
    pub key: u32,
}

/// A site, or why there is none; `None` if the other flavour has it.
type Found = Option<Result<Site, String>>;

impl LockLayout {
    /// Finds every place of the server binary at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is no server for x86-64.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        Ok(Self::find(&Binary::open(path, wanted)?))
    }

    fn find(binary: &Binary) -> Self {
        let mut layout = Self {
            sites: Vec::new(),
            missing: Vec::new(),
            owner_offset: owner_offset(binary).unwrap_or(0),
            transaction_thd: transaction_thd(binary),
            members_offset: members_offset(binary),
            status_offset: status_offset(binary),
            search: search(binary),
            edge_replaces: binary.function(DEADLOCK_CHECK).is_none(),
        };
        for hook in LockHook::ALL {
            match find(binary, &layout, hook) {
                Some(Ok(site)) => layout.sites.push(LockSite { hook, site }),
                Some(Err(why)) => layout.missing.push((hook, why)),
                None => {}
            }
        }
        layout
    }

    /// The site of `hook`, if there is one.
    pub fn site(&self, hook: LockHook) -> Option<&Site> {
        let mut sites = self.sites.iter();
        sites.find(|s| s.hook == hook).map(|s| &s.site)
    }
}

fn find(binary: &Binary, layout: &LockLayout, hook: LockHook) -> Found {
    match hook {
        LockHook::RowEdge => {
            let names = [
                REPORT[0],
                REPORT[1],
                REPORT_ROW[0],
                REPORT_ROW[1],
                DEADLOCK_CHECK,
            ];
            Some(match any(binary, &names) {
                Some(function) => entry(&function),
                None => Err("no report of a lock wait is exported".into()),
            })
        }
        LockHook::RowBegin => Some(row_call(binary, &WAIT_BEGIN)),
        LockHook::RowEnd => Some(row_call(binary, &WAIT_END)),
        LockHook::RowDeadlock => {
            let function = binary.function_by_prefix(NOTIFY_DEADLOCK)?;
            Some(match (layout.transaction_thd, layout.members_offset) {
                (Some(_), Some(_)) => entry(&function),
                (None, _) => Err("a transaction's THD was not found".into()),
                _ => Err("the members' place was not found".into()),
            })
        }
        LockHook::RowDeadlockPair => Some(entry(&binary.function(PREFERENCE)?)),
        LockHook::MetadataBegin => Some(match owner_offset(binary) {
            Some(_) => entry_of(binary, TIMED_WAIT),
            None => Err("the owner's place in THD was not found".into()),
        }),
        LockHook::MetadataEnd => Some(metadata_end(binary)),
        LockHook::MetadataFrom | LockHook::MetadataBy if layout.search.is_none() => {
            Some(Err("what the search keeps was not found".into()))
        }
        LockHook::MetadataFrom => Some(match binary.function(VISIT_LOCK) {
            Some(function) => entry_with(&function, &[0, 1, 2]),
            None => Err(format!("{VISIT_LOCK} is not exported")),
        }),
        LockHook::MetadataBy => Some(entry_of(binary, VISIT_CONTEXT)),
        LockHook::MetadataVerdict => Some(entry_of(binary, SET_STATUS)),
    }
}

fn any(binary: &Binary, names: &[&str]) -> Option<Function> {
    names.iter().find_map(|name| binary.function(name))
}

fn entry_of(binary: &Binary, prefix: &str) -> Result<Site, String> {
    match binary.function_by_prefix(prefix) {
        Some(function) => entry(&function),
        None => Err(format!("{prefix} is not exported")),
    }
}

/// The cheapest site of `function` with its first two arguments where they were passed.
fn entry(function: &Function) -> Result<Site, String> {
    entry_with(function, &[0, 1])
}

/// The same with these arguments.
fn entry_with(function: &Function, arguments: &[u8]) -> Result<Site, String> {
    /// `rdi`, `rsi`, `rdx`.
    const PASSED: [Register; 3] = [Register(7), Register(6), Register(2)];
    let (site, registers) =
        Site::find_holding(function, arguments).map_err(|error| error.to_string())?;
    if PASSED.starts_with(&registers) {
        return Ok(site);
    }
    Err(format!("{} moves its arguments at once", function.name))
}

/// The engine's own call of one of `targets` when it waits for a row or table lock.
fn row_call(binary: &Binary, targets: &[&str]) -> Result<Site, String> {
    let target = any(binary, targets).ok_or("the wait marks are not exported")?;
    let waiting = match binary.function(SUSPEND) {
        Some(function) => function,
        None => {
            let mark = binary.function(STORAGE_LOCK_WAIT);
            let mark = mark.ok_or("neither lock_wait nor what it calls is exported")?;
            callers::only_caller(binary, mark.address)
                .map_err(|why| format!("the caller of thd_storage_lock_wait: {why}"))?
        }
    };
    call_site(&waiting, &target)
}

fn metadata_end(binary: &Binary) -> Result<Site, String> {
    let waiting = binary.function_by_prefix(TIMED_WAIT);
    let waiting = waiting.ok_or("MDL_wait::timed_wait is not exported")?;
    let target = any(binary, &WAIT_END).ok_or("thd_wait_end is not exported")?;
    call_site(&waiting, &target)
}

/// The one call of `target` in `function`.
pub(crate) fn call_site(function: &Function, target: &Function) -> Result<Site, String> {
    let calls = callers::calls(function, target.address);
    let [at] = calls[..] else {
        return Err(format!(
            "{} calls {} {} times",
            function.name,
            target.name,
            calls.len()
        ));
    };
    let offset = at - function.address;
    let start = usize::try_from(offset).map_err(|e| e.to_string())?;
    let bytes = function.code.get(start..start + 5).unwrap_or_default();
    Ok(Site {
        function: function.name.clone(),
        file_offset: function.file_offset + offset,
        function_offset: offset,
        bytes: bytes.to_vec(),
        instruction: "call".into(),
        register: Register(7),
        trap: TrapCost::Emulated,
    })
}
