//! Lets the lab switch the probe: a line in, one JSON line out, in order.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use serde_json::Value;

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Attach the capturing program.
    Attach,
    /// Attach the empty program.
    Empty,
    /// Detach.
    Detach,
    /// Report counters.
    Status,
    /// End as on Ctrl-C.
    Quit,
    /// Not understood.
    Unknown,
}

/// The orders on standard input.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pending: Vec<u8>,
    closed: bool,
}

impl Orders {
    /// What to poll for.
    pub(super) fn fd(&self) -> BorrowedFd<'static> {
        rustix::stdio::stdin()
    }

    /// Standard input ended: nobody will give an order any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reads what is there (blocks if nothing is: poll first) and returns the whole lines.
    pub(super) fn read(&mut self) -> io::Result<Vec<Order>> {
        let mut buffer = [0; 1024];
        let length = io::stdin().lock().read(&mut buffer)?;
        self.closed = length == 0;
        self.pending.extend_from_slice(&buffer[..length]);
        let mut orders = Vec::new();
        while let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            orders.push(match line.trim_ascii() {
                b"attach" => Order::Attach,
                b"empty" => Order::Empty,
                b"detach" => Order::Detach,
                b"status" => Order::Status,
                b"quit" => Order::Quit,
                _ => Order::Unknown,
            });
        }
        Ok(orders)
    }
}

/// Answers an order.
pub(super) fn answer(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}
