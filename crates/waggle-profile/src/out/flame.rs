//! A flame graph as one SVG: searchable and zoomable in any browser, without a network.
//!
//! Invariant: what was lost stands in the drawing.

use inferno::flamegraph::color::BasicPalette;
use inferno::flamegraph::{self, Options, Palette};

use super::view::{Root, Unit, View};
use super::{OutError, folded};
use crate::model::{Kind, Profile};

/// The flame graph of what the view takes; `title` is its heading.
///
/// # Errors
/// The view takes nothing, or the drawing cannot be made.
pub fn svg(profile: &Profile, view: &View, title: &str) -> Result<Vec<u8>, OutError> {
    let lines = folded::lines(profile, view);
    if lines.is_empty() {
        return Err(OutError::Empty {
            what: "the profile",
        });
    }
    let text = folded::written(&lines);
    let mut options = options(view, title);
    options.subtitle = Some(subtitle(profile, view));
    drawn(&mut options, &text)
}

/// Draws lines with one weight each, or with two.
pub(super) fn drawn(options: &mut Options<'_>, text: &str) -> Result<Vec<u8>, OutError> {
    let mut svg = Vec::new();
    flamegraph::from_lines(options, text.lines(), &mut svg).map_err(|source| OutError::Format {
        format: "flame graph",
        source,
    })?;
    Ok(svg)
}

/// Colours by kind, the same for a name in every drawing; times in us.
pub(super) fn options(view: &View, title: &str) -> Options<'static> {
    let mut options = Options::default();
    options.title = super::name::plain(title);
    options.colors = Palette::Basic(match view.kind {
        Some(Kind::OffCpu) => BasicPalette::Blue,
        Some(Kind::Runnable) => BasicPalette::Purple,
        Some(Kind::OnCpu) | None => BasicPalette::Hot,
    });
    options.hash = true;
    match view.unit {
        Unit::Ns => {
            options.count_name = "us".to_owned();
            options.factor = 1e-3;
        }
        Unit::Samples => options.count_name = "samples".to_owned(),
    }
    options
}

/// What was measured, and what was lost.
pub(super) fn subtitle(profile: &Profile, view: &View) -> String {
    let kind = match view.kind {
        Some(Kind::OnCpu) => "on CPU",
        Some(Kind::OffCpu) => "off CPU",
        Some(Kind::Runnable) => "runnable",
        None => "on CPU, off CPU and runnable",
    };
    let by = match view.root {
        Root::All => "",
        Root::Role => ", by role",
        Root::Digest => ", by statement",
        Root::Process => ", by process",
        Root::Thread => ", by thread",
    };
    let samples: u64 = profile
        .entries
        .iter()
        .filter(|entry| view.takes(entry.kind))
        .fold(0, |sum, entry| sum.saturating_add(entry.samples));
    let seconds = profile.duration_ns as f64 / 1e9;
    let lost = &profile.lost;
    let lost = if lost.samples == 0 && lost.stacks == 0 && lost.truncated == 0 {
        "nothing lost".to_owned()
    } else {
        format!(
            "lost: {} samples, {} stacks; {} stacks truncated",
            lost.samples, lost.stacks, lost.truncated
        )
    };
    let rate = profile.frequency_hz;
    format!("{kind}{by}: {samples} samples in {seconds:.1} s at {rate} Hz, {lost}")
}
