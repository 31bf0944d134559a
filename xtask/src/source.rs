//! The files of this tree, as the tidy rules see them.
//!
//! Invariant: what git ignores is not there; what is not yet committed is, so that a violation
//! shows before the commit and not after it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::lex::{Language, Layers, layers};

/// A text file of the tree.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Code and comments apart, for a language the rules know.
    pub(crate) layers: Option<Layers>,
    pub(crate) language: Option<Language>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let language = Language::of_extension(extension);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            layers: language.map(|language| layers(text, language)),
            language,
        }
    }

    /// The code, if this is a file of `language`.
    pub(crate) fn code_in(&self, language: Language) -> Option<&str> {
        if self.language != Some(language) {
            return None;
        }
        self.layers.as_ref().map(|layers| layers.code.as_str())
    }

    /// Written by a program, which says so at the top.
    pub(crate) fn is_generated(&self) -> bool {
        self.text
            .lines()
            .take(5)
            .any(|line| line.contains("@generated"))
    }

    /// Data for a test or a fuzzer, kept as it came.
    pub(crate) fn is_test_data(&self) -> bool {
        const FOLDERS: [&str; 6] = [
            "corpus",
            "fixtures",
            "golden",
            "snapshots",
            "testdata",
            "expected",
        ];
        self.path.split('/').any(|part| FOLDERS.contains(&part))
    }

    /// The line a byte offset of the text or of a layer with equal line breaks is on, from 1.
    pub(crate) fn line_of(text: &str, offset: usize) -> usize {
        text[..offset].matches('\n').count() + 1
    }
}

/// Every text file of the tree under `root`, in the order of their paths.
pub(crate) fn tree(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in listed(root)? {
        let bytes = match std::fs::read(root.join(&path)) {
            Ok(bytes) => bytes,
            // Deleted and not yet committed; or a link to a folder.
            Err(_) => continue,
        };
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            sources.push(Source::new(&path, &text));
        }
    }
    if sources.is_empty() {
        bail!(
            "{} holds no file; is this a clone of the repository?",
            root.display()
        );
    }
    Ok(sources)
}

fn listed(root: &Path) -> Result<Vec<String>> {
    let git = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output();
    let mut paths: Vec<String> = match git {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)
            .context("a path in this tree is not UTF-8")?
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        // An unpacked archive has no git; what a build leaves behind is known by name.
        _ => walk(root, Path::new(""))?,
    };
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn walk(root: &Path, folder: &Path) -> Result<Vec<String>> {
    const LEFT_BY_BUILDS: [&str; 4] = [".git", "target", "node_modules", "waggle-runs"];
    let mut paths = Vec::new();
    let here = root.join(folder);
    for entry in std::fs::read_dir(&here).with_context(|| format!("listing {}", here.display()))? {
        let entry = entry?;
        let path: PathBuf = folder.join(entry.file_name());
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !LEFT_BY_BUILDS.iter().any(|left| name == *left) {
                paths.extend(walk(root, &path)?);
            }
        } else {
            paths.push(
                path.to_str()
                    .context("a path in this tree is not UTF-8")?
                    .to_owned(),
            );
        }
    }
    Ok(paths)
}
