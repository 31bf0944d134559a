//! Changes at the source while it is copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use super::BenchArgs;
use super::case::{Case, Random};

/// A thread that writes, if one was asked for.
pub(super) struct Writes {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Writes {
    pub(super) fn begin(source: &Sandbox, case: Case, args: &BenchArgs) -> anyhow::Result<Writes> {
        let over = Arc::new(AtomicBool::new(false));
        if args.writes == 0 {
            return Ok(Writes { over, thread: None });
        }
        let mut connection = Connection::connect(&source.dsn_socket())?;
        let every = Duration::from_secs(1) / args.writes;
        let rows = args.rows.div_ceil(u64::from(case.tables()));
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let (mut random, mut next) = (Random(42), Instant::now());
            while !ends.load(Ordering::Relaxed) {
                let table = random.next() % u64::from(case.tables()) + 1;
                let sql = case.update(table as u32, random.next() % rows + 1);
                connection.query(sql.as_bytes())?;
                next += every;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            Ok(())
        });
        Ok(Writes {
            over,
            thread: Some(thread),
        })
    }

    /// Ends them; whether there were any.
    pub(super) fn end(mut self) -> anyhow::Result<bool> {
        self.over.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
