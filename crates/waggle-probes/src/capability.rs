//! What this kernel can do, found once, as data: each refusal with its reason and what to try.
//!
//! Neighbours: `waggle doctor` prints it, and whatever picks a kind of probe may ask it. Answers
//! are found by trying (a program is loaded and dropped, a counter opened and closed), since
//! versions and configurations promise more than a locked-down or virtual machine keeps.
//!
//! Invariant: nothing is attached to any program but this one, nothing is changed, and nothing
//! stays behind. What may not be found out is unknown, never a guess.

mod cgroups;
mod counters;
mod functions;
mod host;
mod programs;
mod rights;
mod trap;

pub use cgroups::{Cgroups, V1Mount, V2Mount};
pub use rights::Rights;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::kernel;

/// One question about this machine and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fact {
    /// What was asked, in the kernel's words; unique within its group.
    #[serde(skip)]
    pub name: &'static str,
    /// Yes, no, or not known.
    pub ok: Option<bool>,
    /// `waggle watch` does not work without it.
    pub needed: bool,
    /// What was found.
    pub value: Option<String>,
    /// Why not, or why it is not known.
    pub reason: Option<String>,
    /// What to try.
    pub remedy: Option<String>,
}

impl Fact {
    fn yes(name: &'static str, value: impl Into<String>) -> Self {
        let value = Some(value.into()).filter(|value| !value.is_empty());
        Self {
            name,
            ok: Some(true),
            needed: false,
            value,
            reason: None,
            remedy: None,
        }
    }

    fn no(name: &'static str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        let reason = Some(reason.into());
        Self {
            name,
            ok: Some(false),
            needed: false,
            value: None,
            reason,
            remedy,
        }
    }

    fn unknown(name: &'static str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            ok: None,
            ..Self::no(name, reason, remedy)
        }
    }

    fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    /// True if `waggle watch` needs it and it was refused.
    pub fn is_in_the_way(&self) -> bool {
        self.needed && self.ok == Some(false)
    }
}

/// Facts of one kind; in JSON an object with a member a fact.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub Vec<Fact>);

impl Facts {
    /// The fact of this name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|fact| fact.name == name)
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for fact in &self.0 {
            map.serialize_entry(fact.name, fact)?;
        }
        map.end()
    }
}

/// The running kernel, as far as probes are concerned.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// Release, such as `6.18.44`.
    pub release: String,
    /// What this process may do.
    pub rights: Rights,
    /// Settings and files: `rights`, `btf`, `lockdown`, `jit`, `tracefs`, ...
    pub settings: Facts,
    /// Whether waggle's statement probe loads here, and what one hit costs.
    pub statement_probe: Fact,
    /// Cost of one breakpoint with an empty program on this machine, caches warm, ns.
    pub trap_ns: Option<f64>,
    /// Ways to hook something: `uprobe`, `uprobe_multi`, `kprobe`.
    pub hooks: Facts,
    /// Program types, each tried by loading a program of it.
    pub program_types: Facts,
    /// Map types.
    pub map_types: Facts,
    /// Helper functions, as a uprobe program may call them.
    pub helpers: Facts,
    /// Performance counters, each tried by opening it on this process.
    pub counters: Facts,
    /// Control groups, both versions.
    pub cgroups: Cgroups,
}

impl Kernel {
    /// Asks the running kernel. Takes some hundred milliseconds as root.
    pub fn gather() -> Self {
        kernel::collect_messages();
        let rights = Rights::gather();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let btf = host::btf();
        let program_types = programs::types(&rights, btf.ok == Some(true));
        let map_types = functions::map_types(&rights);
        let helpers = functions::functions(&rights);
        let (statement_probe, trap_ns) = trap::measure(&rights);
        // What libbpf said of the refusals above is in their reasons.
        drop(kernel::take_messages());
        let mut settings = vec![
            rights.fact(),
            btf,
            host::lockdown(&helpers),
            host::jit(),
            host::unprivileged_bpf(),
            host::perf_event_paranoid(),
            host::tracefs(&mounts),
            host::namespaces(),
        ];
        settings.extend(host::memory_lock());
        Self {
            release: host::read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            settings: Facts(settings),
            hooks: host::hooks(),
            counters: counters::try_all(&rights),
            cgroups: Cgroups::gather(&mounts),
            rights,
            statement_probe,
            trap_ns,
            program_types,
            map_types,
            helpers,
        }
    }

    /// Everything `waggle watch` needs and this kernel refuses.
    pub fn in_the_way(&self) -> impl Iterator<Item = &Fact> {
        let groups = [
            &self.settings,
            &self.hooks,
            &self.program_types,
            &self.map_types,
            &self.helpers,
        ];
        groups
            .into_iter()
            .flat_map(|group| &group.0)
            .chain([&self.statement_probe])
            .filter(|fact| fact.is_in_the_way())
    }
}
