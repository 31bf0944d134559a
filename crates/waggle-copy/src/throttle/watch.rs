//! Looks at the servers, and holds the copy while one is above a limit.
//!
//! A thread of its own with a session of its own at each server it has to ask. Invariant: a limit
//! that cannot be looked at is an error, not one that holds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use waggle_wire::{Connection, Dsn};

use super::Throttle;
use crate::control::Control;
use crate::error::CopyError;
use crate::session;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// How often the end is looked for.
const PIECES: u32 = 10;

/// Runs until `is_over`; ends at once without a limit to look at.
///
/// # Errors
/// What a server says, such as that it has no such counter.
pub fn watch(
    throttle: &Throttle,
    source: &Dsn,
    target: &Dsn,
    control: &Control,
    is_over: &dyn Fn() -> bool,
) -> Result<(), CopyError> {
    let limits = &throttle.limits;
    let asks_source = !limits.load_max.is_empty() || limits.history_max.is_some();
    if !asks_source && limits.lag_max.is_none() {
        return Ok(());
    }
    let mut source = asks_source.then(|| session::source(source)).transpose()?;
    let mut target = match limits.lag_max {
        Some(_) => Some(session::target(target)?),
        None => None,
    };
    while !is_over() && !control.is_stopping() {
        let mut is_loaded = false;
        if let Some(source) = &mut source {
            for (name, most) in &limits.load_max {
                is_loaded |= status(source, name)? > *most;
            }
            if let Some(most) = limits.history_max {
                is_loaded |= history(source)? > most;
            }
        }
        if let (Some(target), Some(most)) = (&mut target, limits.lag_max) {
            is_loaded |= lag(target)?.is_none_or(|lag| lag > most);
        }
        throttle.is_loaded.store(is_loaded, Ordering::Relaxed);
        for _ in 0..PIECES {
            if is_over() || control.is_stopping() {
                break;
            }
            std::thread::sleep(EVERY / PIECES);
        }
    }
    throttle.is_loaded.store(false, Ordering::Relaxed);
    Ok(())
}

fn status(source: &mut Connection, name: &str) -> Result<u64, CopyError> {
    let plain: String = name
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .collect();
    let sql = format!("SHOW GLOBAL STATUS LIKE '{}'", plain.replace('_', "\\_"));
    first(source, &sql, 1)?.ok_or_else(|| {
        CopyError::Progress(format!(
            "the source has no counter {name} to hold the copy by"
        ))
    })
}

/// The length of InnoDB's history list, of transactions that purge has not done.
fn history(source: &mut Connection) -> Result<u64, CopyError> {
    let sql = match source.is_mariadb() {
        true => "SHOW GLOBAL STATUS LIKE 'Innodb\\_history\\_list\\_length'",
        false => {
            "SELECT NAME, COUNT FROM information_schema.INNODB_METRICS \
             WHERE NAME = 'trx_rseg_history_len'"
        }
    };
    first(source, sql, 1)?
        .ok_or_else(|| CopyError::Progress("the source tells no history list length".into()))
}

/// How far a target that is a replica is behind; `None` when it does not know.
fn lag(target: &mut Connection) -> Result<Option<Duration>, CopyError> {
    /// Of `SHOW REPLICA STATUS`, at either flavour of server.
    const SECONDS_BEHIND: usize = 32;
    let sql = "SHOW REPLICA STATUS";
    let found = target
        .query_rows(sql.as_bytes())
        .map_err(CopyError::target("reading its lag"))?;
    let Some(row) = found.first() else {
        // No replica: nothing to be behind.
        return Ok(Some(Duration::ZERO));
    };
    let value = row.get(SECONDS_BEHIND).and_then(Option::as_deref);
    let seconds = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    Ok(seconds.map(Duration::from_secs))
}

fn first(server: &mut Connection, sql: &str, column: usize) -> Result<Option<u64>, CopyError> {
    let found = server
        .query_rows(sql.as_bytes())
        .map_err(CopyError::source("reading its load"))?;
    let value = found.first().and_then(|row| row.get(column)?.as_deref());
    Ok(value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()))
}
