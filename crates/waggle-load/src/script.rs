//! Where a workload's text comes from: shipped with the program, or a file of the user.
//!
//! Invariant: a shipped workload is loaded from the binary alone, so that what ran is what this
//! version ships, whatever lies in the current directory.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::LoadError;
use serde::{Deserialize, Serialize};

/// The text of each file of workloads/ named here, under its name without the extension.
macro_rules! shipped {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../workloads/", $name, ".lua"))),)*]
    };
}

/// Modules that scripts may `require`; shipped workloads are among them.
const MODULES: &[(&str, &str)] = shipped![
    "bulk_insert",
    "json",
    "linkbench",
    "linkbench_degrees",
    "linkbench_graph",
    "linkbench_load",
    "oltp_common",
    "oltp_delete",
    "oltp_insert",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
    "tpcc",
    "tpcc_clock",
    "tpcc_conditions",
    "tpcc_figures",
    "tpcc_load",
    "tpcc_random",
    "tpcc_schema",
    "tpcc_transactions",
];

/// The workloads that can be named without a path.
pub const BUILTIN_WORKLOADS: &[&str] = &[
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "bulk_insert",
    "select_random_points",
    "select_random_ranges",
    "json",
    "tpcc",
    "linkbench",
];

/// Where distributions install sysbench's scripts, at the end of the module path.
const INSTALLED: [&str; 2] = [
    "/usr/local/share/sysbench/?.lua",
    "/usr/share/sysbench/?.lua",
];

/// A workload: its name, its text, and the file it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    name: String,
    text: String,
    /// `None`: shipped, or given as text.
    path: Option<PathBuf>,
}

impl Script {
    /// A shipped workload by name, or a Lua file by path.
    pub fn open(name_or_path: &str) -> Result<Script, LoadError> {
        if BUILTIN_WORKLOADS.contains(&name_or_path) {
            return Ok(Script::builtin(name_or_path));
        }
        let path = Path::new(name_or_path);
        if !path.is_file() {
            return Err(unknown(name_or_path));
        }
        Script::read(name_or_path, path)
    }

    /// As sysbench finds it: a file by path, else a module by name along the module path, so that
    /// installed scripts are found; last a shipped workload. `-` is standard input.
    pub fn open_sysbench(name_or_path: &str) -> Result<Script, LoadError> {
        if name_or_path == "-" {
            return Script::from_reader(&mut io::stdin().lock());
        }
        let path = Path::new(name_or_path);
        if path.is_file() {
            return Script::read(name_or_path, path);
        }
        let templates = package_path(None);
        let module = name_or_path.replace('.', "/");
        let mut candidates = templates
            .split(';')
            .map(|template| template.replace('?', &module));
        if let Some(found) = candidates.find(|candidate| Path::new(candidate).is_file()) {
            return Script::read(name_or_path, Path::new(&found));
        }
        if BUILTIN_WORKLOADS.contains(&name_or_path) {
            return Ok(Script::builtin(name_or_path));
        }
        Err(unknown(name_or_path))
    }

    fn read(name: &str, path: &Path) -> Result<Script, LoadError> {
        let bytes = fs::read(path).map_err(|source| LoadError::ReadScript {
            path: path.to_owned(),
            source,
        })?;
        Ok(Script {
            name: name.to_owned(),
            // Lua sources may hold any bytes; the loader takes text, and a replaced byte in a
            // comment or a string is better than a refusal.
            text: String::from_utf8_lossy(&bytes).into_owned(),
            path: Some(path.to_owned()),
        })
    }

    /// Standard input; its modules are looked for in the current directory.
    fn from_reader(input: &mut impl io::Read) -> Result<Script, LoadError> {
        let mut bytes = Vec::new();
        input
            .read_to_end(&mut bytes)
            .map_err(|source| LoadError::ReadScript {
                path: PathBuf::from("-"),
                source,
            })?;
        Ok(Script {
            name: "-".to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            path: Some(PathBuf::from("stdin")),
        })
    }

    /// A script given as text, for tests and for callers that generate one.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> Script {
        Script {
            name: name.into(),
            text: text.into(),
            path: None,
        }
    }

    fn builtin(name: &str) -> Script {
        Script::from_text(name, module_text(name).unwrap_or_default())
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A short name without directories and extension, for run directories and titles.
    pub fn short_name(&self) -> &str {
        Path::new(&self.name)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or(&self.name)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What help texts call it: the name without directories.
    pub(crate) fn title(&self) -> &str {
        let title = Path::new(&self.name).file_name();
        title.and_then(|title| title.to_str()).unwrap_or(&self.name)
    }

    /// The name Lua prints before a line number.
    pub(crate) fn chunk_name(&self) -> String {
        match &self.path {
            Some(path) => format!("@{}", path.display()),
            None => chunk_name_of_module(&self.name),
        }
    }

    /// Where the script's own modules are looked for; `None` for a shipped workload.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.path
            .as_ref()
            .map(|path| path.parent().unwrap_or(Path::new("")))
    }
}

fn unknown(name: &str) -> LoadError {
    LoadError::UnknownWorkload {
        name: name.to_owned(),
        known: BUILTIN_WORKLOADS.join(", "),
    }
}

/// The templates `require` follows: the script's directory, then `LUA_PATH` (`;;` in it stands for
/// the rest), the places of Lua modules, and those of sysbench's scripts.
pub(crate) fn package_path(directory: Option<&Path>) -> String {
    let home = env::var("HOME").ok();
    path_templates(
        directory,
        env::var("LUA_PATH").ok().as_deref(),
        home.as_deref(),
    )
}

fn path_templates(directory: Option<&Path>, lua_path: Option<&str>, home: Option<&str>) -> String {
    let mut places: Vec<String> = ["./?.lua", "./?/init.lua", "./src/lua/?.lua"]
        .map(str::to_owned)
        .into();
    if let Some(home) = home {
        for rest in [
            "lua/5.1/?.lua",
            "lua/5.1/?/init.lua",
            "lua/?.lua",
            "lua/?/init.lua",
        ] {
            places.push(format!("{home}/.luarocks/share/{rest}"));
        }
    }
    for place in ["/usr/local/share/lua/5.1/?.lua", "/usr/share/lua/5.1/?.lua"] {
        places.push(place.to_owned());
    }
    places.extend(INSTALLED.map(str::to_owned));
    let defaults = places.join(";");
    let templates = match lua_path {
        // Doubled signs at an end leave empty templates, which match nothing.
        Some(lua_path) => lua_path.replace(";;", &format!(";{defaults};")),
        None => defaults,
    };
    match directory.map(Path::to_string_lossy) {
        None => templates,
        Some(directory) if directory.is_empty() => templates,
        Some(directory) => format!("{directory}/?.lua;{directory}/?/init.lua;{templates}"),
    }
}

/// Text of a shipped module.
pub(crate) fn module_text(name: &str) -> Option<&'static str> {
    MODULES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

pub(crate) fn chunk_name_of_module(name: &str) -> String {
    if name.ends_with(".lua") {
        format!("@{name}")
    } else {
        format!("@{name}.lua")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = Script::open("oltp_pointselect").unwrap_err().to_string();
        assert!(error.contains("oltp_pointselect"), "{error}");
        assert!(
            error.contains("oltp_point_select, oltp_read_only, oltp_read_write"),
            "{error}"
        );
    }

    #[test]
    fn a_path_keeps_its_directory_for_modules() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.lua");
        fs::write(&path, "function event() end").unwrap();
        let script = Script::open(path.to_str().unwrap()).unwrap();
        assert_eq!(script.directory(), Some(dir.path()));
        assert_eq!(script.short_name(), "mine");
        assert_eq!(script.title(), "mine.lua");
    }

    #[test]
    fn module_paths_put_the_script_first_and_what_is_installed_last() {
        let plain = path_templates(Some(Path::new("/w")), None, Some("/h"));
        assert!(
            plain.starts_with("/w/?.lua;/w/?/init.lua;./?.lua;"),
            "{plain}"
        );
        assert!(
            plain.contains(";/h/.luarocks/share/lua/5.1/?.lua;"),
            "{plain}"
        );
        assert!(plain.ends_with(";/usr/share/sysbench/?.lua"), "{plain}");
        assert_eq!(path_templates(None, Some("/x/?.lua"), None), "/x/?.lua");
        let both = path_templates(None, Some("/x/?.lua;;"), None);
        assert!(both.starts_with("/x/?.lua;./?.lua;"), "{both}");
    }

    #[test]
    fn standard_input_is_a_script() {
        let script = Script::from_reader(&mut &b"x = 1"[..]).unwrap();
        assert_eq!((script.name(), script.text()), ("-", "x = 1"));
        assert_eq!(script.directory(), Some(Path::new("")));
        assert_eq!(script.chunk_name(), "@stdin");
    }

    #[test]
    fn names_that_nobody_installed_fall_back_to_what_is_shipped() {
        // A path that holds no file is looked up as a module, as in sysbench.
        let error = Script::open_sysbench("no/such/script.lua").unwrap_err();
        assert!(
            matches!(error, LoadError::UnknownWorkload { .. }),
            "{error}"
        );
        let found = Script::open_sysbench("oltp_point_select").unwrap();
        assert_eq!(found.name(), "oltp_point_select");
        assert!(found.text().contains("event"));
    }
}
