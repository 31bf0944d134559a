//! The difference of two runs' profiles as files: a flame graph, a page.
//!
//! Invariant: whether a file can be made is known before any is written.

use std::path::Path;

use anyhow::{Context, bail};
use waggle_profile::model::{Kind, Profile};
use waggle_profile::out::{View, diff};
use waggle_report::document::Document;
use waggle_report::profile::ProfilePage;
use waggle_report::run::PROFILE_FILE;

use super::args::{Plan, Side};
use super::profile;

/// Writes what was asked for, and returns their paths in words.
///
/// # Errors
/// A run has no profile, or a file cannot be written.
pub(super) fn write(plan: &Plan) -> anyhow::Result<Vec<String>> {
    let mut written = Vec::new();
    if let Some(file) = &plan.flame {
        let profiles = [whole(&plan.first)?, whole(&plan.second)?];
        let view = View::of(plan.kind);
        let title = format!("{} against {}", name(&plan.second), name(&plan.first));
        let svg = diff::svg(&profiles[0], &profiles[1], &view, &title)
            .context("cannot draw the differential flame graph")?;
        save(file, &svg)?;
        written.push(file.display().to_string());
    }
    if let Some(file) = &plan.page {
        let pages = [page_of(&plan.first)?, page_of(&plan.second)?];
        let names = [name(&plan.first), name(&plan.second)];
        let page = profile::page(pages[0], pages[1], names);
        save(file, waggle_report::page::render_profile(&page).as_bytes())?;
        written.push(file.display().to_string());
    }
    Ok(written)
}

fn save(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    waggle_files::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

/// The run's directory, without what stands before it.
fn name(side: &Side) -> String {
    let last = side.path.file_name();
    last.map_or_else(
        || side.path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn whole(side: &Side) -> anyhow::Result<Profile> {
    let file = side.run.path().join(PROFILE_FILE);
    let bytes = side.run.document_bytes(PROFILE_FILE).with_context(|| {
        format!(
            "{} holds no profile ({}); record one with waggle profile, or with --profile",
            side.path.display(),
            file.display()
        )
    })?;
    Profile::from_json(&bytes).with_context(|| format!("cannot read {}", file.display()))
}

fn page_of(side: &Side) -> anyhow::Result<&ProfilePage> {
    let page = match &side.document {
        Document::Profile(page) => Some(&**page),
        Document::Bench(report) => report.profile.as_deref(),
        Document::Lab(report) => report.profile.as_deref(),
        _ => None,
    };
    match page {
        Some(page) => Ok(page),
        None => bail!("{} holds no profile", side.path.display()),
    }
}

/// A kind of time, as a flag has it.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    let kinds = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];
    let found = kinds.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("'{text}': use on-cpu, off-cpu or runnable"))
}
