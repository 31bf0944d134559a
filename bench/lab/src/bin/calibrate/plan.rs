//! The flags of calibrate, and which piece is measured next.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};
use waggle_bench_lab::server::{LoadSpec, sandbox_name};
use waggle_server::Flavour;

use crate::processors::Processors;

/// What the arms burn, ns a statement.
pub(crate) const COSTS_NS: [u64; 5] = [500, 1_000, 2_000, 5_000, 10_000];
/// Experiments of equal things, beside twice as many that are simulated from their windows.
pub(crate) const SAME_WANTED: u64 = 100;
/// Runs of each known cost, quiet and beside a competitor.
pub(crate) const KNOWN_WANTED: u64 = 50;
/// Runs of five minutes.
pub(crate) const PRECISION_WANTED: u64 = 3;
/// Connections of the load, unless told otherwise: with one, server and client take strict turns,
/// and a known cost changes little but what it adds.
pub(crate) const THREADS: u32 = 1;
const TRUTH_WANTED: u64 = 4;
/// A run of this length is what the promised half-width is for.
const PRECISION_S: u64 = 300;
const TRUTH_S: u64 = 40;

/// Hold the lab against known truths. Goes on where the last call with the same --state stopped.
#[derive(Debug, Parser)]
#[command(name = "calibrate", max_term_width = 100)]
pub(crate) struct Args {
    /// Begin no piece that would end later than this; all of it takes some three hours
    #[arg(long, default_value_t = 180)]
    pub(crate) minutes: u64,
    /// Seconds of one run of the lab [default: what suits --minutes, at most 300]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) session: Option<u64>,
    /// The server
    #[arg(long, default_value = "mysql", value_name = "mysql|mariadb")]
    pub(crate) sandbox: Flavour,
    /// Where server, load and observer run: together on one, or on all there are. On several a
    /// known cost also changes how often they idle, so what is found is not what was put in
    #[arg(long, default_value = "one")]
    pub(crate) processors: Processors,
    /// Connections of the load
    #[arg(long, default_value_t = THREADS, value_name = "N")]
    pub(crate) threads: u32,
    /// The waggle to calibrate
    #[arg(long, default_value = "target/release/waggle", value_name = "PATH")]
    pub(crate) waggle: PathBuf,
    /// Where pieces are kept between calls
    #[arg(long, default_value = "target/calibrate", value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// Where the result is filed, as DATE-calibrate.md and .json; none: standard output only
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
}

/// A kind of piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// What each cost really is, by the kernel's counters.
    Truth,
    /// The same beside a competitor.
    TruthCompeting,
    /// Known costs.
    Known,
    /// The same beside a competitor.
    KnownCompeting,
    /// Nothing but equal things.
    Same,
    /// One known cost, for five minutes.
    Precision,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] = [
        Kind::Truth,
        Kind::Known,
        Kind::Same,
        Kind::TruthCompeting,
        Kind::KnownCompeting,
        Kind::Precision,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Truth => "what the known costs are",
            Kind::TruthCompeting => "what they are beside a competitor",
            Kind::Known => "known costs",
            Kind::KnownCompeting => "known costs beside a competitor",
            Kind::Same => "equal things",
            Kind::Precision => "five minutes for 1 us",
        }
    }

    pub(crate) fn competes(self) -> bool {
        matches!(self, Kind::TruthCompeting | Kind::KnownCompeting)
    }

    /// Trials after which there is enough of it.
    pub(crate) fn wanted(self) -> u64 {
        match self {
            Kind::Truth | Kind::TruthCompeting => TRUTH_WANTED,
            Kind::Known | Kind::KnownCompeting => KNOWN_WANTED,
            Kind::Same => SAME_WANTED,
            Kind::Precision => PRECISION_WANTED,
        }
    }
}

impl Args {
    /// The load of every piece.
    pub(crate) fn load(&self) -> LoadSpec {
        LoadSpec {
            threads: self.threads,
            ..LoadSpec::point_selects()
        }
    }

    /// How long a piece of this kind measures, seconds.
    pub(crate) fn session_s(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Truth | Kind::TruthCompeting => TRUTH_S,
            Kind::Precision => PRECISION_S,
            // Six kinds, and each is to have its turn.
            _ => self
                .session
                .unwrap_or((self.minutes * 60 / 8).clamp(75, 300)),
        }
    }

    /// The command that repeats this run.
    pub(crate) fn command(&self) -> String {
        let session = self.session.map(|s| format!(" --session {s}"));
        format!(
            "cargo xtask calibrate --minutes {} --sandbox {} --processors {} --threads {}{}",
            self.minutes,
            sandbox_name(self.sandbox),
            self.processors.name(),
            self.threads,
            session.unwrap_or_default()
        )
    }
}

/// The kind that lacks most of what is wanted, among those that still fit into the time; the
/// first of equals. `progress`: trials of each kind so far, in the order of [`Kind::ALL`].
pub(crate) fn next_kind(args: &Args, progress: &[u64; 6], spent: Duration) -> Option<Kind> {
    let left = (args.minutes * 60).saturating_sub(spent.as_secs());
    let share = |(kind, done): &(Kind, u64)| *done as f64 / kind.wanted() as f64;
    Kind::ALL
        .into_iter()
        .zip(*progress)
        .filter(|piece| share(piece) < 1.0 && args.session_s(piece.0) <= left)
        .min_by(|one, two| share(one).total_cmp(&share(two)))
        .map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(minutes: u64) -> Args {
        let minutes = minutes.to_string();
        Args::parse_from(["calibrate", "--minutes", &minutes])
    }

    #[test]
    fn every_kind_has_its_turn_and_what_lacks_most_is_next() {
        let full = args(180);
        let at_once = Duration::ZERO;
        assert_eq!(next_kind(&full, &[0; 6], at_once), Some(Kind::Truth));
        assert_eq!(
            next_kind(&full, &[1, 0, 0, 0, 0, 0], at_once),
            Some(Kind::Known)
        );
        let next = next_kind(&full, &[1, 8, 10, 1, 8, 1], at_once);
        assert_eq!(next, Some(Kind::Same));
        let whole = Kind::ALL.map(Kind::wanted);
        assert_eq!(next_kind(&full, &whole, at_once), None);
    }

    #[test]
    fn nothing_begins_that_would_not_end_in_time() {
        // Five minutes never fit into four.
        let short = args(4);
        let lacks_precision = [4, 50, 200, 4, 50, 0];
        assert_eq!(next_kind(&short, &lacks_precision, Duration::ZERO), None);
        let late = Duration::from_secs(4 * 60 - 30);
        assert_eq!(next_kind(&short, &[0; 6], late), None);
        let before = Duration::from_secs(4 * 60 - 50);
        assert_eq!(next_kind(&short, &[0; 6], before), Some(Kind::Truth));
    }
}
