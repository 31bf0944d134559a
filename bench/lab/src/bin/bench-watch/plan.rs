//! The flags of bench-watch, and how they divide the time.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;
use waggle_bench_lab::server::sandbox_name;
use waggle_server::Flavour;

/// CPU the agent is limited to, percent of a core. The lowest two are below what it is promised to
/// do with, and below what it takes: there the curve bends.
pub(crate) const LEVELS: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];
/// Lengths of statements beside the shortest, bytes.
const TEXTS: [u32; 2] = [1_024, 16_384];
/// Rates beside full speed, statements a second.
const RATES: [u32; 2] = [1_000, 10_000];
/// One run under a limit: the governor looks for two seconds before it leaves anything out, and
/// takes several steps.
const STARVED_S: u32 = 15;
/// Starting and ending what a run under a limit needs.
const STARVED_AROUND_S: u32 = 4;

/// Measure what `waggle watch` costs, and what it captures when it may cost little.
#[derive(Debug, Parser)]
#[command(name = "bench-watch", max_term_width = 100)]
pub(crate) struct Args {
    /// How long it takes, all in all; less than 12 cannot be kept to
    #[arg(long, default_value_t = 45)]
    pub(crate) minutes: u32,
    /// The server
    #[arg(long, default_value = "mysql", value_name = "mysql|mariadb")]
    pub(crate) sandbox: Flavour,
    /// Which parts
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Part::Price, Part::Standing, Part::Starved])]
    pub(crate) parts: Vec<Part>,
    /// The waggle to measure
    #[arg(long, default_value = "target/release/waggle", value_name = "PATH")]
    pub(crate) waggle: PathBuf,
    /// Where run directories are kept
    #[arg(long, default_value = "target/bench-watch", value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// Where the result is filed, as DATE-watch.md and .json; none: standard output only
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// CPU time a statement, by the lab.
    Price,
    /// Idle, memory, further servers, host only.
    Standing,
    /// Captured share against CPU given.
    Starved,
}

/// A condition under which the price is measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// For people.
    pub(crate) title: String,
    /// Length of the statement's text, bytes; `None`: that of `oltp_point_select`.
    pub(crate) text_bytes: Option<u32>,
    /// Statements a second; `None`: as many as the server answers.
    pub(crate) rate: Option<u32>,
}

/// How the time is divided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Conditions of the price.
    pub(crate) cells: Vec<Cell>,
    /// Seconds of each.
    pub(crate) cell_s: u32,
    /// Rounds of the runs under limits; in a round each limit comes once, and none once.
    pub(crate) rounds: u32,
    /// Seconds of load in each.
    pub(crate) starved_s: u32,
}

impl Plan {
    pub(crate) fn of(args: &Args) -> Self {
        let full = |title: &str, text_bytes, rate| Cell {
            title: title.to_owned(),
            text_bytes,
            rate,
        };
        let mut cells = vec![full("point selects, full speed", None, None)];
        cells.extend(TEXTS.map(|bytes| {
            full(
                &format!("texts of {bytes} bytes, full speed"),
                Some(bytes),
                None,
            )
        }));
        cells.extend(
            RATES.map(|rate| full(&format!("point selects, {rate} a second"), None, Some(rate))),
        );
        // Somewhat more than half goes to the price; a cell below 90 s has too few windows.
        let cell_s = (args.minutes * 60 * 55 / 100 / cells.len() as u32).clamp(90, 900);
        let round_s = (LEVELS.len() as u32 + 1) * (STARVED_S + STARVED_AROUND_S);
        let rounds = (args.minutes * 60 * 35 / 100 / round_s).clamp(1, 20);
        Self {
            cells,
            cell_s,
            rounds,
            starved_s: STARVED_S,
        }
    }
}

impl Args {
    /// The command that repeats this run.
    pub(crate) fn command(&self) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .filter_map(|part| Some(part.to_possible_value()?.get_name().to_owned()))
            .collect();
        format!(
            "cargo xtask bench-watch --minutes {} --sandbox {} --parts {}",
            self.minutes,
            sandbox_name(self.sandbox),
            parts.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_divided_and_kept_to() {
        for minutes in [15, 45, 180] {
            let args = Args::parse_from(["bench-watch", "--minutes", &minutes.to_string()]);
            let plan = Plan::of(&args);
            let price = plan.cell_s * plan.cells.len() as u32;
            let levels = LEVELS.len() as u32 + 1;
            let starved = plan.rounds * levels * (plan.starved_s + STARVED_AROUND_S);
            assert!(price + starved <= minutes * 60, "{minutes}: {plan:?}");
        }
        let shortest = Plan::of(&Args::parse_from(["bench-watch", "--minutes", "1"]));
        assert_eq!((shortest.cell_s, shortest.rounds), (90, 1));
    }
}
