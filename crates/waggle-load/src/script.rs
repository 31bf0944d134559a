//! Where a workload's text comes from: shipped with the program, or a file of the user.
//!
//! Invariant: a shipped workload is loaded from the binary alone, so that what ran is what this
//! version ships, whatever lies in the current directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::LoadError;

/// Modules that scripts may `require`; shipped workloads are among them.
const MODULES: [(&str, &str); 4] = [
    (
        "oltp_common",
        include_str!("../../../workloads/oltp_common.lua"),
    ),
    (
        "oltp_point_select",
        include_str!("../../../workloads/oltp_point_select.lua"),
    ),
    (
        "oltp_read_only",
        include_str!("../../../workloads/oltp_read_only.lua"),
    ),
    (
        "oltp_read_write",
        include_str!("../../../workloads/oltp_read_write.lua"),
    ),
];

/// The workloads that can be named without a path.
pub const BUILTIN_WORKLOADS: [&str; 3] = ["oltp_point_select", "oltp_read_only", "oltp_read_write"];

/// A workload: its name, its text, and the directory its own modules are looked up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    name: String,
    text: String,
    directory: Option<PathBuf>,
}

impl Script {
    /// A shipped workload by name, or a Lua file by path.
    pub fn open(name_or_path: &str) -> Result<Script, LoadError> {
        if BUILTIN_WORKLOADS.contains(&name_or_path) {
            return Ok(Script::builtin(name_or_path));
        }
        let path = Path::new(name_or_path);
        if !path.is_file() {
            return Err(LoadError::UnknownWorkload {
                name: name_or_path.to_owned(),
                known: BUILTIN_WORKLOADS.join(", "),
            });
        }
        // Lua sources may hold any bytes; the loader takes text, and a replaced byte in a comment
        // or a string is better than a refusal.
        let bytes = fs::read(path).map_err(|source| LoadError::ReadScript {
            path: path.to_owned(),
            source,
        })?;
        Ok(Script {
            name: name_or_path.to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            directory: Some(path.parent().unwrap_or(Path::new("")).to_owned()),
        })
    }

    /// A script given as text, for tests and for callers that generate one.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> Script {
        Script {
            name: name.into(),
            text: text.into(),
            directory: None,
        }
    }

    fn builtin(name: &str) -> Script {
        let text = module_text(name).unwrap_or_default();
        Script {
            name: name.to_owned(),
            text: text.to_owned(),
            directory: None,
        }
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

    /// The name Lua prints before a line number.
    pub(crate) fn chunk_name(&self) -> String {
        match self.directory {
            Some(_) => format!("@{}", self.name),
            None => chunk_name_of_module(&self.name),
        }
    }

    /// Where the script's own modules are looked for; `None` for a shipped workload.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
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
    }
}
