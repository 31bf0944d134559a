//! What stands in a mapped file of its functions: where each begins, and what it exports.
//!
//! Neighbours: `names` asks; `symbols::unwind` reads frames.

use std::fs::File;
use std::path::PathBuf;

use object::{Object, ObjectSymbol, ReadCache};
use waggle_symbols::BuildId;
use waggle_symbols::unwind::Frames;

/// What stands in a file.
pub(super) struct Tables {
    /// The distribution's file with its symbols, if it is installed.
    pub(super) separate: Option<PathBuf>,
    pub(super) frames: Option<Frames>,
    /// Address and mangled name of each exported function, by address.
    pub(super) exported: Vec<(u64, String)>,
}

impl Tables {
    pub(super) fn read(file: &File) -> Self {
        let (exported, build_id) = exported(file);
        Self {
            separate: build_id.as_ref().and_then(separate_symbols),
            frames: Frames::read(file, 0).ok(),
            exported,
        }
    }
}

/// Address and mangled name of each function in the dynamic symbol table, and the build id.
fn exported(file: &File) -> (Vec<(u64, String)>, Option<BuildId>) {
    let Ok(file) = file.try_clone() else {
        return Default::default();
    };
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return Default::default();
    };
    let functions = elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
    let mut exported: Vec<(u64, String)> = functions
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .collect();
    // Of several names for one function, the one that a programmer writes.
    exported.sort_by_key(|(address, name)| {
        let underscores = name.bytes().take_while(|b| *b == b'_').count();
        (*address, underscores, name.len())
    });
    exported.dedup_by_key(|(address, _)| *address);
    let build_id = elf.build_id().ok().flatten().map(BuildId::new);
    (exported, build_id)
}

/// The name as it stands in the source, without its parameters, which would fill a line each.
pub(super) fn demangled(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).map(|name| format!("{name:#}"));
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    rust.ok()
        .or_else(|| {
            let symbol = cpp_demangle::Symbol::new(name).ok()?;
            symbol.demangle_with_options(&options).ok()
        })
        .unwrap_or_else(|| name.to_owned())
}

/// The distribution's file with the symbols that were stripped, if it is installed.
fn separate_symbols(build_id: &BuildId) -> Option<PathBuf> {
    let id = build_id.to_string();
    let (first, rest) = id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    path.exists().then_some(path)
}
