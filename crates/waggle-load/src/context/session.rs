//! What a script asks of its servers: connections, statements, bulk inserts.
//!
//! Invariant: a connection's number is never used again, so a stale one is refused.

use crate::driver::{DriverError, Outcome, Session, TextResults};
use crate::tally::locked;

use super::statement::Kept;
use super::{Context, Status};

/// Statements of a bulk insert stay below the packet limit of any server's default settings.
const BULK_INSERT_BYTES: usize = 512 * 1024;

/// One connection of a state.
pub(super) struct Slot {
    pub(super) session: Box<dyn Session>,
    /// By number; closed ones leave a hole.
    pub(super) statements: Vec<Option<Kept>>,
    pub(super) needs_rollback: bool,
    bulk: Bulk,
    /// What the last text statement sent.
    pub(super) results: TextResults,
    /// Number of text statements so far: the name of what `results` holds.
    pub(super) serial: u32,
}

impl Slot {
    fn new(session: Box<dyn Session>, serial: u32) -> Slot {
        Slot {
            session,
            statements: Vec::new(),
            needs_rollback: false,
            bulk: Bulk::default(),
            results: TextResults::default(),
            serial,
        }
    }
}

#[derive(Default)]
struct Bulk {
    head: Vec<u8>,
    buffer: Vec<u8>,
    rows: u64,
}

impl Context {
    pub(crate) fn connect(&mut self) -> Result<u32, Status> {
        if self.shared.is_over() {
            return Err(Status::Stopped);
        }
        let number = self.slots.len() as u32;
        let session = self.open_session(number)?;
        self.slots.push(Some(Slot::new(session, 0)));
        Ok(number)
    }

    fn open_session(&mut self, number: u32) -> Result<Box<dyn Session>, Status> {
        let opened = self.shared.open_session((self.id, number));
        opened.map_err(|error| self.failed(&error, String::new()))
    }

    /// The script wants a new session under the same number; its statements of the old one, which
    /// it will prepare again, are gone. (What the engine does by itself is in `recovery`.)
    pub(crate) fn reconnect(&mut self, connection: u32) -> Result<(), Status> {
        if self.shared.is_over() {
            return Err(Status::Stopped);
        }
        let serial = match self.slots.get(connection as usize) {
            Some(Some(slot)) => slot.serial,
            Some(None) => 0,
            None => return Err(self.failed(&closed(), String::new())),
        };
        self.disconnect(connection);
        let session = self.open_session(connection)?;
        self.slots[connection as usize] = Some(Slot::new(session, serial.wrapping_add(1)));
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, connection: u32) {
        if let Some(slot) = self
            .slots
            .get_mut(connection as usize)
            .and_then(Option::take)
        {
            locked(&self.shared.interrupters).remove(&(self.id, connection));
            slot.session.close();
        }
    }

    pub(crate) fn disconnect_all(&mut self) {
        for connection in 0..self.slots.len() {
            self.disconnect(connection as u32);
        }
    }

    pub(crate) fn query(&mut self, connection: u32, sql: &[u8]) -> Result<Outcome, Status> {
        let begun = self.text_begun();
        let result = match self.slots.get_mut(connection as usize) {
            _ if self.shared.is_over() => Err(stopped()),
            Some(Some(slot)) => {
                slot.serial = slot.serial.wrapping_add(1);
                slot.session.query(sql, &mut slot.results)
            }
            _ => Err(closed()),
        };
        if result.is_ok() {
            self.text_done(begun, sql);
        }
        self.settled(result, connection, || text_of(sql))
    }

    pub(crate) fn bulk_begin(&mut self, connection: u32, head: &[u8]) -> Status {
        match self.slots.get_mut(connection as usize) {
            Some(Some(slot)) => {
                let buffer = Vec::with_capacity(BULK_INSERT_BYTES);
                slot.bulk = Bulk {
                    head: head.to_vec(),
                    buffer,
                    rows: 0,
                };
                Status::Done
            }
            _ => self.failed(&closed(), text_of(head)),
        }
    }

    pub(crate) fn bulk_add(&mut self, connection: u32, values: &[u8]) -> Result<(), Status> {
        let Some(Some(slot)) = self.slots.get(connection as usize) else {
            return Err(self.failed(&closed(), text_of(values)));
        };
        let filled = slot.bulk.buffer.len() + values.len() + 1;
        if slot.bulk.rows > 0 && filled > BULK_INSERT_BYTES {
            self.bulk_flush(connection)?;
        }
        if let Some(Some(Slot { bulk, .. })) = self.slots.get_mut(connection as usize) {
            let lead: &[u8] = if bulk.rows == 0 { &bulk.head } else { b"," };
            bulk.buffer.extend_from_slice(lead);
            if bulk.rows == 0 {
                bulk.buffer.push(b' ');
            }
            bulk.buffer.extend_from_slice(values);
            bulk.rows += 1;
        }
        Ok(())
    }

    pub(crate) fn bulk_flush(&mut self, connection: u32) -> Result<(), Status> {
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Err(self.failed(&closed(), String::new()));
        };
        if slot.bulk.rows == 0 {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut slot.bulk.buffer);
        let rows = std::mem::take(&mut slot.bulk.rows);
        self.query(connection, &buffer)?;
        buffer.clear();
        if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
            slot.bulk.buffer = buffer;
        }
        self.inserted(rows);
        Ok(())
    }

    pub(super) fn on_session<T>(
        &mut self,
        connection: u32,
        operation: impl FnOnce(&mut dyn Session) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        if self.shared.is_over() {
            return Err(stopped());
        }
        match self.slots.get_mut(connection as usize) {
            Some(Some(slot)) => operation(slot.session.as_mut()),
            _ => Err(closed()),
        }
    }
}

pub(super) fn stopped() -> DriverError {
    DriverError::Refused("stopped".to_owned())
}

pub(super) fn closed() -> DriverError {
    DriverError::Refused("the connection is closed".to_owned())
}

pub(super) fn text_of(sql: &[u8]) -> String {
    String::from_utf8_lossy(sql).into_owned()
}
