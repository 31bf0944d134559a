//! What the statements of one digest did, summed.
//!
//! Invariant: a sum stays unknown until the first statement that knows it; then statements that do
//! not know it count as nothing.

use waggle_stats::compact::CompactHistogram;

use super::session_time::Split;
use crate::source::Summed;
use crate::statement::{Statement, Work};
use crate::view::{DigestView, SessionTime};

/// Sums, none of which need be known.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) latency: CompactHistogram,
    time: Split,
    errors: u64,
    rows_sent: Option<u64>,
    rows_examined: Option<u64>,
    rows_affected: Option<u64>,
    warnings: Option<u64>,
    lock_ns: Option<u64>,
    tmp_tables: Option<(u64, u64)>,
    full_scans: Option<(u64, u64)>,
    no_index: Option<u64>,
    storage_bytes: Option<(u64, u64)>,
    switches: Option<(u64, u64)>,
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

fn add_pair<T: Into<u64>>(sum: &mut Option<(u64, u64)>, value: Option<(T, T)>) {
    if let Some((a, b)) = value {
        let (sum_a, sum_b) = sum.unwrap_or((0, 0));
        *sum = Some((
            sum_a.saturating_add(a.into()),
            sum_b.saturating_add(b.into()),
        ));
    }
}

impl Sums {
    #[inline]
    pub(super) fn record(&mut self, statement: &Statement<'_>, split: &Split) {
        self.latency.record(statement.latency_ns.unwrap_or(0));
        self.time.add(split);
        let work: &Work = &statement.work;
        self.errors += u64::from(work.error.unwrap_or(0) != 0);
        add(&mut self.rows_sent, work.rows_sent);
        add(&mut self.rows_examined, work.rows_examined);
        add(&mut self.rows_affected, work.rows_affected);
        add(&mut self.warnings, work.warnings.map(u64::from));
        add(&mut self.lock_ns, work.lock_ns);
        add_pair(&mut self.tmp_tables, work.tmp_tables);
        let scanned = |(scans, joins)| (u64::from(scans > 0), u64::from(joins > 0));
        add_pair(&mut self.full_scans, work.full_scans.map(scanned));
        add(&mut self.no_index, work.no_index.map(u64::from));
        add_pair(&mut self.storage_bytes, work.storage_bytes);
        add_pair(&mut self.switches, work.switches);
    }

    pub(super) fn record_summed(&mut self, summed: &Summed<'_>, split: &Split) {
        self.latency
            .record_summed(summed.count, summed.latency_ns, summed.max_ns, &summed.bars);
        self.time.add(split);
        self.errors += summed.errors;
        let [sent, examined, affected] = summed.rows;
        add(&mut self.rows_sent, sent);
        add(&mut self.rows_examined, examined);
        add(&mut self.rows_affected, affected);
        add(&mut self.lock_ns, summed.lock_ns);
        add(&mut self.warnings, summed.warnings);
        add_pair(&mut self.tmp_tables, summed.tmp_tables);
        add_pair(&mut self.full_scans, summed.full_scans);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.time.add(&other.time);
        self.errors += other.errors;
        add(&mut self.rows_sent, other.rows_sent);
        add(&mut self.rows_examined, other.rows_examined);
        add(&mut self.rows_affected, other.rows_affected);
        add(&mut self.warnings, other.warnings);
        add(&mut self.lock_ns, other.lock_ns);
        add_pair(&mut self.tmp_tables, other.tmp_tables);
        add_pair(&mut self.full_scans, other.full_scans);
        add(&mut self.no_index, other.no_index);
        add_pair(&mut self.storage_bytes, other.storage_bytes);
        add_pair(&mut self.switches, other.switches);
    }

    /// These sums, of a digest without a name yet.
    pub(super) fn view(&self) -> DigestView {
        let time: SessionTime = self.time.seconds();
        DigestView {
            key: 0,
            digest: "".into(),
            fingerprint: "".into(),
            summary: "".into(),
            database: "".into(),
            user: "".into(),
            seen_us: (0, 0),
            errors: self.errors,
            latency: self.latency.clone(),
            time,
            rows_sent: self.rows_sent,
            rows_examined: self.rows_examined,
            rows_affected: self.rows_affected,
            warnings: self.warnings,
            lock_s: self.lock_ns.map(|ns| ns as f64 / 1e9),
            tmp_tables: self.tmp_tables,
            full_scans: self.full_scans,
            no_index: self.no_index,
            storage_bytes: self.storage_bytes,
            switches: self.switches,
        }
    }
}
