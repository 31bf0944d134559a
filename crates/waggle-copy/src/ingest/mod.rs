//! Ranges copied, several at once, each in slices that are transactions of the target.
//!
//! ```text
//! reader (snapshot) ─ rows ─► Encoder ─ lines ─► LOAD DATA LOCAL ─► target
//!                      one SELECT a range          one a slice, with the range's frontier
//! ```
//!
//! Neighbours: `snapshot` gives the readers, `progress` the statements that move a range forward.
//! Invariant: rows and frontier are committed together, after the server has said that it stored
//! every row as it came; a frontier that is not the one this process left ends the copy.

mod feed;
mod retype;
mod slice;

use std::collections::VecDeque;
use std::sync::Mutex;

use waggle_server::cpu::own_thread_cpu_ns;
use waggle_wire::Connection;

use crate::control::Control;
use crate::error::CopyError;
use crate::job::Plan;
use crate::range::Range;
use crate::rows::{self, Encoder};
use crate::session;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::throttle::Throttle;

use feed::Feed;
use slice::Slices;

/// Copies what is left of `ranges`, a session of the snapshot each at a time.
///
/// # Errors
/// The first error of any worker; what was committed until then stays.
pub fn run(
    plan: &Plan,
    tables: &[Table],
    ranges: Vec<Range>,
    snapshot: Snapshot,
    throttle: &Throttle,
    control: &Control,
) -> Result<(), CopyError> {
    let left: VecDeque<Range> = ranges.into_iter().filter(|range| !range.is_done).collect();
    let queue = Mutex::new(left);
    let failed = Mutex::new(None);
    let spare = snapshot.spare.map(Mutex::new);
    std::thread::scope(|scope| {
        for reader in snapshot.readers {
            let (queue, failed, spare) = (&queue, &failed, spare.as_ref());
            scope.spawn(move || {
                let worker = Worker {
                    plan,
                    tables,
                    queue,
                    spare,
                    throttle,
                    control,
                };
                if let Err(error) = worker.run(reader) {
                    // The others end at their next range; theirs is not the first reason.
                    lock(queue).clear();
                    lock(failed).get_or_insert(error);
                }
            });
        }
    });
    match lock(&failed).take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct Worker<'a> {
    plan: &'a Plan,
    tables: &'a [Table],
    queue: &'a Mutex<VecDeque<Range>>,
    /// For questions about a row, while the reader gives rows.
    spare: Option<&'a Mutex<Connection>>,
    throttle: &'a Throttle,
    control: &'a Control,
}

impl Worker<'_> {
    fn run(&self, mut reader: Connection) -> Result<(), CopyError> {
        let mut writer = session::target(&self.plan.target)?;
        let mut counted_ns = own_thread_cpu_ns();
        loop {
            let Some(range) = lock(self.queue).pop_front() else {
                return Ok(());
            };
            let outcome = self.range(&mut reader, &mut writer, range);
            let now_ns = own_thread_cpu_ns();
            Control::add(&self.control.copy_cpu_ns, now_ns - counted_ns);
            counted_ns = now_ns;
            outcome?;
            Control::add(&self.control.ranges_done, 1);
        }
    }

    fn range(
        &self,
        reader: &mut Connection,
        writer: &mut Connection,
        range: Range,
    ) -> Result<(), CopyError> {
        let table = self
            .tables
            .iter()
            .find(|table| table.number == range.table)
            .ok_or_else(|| CopyError::Progress(format!("there is no table {}", range.table)))?;
        self.throttle.wait(self.control)?;
        let doing = || format!("reading {}", table.source);
        let sql = rows::select(table, &range);
        let stream = reader
            .stream_rows(sql.as_bytes())
            .map_err(CopyError::source(doing()))?;
        let encoder = Encoder::new(table);
        if usize::from(stream.columns()) != encoder.columns() {
            return Err(CopyError::Data {
                table: table.source.to_string(),
                what: "the source gives another number of columns than was asked for".into(),
            });
        }
        // Without a key nothing says how far a part of the table goes.
        let slice_bytes = match table.key {
            Some(_) => (self.plan.limits).slice_bytes(self.plan.slice_bytes, self.plan.workers),
            None => u64::MAX,
        };
        let mut slices = Slices {
            plan: self.plan,
            table,
            range,
            load: rows::load(table),
            spare: self.spare,
            writer,
        };
        let mut feed = Feed::new(stream, encoder, slice_bytes);
        while !slices.range.is_done {
            self.throttle.wait(self.control)?;
            let (rows, bytes) = slices.store(&mut feed)?;
            Control::add(&self.control.rows, rows);
            Control::add(&self.control.bytes, bytes);
            self.throttle.pay(bytes);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
