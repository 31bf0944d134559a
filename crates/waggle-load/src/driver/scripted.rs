//! A database that answers by a function and remembers what it was asked, for tests.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::{Driver, DriverError, Interrupter, Outcome, Prepared, Row, Session, Value};

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
}

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
        Ok(Box::new(ScriptedSession {
            number,
            server: self.0.clone(),
            prepared: Vec::new(),
        }))
    }
}

struct ScriptedSession {
    number: u32,
    server: Arc<Scripted>,
    prepared: Vec<String>,
}

impl Session for ScriptedSession {
    fn query(&mut self, sql: &[u8]) -> Result<Outcome, DriverError> {
        let sql = String::from_utf8_lossy(sql).into_owned();
        self.server.ask(Asked {
            session: self.number,
            sql,
            params: None,
        })
    }

    fn query_rows(&mut self, sql: &[u8]) -> Result<(Outcome, Vec<Row>), DriverError> {
        let outcome = self.query(sql)?;
        Ok((
            outcome,
            vec![vec![Some(b"one".to_vec()), None, Some(b"three".to_vec())]],
        ))
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let sql = String::from_utf8_lossy(sql).into_owned();
        let params = sql.matches('?').count() as u16;
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
        self.server.ask(Asked {
            session: self.number,
            sql,
            params,
        })
    }

    fn close_statement(&mut self, _handle: u32) -> Result<(), DriverError> {
        Ok(())
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let (server, number) = (self.server.clone(), self.number);
        Some(Box::new(move || {
            server.interrupted.lock().unwrap().push(number)
        }))
    }

    fn close(self: Box<Self>) {}
}
