//! A database whose statements say what they answer, and a way to run one Lua function on it.
//!
//! `sets 2x3 0x1`: result sets of 2 rows by 3 columns and of no row by 1 column; the values are
//! `set.row.column`, the last of each row with several is NULL. `affects 3`: no result set.
//! `fails 1213`: a server error. All else succeeds and does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::scripted::server_error;
use crate::driver::{Driver, DriverError, Outcome, Prepared, Session, TextResults, Value};
use crate::{Dialect, LoadError, LoadSpec, ScriptFace};

use super::{lua, spec};

#[derive(Default)]
pub(super) struct Rows {
    connects: AtomicU32,
}

struct RowsSession {
    prepared: Vec<String>,
}

impl Driver for Rows {
    fn name(&self) -> &str {
        "mysql"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        self.connects.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(RowsSession {
            prepared: Vec::new(),
        }))
    }
}

fn answer(sql: &str, results: &mut TextResults) -> Result<Outcome, DriverError> {
    results.clear();
    let mut outcome = Outcome::default();
    let (verb, rest) = sql.split_once(' ').unwrap_or((sql, ""));
    match verb {
        "fails" => return Err(server_error(rest.parse().unwrap(), "as asked")),
        "affects" => outcome.affected = rest.parse().unwrap(),
        "sets" => {
            for (set, size) in rest.split(' ').enumerate() {
                let (rows, columns) = size.split_once('x').unwrap();
                let (rows, columns): (usize, usize) =
                    (rows.parse().unwrap(), columns.parse().unwrap());
                results.begin_set(columns);
                for row in 0..rows {
                    let text = |column| format!("{set}.{row}.{column}").into_bytes();
                    let values: Vec<_> = (0..columns)
                        .map(|column| (column == 0 || column + 1 < columns).then(|| text(column)))
                        .collect();
                    results.push_row(values.iter().map(Option::as_deref));
                }
                outcome.result_sets += 1;
                outcome.rows += rows as u64;
            }
        }
        _ => {}
    }
    Ok(outcome)
}

impl Session for RowsSession {
    fn query(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError> {
        answer(std::str::from_utf8(sql).unwrap(), results)
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let sql = String::from_utf8(sql.to_vec()).unwrap();
        if sql.starts_with("unpreparable") {
            return Err(server_error(1213, "not to be prepared"));
        }
        let params = sql.matches('?').count() as u16;
        self.prepared.push(sql);
        let handle = self.prepared.len() as u32 - 1;
        Ok(Prepared { handle, params })
    }

    fn execute(&mut self, handle: u32, _params: &[Value<'_>]) -> Result<Outcome, DriverError> {
        let sql = self.prepared[handle as usize].trim_end_matches([' ', '?', ',']);
        answer(sql, &mut TextResults::default())
    }

    fn close_statement(&mut self, _handle: u32) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_usable(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) {}
}

/// A face over [`Rows`], with a shorthand for assertions about errors.
pub(super) fn face(spec: &LoadSpec) -> Result<ScriptFace, LoadError> {
    ScriptFace::open(spec, Arc::new(Rows::default()))
}

/// Runs `body` as a Lua function with `con` connected; its assertions are Lua's.
#[track_caller]
pub(super) fn run(dialect: Dialect, body: &str) {
    let text = format!(
        "function fails_with(wanted, f, ...)
           local ok, err = pcall(f, ...)
           assert(not ok, 'it did not fail')
           assert(tostring(err):find(wanted, 1, true), tostring(err))
           return err
         end
         function assertions()
           local con = sysbench.sql.driver():connect()
           {body}
         end
         function event() end"
    );
    let mut spec: LoadSpec = spec(lua(&text));
    spec.dialect = dialect;
    let mut face = face(&spec).unwrap_or_else(|error| panic!("{error}"));
    if let Err(error) = face.call_function("assertions") {
        panic!("{error}");
    }
}
