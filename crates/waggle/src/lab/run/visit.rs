//! One stay in a cell: windows in a given order, recorded as they come.

use std::collections::BTreeMap;
use std::time::Instant;

use waggle_stats::latency::LatencyHistogram;

use super::line::{Event, bars};
use super::stand::Seat;
use super::{Engine, Stop};
use crate::experiment::{Fault, Measure, Measured};
use crate::lab::cell::{OperationWindow, Sample};

/// Why a stay ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    Stop(Stop),
    /// The server (or the load on it) is lost; the arm that was on.
    Server {
        why: String,
        arm: usize,
    },
}

impl<E: Into<Stop>> From<E> for Trouble {
    fn from(stop: E) -> Self {
        Self::Stop(stop.into())
    }
}

/// Which windows a stay measures.
pub(super) struct Stay<'a> {
    pub(super) cell: usize,
    /// Arms in order, the base among them.
    pub(super) order: &'a [usize],
    /// No arm's window begins after this.
    pub(super) until: Option<Instant>,
    pub(super) life: usize,
    pub(super) pair: bool,
}

/// Latencies of a stay by arm: of all transactions, and by kind.
type Latencies = BTreeMap<usize, (LatencyHistogram, BTreeMap<String, LatencyHistogram>)>;

impl Engine<'_> {
    /// Measures the windows of a stay. An arm that cannot be switched is stopped, and the others go
    /// on.
    pub(super) fn visit(&mut self, seat: &mut Seat<'_>, stay: &Stay<'_>) -> Result<(), Trouble> {
        let lost = |error: anyhow::Error| Trouble::Server {
            why: format!("{error:#}"),
            arm: 0,
        };
        for stand in seat.stands() {
            stand.know_normal().map_err(lost)?;
        }
        let mut latencies = Latencies::new();
        let windows = self.windows(seat, stay, &mut latencies);
        self.record_latencies(stay, latencies)?;
        windows?;
        let arms = &seat.cell.arms;
        for stand in seat.stands() {
            if let Some(left) = stand.settle(arms).map_err(lost)? {
                let text = format!("After a round of windows {left}; that was undone.");
                self.note(stay.cell, text)?;
            }
        }
        match seat.lost() {
            Some(why) => Err(Trouble::Server { why, arm: 0 }),
            None => Ok(()),
        }
    }

    fn windows(
        &mut self,
        seat: &mut Seat<'_>,
        stay: &Stay<'_>,
        latencies: &mut Latencies,
    ) -> Result<(), Trouble> {
        for &arm in stay.order {
            // A chain that ends with an arm would leave its last window without a neighbour.
            if arm != 0 && stay.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            self.check_interrupt()?;
            if self.cells[stay.cell].stopped.contains_key(&arm) {
                continue;
            }
            let measure = Measure {
                timing: seat.cell.timing,
                detailed: seat.cell.per_operation || seat.cell.rate.is_some(),
                started: self.started,
                offset_s: self.offset_s,
            };
            match measure.window(seat, arm) {
                Ok(measured) => self.record(stay, arm, measured, latencies)?,
                Err(fault) => self.fault(seat, stay, arm, fault)?,
            }
        }
        Ok(())
    }

    fn fault(
        &mut self,
        seat: &mut Seat<'_>,
        stay: &Stay<'_>,
        arm: usize,
        fault: Fault,
    ) -> Result<(), Trouble> {
        // What a signal to everything in the foreground did is no fault of the arm's.
        self.check_interrupt()?;
        let lost = seat.lost();
        match (fault, lost) {
            // Without its base a cell has nothing to compare with.
            (fault @ (Fault::On(_) | Fault::Off(_)), None) if arm == 0 => Err(Trouble::Server {
                why: fault.to_string(),
                arm,
            }),
            (fault @ (Fault::On(_) | Fault::Off(_)), None) => {
                Ok(self.stop_arm(stay.cell, arm, fault.to_string())?)
            }
            (fault @ (Fault::On(_) | Fault::Off(_)), Some(why)) => {
                if !why.starts_with("the server ended") {
                    self.stop_arm(stay.cell, arm, fault.to_string())?;
                }
                Err(Trouble::Server { why, arm })
            }
            (Fault::Load(error), lost) => Err(Trouble::Server {
                why: lost.unwrap_or_else(|| format!("{error:#}")),
                arm,
            }),
        }
    }

    fn record(
        &mut self,
        stay: &Stay<'_>,
        arm: usize,
        measured: Measured,
        latencies: &mut Latencies,
    ) -> Result<(), Stop> {
        let cell = &mut self.cells[stay.cell];
        let name = cell.spec.arm_name(arm).to_owned();
        let mut window = measured.window;
        window.life = stay.life;
        let operation = |(name, latency): (&String, &LatencyHistogram)| {
            let window = OperationWindow {
                count: latency.count(),
                mean_us: latency.mean_ns() / 1e3,
                p50_us: latency.quantile_us(0.50),
                p95_us: latency.quantile_us(0.95),
                p99_us: latency.quantile_us(0.99),
            };
            (name.clone(), window)
        };
        let sample = Sample {
            cell: cell.spec.id.clone(),
            name: name.clone(),
            pair: stay.pair,
            window,
            switched_s: measured.switched_s,
            slices: measured
                .slices
                .iter()
                .map(|s| [(s.to_s * 1e9) as u64, s.statements, s.server_cpu_ns])
                .collect(),
            counters: measured.counters,
            transactions: measured.transactions,
            errors: measured.errors,
            error_example: measured.error_example,
            executed: measured.executed,
            captured: measured.observed.captured,
            lost: measured.observed.lost,
            tool_cpu_ns: measured.tool_cpu_ns,
            tool_rss_bytes: measured.tool_rss_bytes,
            backlog: measured.backlog,
            operations: measured.operations.iter().map(operation).collect(),
        };
        self.run.append(&sample)?;
        self.progress.window(&name, &window);
        if stay.pair {
            self.pending.push((stay.cell, sample));
        } else {
            cell.add(sample);
            self.profiled_window(stay.cell, &name, window.start_s, window.duration_s);
        }
        let (all, kinds) = latencies.entry(arm).or_default();
        all.merge(&measured.latency);
        for (kind, latency) in measured.operations {
            kinds.entry(kind).or_default().merge(&latency);
        }
        Ok(())
    }

    /// Latencies are written once a stay: a histogram a window would be most of the run's bytes.
    fn record_latencies(&mut self, stay: &Stay<'_>, latencies: Latencies) -> Result<(), Stop> {
        let id = self.cells[stay.cell].spec.id.clone();
        for (arm, (all, kinds)) in latencies {
            self.run.append(&Event::Latency {
                cell: id.clone(),
                pair: stay.pair,
                life: stay.life,
                arm,
                all: bars(&all),
                operations: kinds.iter().map(|(k, l)| (k.clone(), bars(l))).collect(),
            })?;
            if stay.pair {
                self.pending_latencies.push((stay.cell, arm, all, kinds));
            } else {
                self.cells[stay.cell].add_latencies(false, arm, &all, &kinds);
            }
        }
        Ok(())
    }

    /// What was measured of a pair of servers counts from now on: it is whole.
    pub(super) fn count_pair(&mut self) {
        for (cell, sample) in std::mem::take(&mut self.pending) {
            self.cells[cell].add(sample);
        }
        for (cell, arm, all, kinds) in std::mem::take(&mut self.pending_latencies) {
            self.cells[cell].add_latencies(true, arm, &all, &kinds);
        }
    }

    /// What was measured of a pair of servers does not count: it was lost.
    pub(super) fn forget_pair(&mut self) {
        self.pending.clear();
        self.pending_latencies.clear();
    }
}
