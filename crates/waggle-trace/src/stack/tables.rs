//! What stands in a mapped file of its functions: where each begins, and what it exports.
//!
//! Neighbours: `names` asks; `symbols::unwind` reads frames.

use std::fs::File;
use std::path::PathBuf;

use object::{ObjectSymbol, SymbolKind};
use waggle_foreign::{FileBytes, Printable, build_id, is_safe_to_map, open_regular};
use waggle_symbols::BuildId;
use waggle_symbols::elf::named_symbols;
use waggle_symbols::function::demangled_with;
use waggle_symbols::unwind::Frames;

/// What stands in a file.
pub(super) struct Tables {
    /// The distribution's file with its symbols, if it is installed.
    pub(super) separate: Option<PathBuf>,
    pub(super) frames: Option<Frames>,
    /// Address and mangled name of each exported function, by address; of a file that is not
    /// mapped of each function that has a name at all.
    pub(super) exported: Vec<(u64, String)>,
    /// A library that maps it may look into the file. Its owner cannot cut it short then.
    pub(super) is_mapped: bool,
}

impl Tables {
    pub(super) fn read(file: &File) -> Self {
        let is_safe = is_safe_to_map(file);
        let (exported, build_id) = exported(file, !is_safe);
        let separate = build_id.as_ref().and_then(separate_symbols);
        Self {
            is_mapped: is_safe || separate.is_some(),
            separate,
            frames: Frames::read(file, 0).ok(),
            exported,
        }
    }
}

/// Address and mangled name of each function in the dynamic symbol table, or in both, and the
/// build id.
fn exported(file: &File, both: bool) -> (Vec<(u64, String)>, Option<BuildId>) {
    let Ok(bytes) = FileBytes::new(file) else {
        return Default::default();
    };
    let Ok(elf) = bytes.elf() else {
        return Default::default();
    };
    let mut exported: Vec<(u64, String)> = named_symbols(&elf, both)
        .filter(|(symbol, _)| symbol.kind() == SymbolKind::Text)
        .map(|(symbol, name)| (symbol.address(), name.to_owned()))
        .collect();
    // Of several names for one function, the one that a programmer writes.
    exported.sort_by_key(|(address, name)| {
        let underscores = name.bytes().take_while(|b| *b == b'_').count();
        (*address, underscores, name.len())
    });
    exported.dedup_by_key(|(address, _)| *address);
    let build_id = build_id(&elf).map(BuildId::new);
    (exported, build_id)
}

/// The name as it stands in the source, without its parameters, which would fill a line each.
pub(super) fn demangled(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).map(|name| format!("{name:#}"));
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    let name = rust
        .ok()
        .or_else(|| demangled_with(name, &options))
        .unwrap_or_else(|| name.to_owned());
    // A symbol may be called anything.
    Printable::of(&name).into_string()
}

/// The distribution's file with the symbols that were stripped, if it is installed.
fn separate_symbols(build_id: &BuildId) -> Option<PathBuf> {
    let id = build_id.to_string();
    let (first, rest) = id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    let file = open_regular(&path).ok()?;
    is_safe_to_map(&file).then_some(path)
}
