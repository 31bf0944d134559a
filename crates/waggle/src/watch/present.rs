//! How a view is shown while watching: a live screen on a terminal, a line a server otherwise.

use std::sync::Arc;
use std::time::Duration;

use waggle_agent::view::View;

use super::report;

/// Shows views as they come.
pub(super) trait Presenter {
    /// Shows `view`; `before` is the one before it.
    ///
    /// # Errors
    /// The terminal cannot be written.
    fn show(&mut self, view: &Arc<View>, before: &View, elapsed: Duration) -> anyhow::Result<()>;

    /// Keys on standard input are meant for it.
    fn takes_keys(&self) -> bool {
        false
    }

    /// Reads the keys that are there; false to end the watch.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    fn keys(&mut self) -> anyhow::Result<bool> {
        Ok(true)
    }

    /// Says what happened.
    fn news(&mut self, line: &str) {
        eprintln!("{line}");
    }
}

/// A line a server on standard error.
pub(super) struct Lines;

impl Presenter for Lines {
    fn show(&mut self, view: &Arc<View>, before: &View, elapsed: Duration) -> anyhow::Result<()> {
        for server in &view.servers {
            let lost: u64 = server.lost.iter().map(|(_, count)| count).sum();
            eprintln!(
                "{:8.1} s  process {}: {} captured, {lost} lost{}",
                elapsed.as_secs_f64(),
                server.pid,
                server.captured,
                report::load_line(server, view, before)
                    .map(|load| format!("; {load}"))
                    .unwrap_or_default(),
            );
        }
        Ok(())
    }
}
