//! A database that answers by a function and remembers what it was asked, for tests.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::{
    Driver, DriverError, Fill, Interrupter, LoadColumn, Outcome, Prepared, RowForm, Session,
    TextResults, Value,
};

/// One statement as the server sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) session: u32,
    pub(crate) sql: String,
    /// `None`: a text statement.
    pub(crate) params: Option<Vec<String>>,
}

type Answer = dyn Fn(&Scripted, &Asked) -> Result<Outcome, DriverError> + Send + Sync;

pub(crate) struct Scripted {
    answer: Box<Answer>,
    sessions: AtomicU32,
    pub(crate) asked: Mutex<Vec<Asked>>,
    /// Statements being answered now.
    pub(crate) in_flight: AtomicI64,
    /// Sessions between BEGIN and COMMIT or ROLLBACK.
    pub(crate) open_transactions: AtomicI64,
    pub(crate) interrupted: Mutex<Vec<u32>>,
    pub(crate) refuse_connect: bool,
    /// Takes rows as a stream; each packet of it is asked about as `ROWS` and their number.
    pub(crate) streams: AtomicBool,
    /// Asked before a session gets this number.
    pub(crate) admits: Mutex<Box<Admits>>,
    /// Session and text of what was prepared.
    pub(crate) prepared: Mutex<Vec<(u32, String)>>,
}

type Admits = dyn Fn(u32) -> Result<(), DriverError> + Send;

impl Scripted {
    pub(crate) fn answering(
        answer: impl Fn(&Scripted, &Asked) -> Result<Outcome, DriverError> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Arc::new(Scripted {
            answer: Box::new(answer),
            sessions: AtomicU32::new(0),
            asked: Mutex::default(),
            in_flight: AtomicI64::new(0),
            open_transactions: AtomicI64::new(0),
            interrupted: Mutex::default(),
            refuse_connect: false,
            streams: AtomicBool::new(false),
            admits: Mutex::new(Box::new(|_| Ok(()))),
            prepared: Mutex::default(),
        })
    }

    /// Answers every statement with nothing.
    pub(crate) fn silent() -> Arc<Scripted> {
        Scripted::answering(|_, _| Ok(Outcome::default()))
    }

    /// Texts of all statements, in the order they came.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked.sql.clone())
            .collect()
    }

    fn ask(&self, asked: Asked) -> Result<Outcome, DriverError> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        match asked.sql.as_str() {
            "BEGIN" => _ = self.open_transactions.fetch_add(1, Ordering::SeqCst),
            "COMMIT" | "ROLLBACK" => _ = self.open_transactions.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
        let answer = (self.answer)(self, &asked);
        self.asked.lock().unwrap().push(asked);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

pub(crate) fn server_error(errno: u16, message: &str) -> DriverError {
    DriverError::Server {
        errno,
        sqlstate: "HY000".into(),
        message: message.into(),
    }
}

/// The driver of a scripted database.
pub(crate) struct ScriptedDriver(pub(crate) Arc<Scripted>);

impl Driver for ScriptedDriver {
    fn name(&self) -> &str {
        "scripted"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        if self.0.refuse_connect {
            return Err(server_error(1045, "Access denied for user 'nobody'"));
        }
        let number = self.0.sessions.fetch_add(1, Ordering::SeqCst);
        (self.0.admits.lock().unwrap())(number)?;
        Ok(Box::new(ScriptedSession {
            number,
            server: self.0.clone(),
            prepared: Vec::new(),
            is_lost: false,
        }))
    }
}

struct ScriptedSession {
    number: u32,
    server: Arc<Scripted>,
    prepared: Vec<String>,
    is_lost: bool,
}

impl ScriptedSession {
    fn ask(&mut self, sql: String, params: Option<Vec<String>>) -> Result<Outcome, DriverError> {
        let session = self.number;
        let answer = self.server.ask(Asked {
            session,
            sql,
            params,
        });
        self.is_lost |= matches!(answer, Err(DriverError::Lost { .. }));
        answer
    }
}

impl Session for ScriptedSession {
    fn query(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError> {
        let sql = String::from_utf8_lossy(sql).into_owned();
        results.clear();
        results.begin_set(3);
        results.push_row([Some(&b"one"[..]), None, Some(&b"three"[..])]);
        self.ask(sql, None)
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let sql = String::from_utf8_lossy(sql).into_owned();
        let params = sql.matches('?').count() as u16;
        let mut log = self.server.prepared.lock().unwrap();
        log.push((self.number, sql.clone()));
        drop(log);
        self.prepared.push(sql);
        Ok(Prepared {
            handle: self.prepared.len() as u32 - 1,
            params,
        })
    }

    fn execute(&mut self, handle: u32, params: &[Value<'_>]) -> Result<Outcome, DriverError> {
        let sql = self.prepared[handle as usize].clone();
        let text = |value: &Value<'_>| match value {
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        let params = Some(params.iter().map(text).collect());
        self.ask(sql, params)
    }

    fn close_statement(&mut self, _handle: u32) -> Result<(), DriverError> {
        Ok(())
    }

    fn load(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Option<Outcome>, DriverError> {
        if !self.server.streams.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        self.ask(format!("LOAD {table} ({})", names.join(", ")), None)?;
        let mut outcome = Outcome::default();
        loop {
            let mut packet = Vec::new();
            let rows = fill(RowForm::Lines, &mut packet);
            assert_eq!(
                packet.iter().filter(|byte| **byte == b'\n').count() as u64,
                rows
            );
            self.ask(format!("ROWS {rows}"), None)?;
            outcome.affected += rows;
            if rows == 0 {
                return Ok(Some(outcome));
            }
        }
    }

    fn is_usable(&self) -> bool {
        !self.is_lost
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let (server, number) = (self.server.clone(), self.number);
        Some(Box::new(move || {
            server.interrupted.lock().unwrap().push(number)
        }))
    }

    fn close(self: Box<Self>) {}
}
