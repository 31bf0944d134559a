//! The HTML page of a lab run, a study, a bench run, a trace, a profile or a tuning run: one file
//! that opens anywhere, without a network.
//!
//! The page's code and styles are bundled from `web/` by `build.rs`; the report is embedded as JSON
//! and drawn by that code. The answer and a text version stand in the HTML itself, so that a viewer
//! without scripts shows them too.
//! Invariant: nothing in the document can end the script element it stands in, and the page asks
//! the network for nothing (its own content policy forbids it).

use serde::Serialize;

use crate::bench::{self, BenchReport};
use crate::lab::{LabReport, headline, text};
use crate::profile::{self, ProfilePage};
use crate::study::{self, StudyReport};
use crate::trace::TracePage;
use crate::tune::{self, TuneReport};

const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/web/dist/page.js"));
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/web/dist/page.css"));

/// Inline code and styles, nothing from anywhere else.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// The `id` of the element that holds the report as JSON.
pub const DATA_ID: &str = "waggle-lab-report";

/// The `id` of the element that holds a study's report as JSON.
pub const STUDY_ID: &str = "waggle-study-report";

/// The `id` of the element that holds a bench run's report as JSON.
pub const BENCH_ID: &str = "waggle-bench-report";

/// The `id` of the element that holds a trace's report as JSON.
pub const TRACE_ID: &str = "waggle-trace-report";

/// The `id` of the element that holds profiles as JSON, alone or beside another report.
pub const PROFILE_ID: &str = "waggle-profile-report";

/// The `id` of the element that holds a tuning run's report as JSON.
pub const TUNE_ID: &str = "waggle-tune-report";

/// The page of a lab report, as one HTML document in UTF-8.
pub fn render(report: &LabReport) -> String {
    document(&Page {
        kicker: "waggle lab",
        answer: &headline(report),
        plain: &text(report, false),
        data_id: DATA_ID,
        data: &embed(report),
        profile: report.profile.as_deref(),
    })
}

/// The page of a study, as one HTML document in UTF-8.
pub fn render_study(report: &StudyReport) -> String {
    document(&Page {
        kicker: "waggle lab study",
        answer: &report.answer,
        plain: &study::text(report, false),
        data_id: STUDY_ID,
        data: &embed(report),
        profile: None,
    })
}

/// The page of a bench run, as one HTML document in UTF-8.
pub fn render_bench(report: &BenchReport) -> String {
    document(&Page {
        kicker: "waggle bench",
        answer: &bench::headline(report),
        plain: &bench::markdown(report),
        data_id: BENCH_ID,
        data: &embed(report),
        profile: report.profile.as_deref(),
    })
}

/// The page of a trace, as one HTML document in UTF-8.
pub fn render_trace(trace: &TracePage) -> String {
    document(&Page {
        kicker: "waggle trace",
        answer: &trace.headline(),
        plain: &trace.text(),
        data_id: TRACE_ID,
        data: &embed(trace),
        profile: None,
    })
}

/// The page of profiles, as one HTML document in UTF-8.
pub fn render_profile(page: &ProfilePage) -> String {
    document(&Page {
        kicker: &format!("waggle {}", page.verb),
        answer: &page.headline(),
        plain: &page.text(false),
        data_id: PROFILE_ID,
        data: &embed(&profile::page_data(page)),
        profile: None,
    })
}

/// The page of a tuning run, as one HTML document in UTF-8.
pub fn render_tune(report: &TuneReport) -> String {
    document(&Page {
        kicker: "waggle tune",
        answer: &report.answer,
        plain: &tune::text(report, false),
        data_id: TUNE_ID,
        data: &embed(report),
        profile: None,
    })
}

/// What differs from page to page.
struct Page<'a> {
    kicker: &'a str,
    /// The heading, and the document's title.
    answer: &'a str,
    /// All of it as text, for viewers without scripts.
    plain: &'a str,
    data_id: &'static str,
    data: &'a str,
    /// Profiles that were taken beside it.
    profile: Option<&'a ProfilePage>,
}

fn document(page: &Page) -> String {
    let answer = escape_html(&true_minus(page.answer));
    let mut plain = escape_html(page.plain);
    let mut beside = String::new();
    if let Some(profile) = page.profile {
        plain.push_str(&escape_html(&format!("\n{}", profile.text(false))));
        let data = embed(&profile::page_data(profile));
        beside = format!("\n<script type=\"application/json\" id=\"{PROFILE_ID}\">{data}</script>");
    }
    let kicker = escape_html(page.kicker);
    let Page { data_id, data, .. } = page;
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="waggle {version}">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{answer}</title>
<style>
{STYLE}</style>
</head>
<body>
<header>
<p class="kicker" id="kicker">{kicker}</p>
<h1>{answer}</h1>
</header>
<main id="main">
<noscript><pre>{plain}</pre></noscript>
</main>
<script type="application/json" id="{data_id}">{data}</script>{beside}
<script>
{SCRIPT}</script>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// The report as JSON that is safe inside a script element: `<`, `>` and `&` stand only in strings,
/// where an escape means the same, and so do the line separators that scripts cannot hold.
fn embed(report: &impl Serialize) -> String {
    // The document's types have string keys and no failing serialisers.
    let json = serde_json::to_string(report).unwrap_or_else(|_| "null".to_owned());
    let mut safe = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// Hyphens before digits as minus signs, which are as wide as the plus and break no line.
fn true_minus(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut characters = sentence.chars().peekable();
    while let Some(character) = characters.next() {
        let number = characters.peek().is_some_and(char::is_ascii_digit);
        let begins = text.ends_with([' ', '(']);
        text.push(if character == '-' && number && begins {
            '−'
        } else {
            character
        });
    }
    text
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_signs_are_only_where_numbers_are() {
        let sentence = "CI -0.1 to 2 (-3) of x-9, y - 1";
        assert_eq!(true_minus(sentence), "CI −0.1 to 2 (−3) of x-9, y - 1");
    }

    #[test]
    fn the_bundle_cannot_end_its_element() {
        assert!(!SCRIPT.to_ascii_lowercase().contains("</script"));
        assert!(!SCRIPT.contains("<!--"));
        assert!(!STYLE.to_ascii_lowercase().contains("</style"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
