//! What a profile leaves in its run directory.
//!
//! Invariant: `profile.json` is written first; a drawing of what there is nothing of is left out.

use anyhow::Context;
use waggle_profile::model::{Kind, Profile};
use waggle_profile::out::{OutError, Unit, View, firefox, flame, folded, pprof};
use waggle_report::run::RunDir;

use super::args::{By, Format};
use crate::profiling::kept;

const KINDS: [Kind; 3] = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];

/// Writes all of it; returns the files' names.
///
/// # Errors
/// The disk is full, or a format's library refuses.
pub(super) fn write(
    run: &RunDir,
    profile: &Profile,
    by: By,
    formats: &[Format],
) -> anyhow::Result<Vec<String>> {
    let whole = Profile {
        timeline: Vec::new(),
        ..profile.clone()
    };
    let mut names = vec!["profile.json".to_owned()];
    run.write_profile("", &whole.to_json())?;
    let mut put = |name: String, bytes: &[u8]| {
        run.write_file(&name, bytes)
            .with_context(|| format!("writing {name}"))?;
        names.push(name);
        anyhow::Ok(())
    };
    for format in formats {
        match format {
            Format::Pprof => put("profile.pb.gz".to_owned(), &pprof::bytes(&whole)?)?,
            Format::Firefox => put("profile.firefox.json".to_owned(), &firefox::json(profile))?,
            Format::Svg | Format::Folded => {
                for kind in KINDS.into_iter().filter(|kind| whole.total_ns(*kind) > 0) {
                    let view = View {
                        unit: Unit::Ns,
                        ..View::of(kind).by(by.root())
                    };
                    let name = kind.name();
                    if *format == Format::Folded {
                        let text = folded::text(&whole, &view);
                        put(format!("{name}.folded"), text.as_bytes())?;
                        continue;
                    }
                    match flame::svg(&whole, &view, &title(&whole, kind)) {
                        Ok(svg) => put(format!("flame-{name}.svg"), &svg)?,
                        Err(OutError::Empty { .. }) => {}
                        Err(error) => return Err(error).context("drawing the flame graph"),
                    }
                }
            }
        }
    }
    run.write_profile_page(vec![kept::part("", &whole)])?;
    names.push("report.html".to_owned());
    Ok(names)
}

fn title(profile: &Profile, kind: Kind) -> String {
    let processes: Vec<&str> = profile.processes.iter().map(|p| &*p.process).collect();
    let time = match kind {
        Kind::OnCpu => "CPU time",
        Kind::OffCpu => "time blocked",
        Kind::Runnable => "time without a processor",
    };
    format!("{time} of {}", processes.join(", "))
}
