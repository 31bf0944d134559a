//! A run's profile in the forms of other programs: flame graph, folded stacks, pprof, the Firefox
//! Profiler.
//!
//! Invariant: nothing of the run is changed.

use anyhow::{Context, bail};
use clap::ValueEnum;
use waggle_profile::model::{Kind, Profile};
use waggle_profile::out::{Root, View, firefox, flame, folded, pprof};
use waggle_report::run::{Run, profile_file};

use super::args::Format;
use crate::profiling::kept;

/// Which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Time {
    OnCpu,
    OffCpu,
    Runnable,
    /// All three, told apart by the last call
    All,
}

/// What stands below the first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Nothing: all threads together
    All,
    Role,
    /// The statement that ran
    Digest,
    Process,
    Thread,
}

/// What of the profile is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The profile's name; empty for the only one.
    pub(crate) profile: String,
    pub(crate) time: Time,
    pub(crate) by: By,
}

impl Asked {
    fn view(&self) -> View {
        let kind = match self.time {
            Time::OnCpu => Some(Kind::OnCpu),
            Time::OffCpu => Some(Kind::OffCpu),
            Time::Runnable => Some(Kind::Runnable),
            Time::All => None,
        };
        let root = match self.by {
            By::All => Root::All,
            By::Role => Root::Role,
            By::Digest => Root::Digest,
            By::Process => Root::Process,
            By::Thread => Root::Thread,
        };
        View {
            kind,
            root,
            ..View::default()
        }
    }
}

/// True for a form that is made of the profile alone.
pub(crate) fn is_form(format: Format) -> bool {
    matches!(
        format,
        Format::Svg | Format::Folded | Format::Pprof | Format::Firefox
    )
}

/// Reads the profile that was asked for.
///
/// # Errors
/// There is none of that name, or it is damaged.
pub(crate) fn read(run: &Run, asked: &Asked) -> anyhow::Result<Profile> {
    let file = profile_file(&asked.profile);
    if !run.path().join(&file).is_file() {
        let named: Vec<String> = run.profiles()?.into_iter().map(|part| part.name).collect();
        let path = run.path().display();
        match named.as_slice() {
            [] => bail!(
                "{path} holds no profile; record one with waggle profile, or with --profile of \
                 bench, lab run or copy bench"
            ),
            names => bail!(
                "{path} has no {file}; its profiles are: {}",
                names.join(", ")
            ),
        }
    }
    let path = run.path().join(&file);
    let bytes = run.document_bytes(&file)?;
    Profile::from_json(&bytes).with_context(|| format!("cannot read {}", path.display()))
}

/// The profile in this form.
///
/// # Errors
/// It holds nothing of what was asked for.
pub(crate) fn render(profile: &Profile, format: Format, asked: &Asked) -> anyhow::Result<Vec<u8>> {
    let view = View {
        lines: kept::has_lines(profile),
        ..asked.view()
    };
    let made = match format {
        Format::Svg => flame::svg(profile, &view, &kept::title(&asked.profile, profile))?,
        Format::Folded => folded::text(profile, &view).into_bytes(),
        Format::Pprof => pprof::bytes(profile)?,
        Format::Firefox => firefox::json(profile),
        _ => bail!("this is no form of a profile"),
    };
    Ok(made)
}
