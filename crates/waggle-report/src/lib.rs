//! What a run leaves behind and how it is shown: the run directory, text tables, the HTML page.
//!
//! Neighbours: verbs write through [`run::RunDir`] while they measure; `waggle report` reads the
//! same directory through [`run::Run`] and shows it as text ([`summary`], [`lab::text`]), as
//! [`markdown`] or [`csv`], or as one self-contained page ([`page`]). Documents are of one
//! experiment ([`lab`]), of many ([`study`]), of a load ([`mod@bench`]), of a [`mod@trace`], of a
//! [`mod@profile`] and of a tuning run ([`mod@tune`]). The page's own code is TypeScript under
//! `web/`, bundled by `build.rs`.
//!
//! Invariants: a run directory is append-only while running and readable after a kill; bytes read
//! back from one are foreign and never panic; a reading that did not happen is `None`, never zero.

pub mod bench;
pub mod csv;
pub mod document;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
pub mod lab;
pub mod markdown;
pub mod page;
pub mod profile;
pub mod quantity;
pub mod run;
pub mod study;
pub mod summary;
pub mod table;
pub mod trace;
pub mod tune;
