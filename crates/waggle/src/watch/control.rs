//! Lets the lab switch the probe: a line in, one JSON line out, in order.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use serde_json::Value;
use waggle_probes::burn::{BURN_NS_MAX, Burn};

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Attach the capturing program.
    Attach,
    /// Attach the empty program.
    Empty,
    /// Attach the burning program: `burn NS`, or `burn nothing` for the trap alone.
    Burn(Burn),
    /// Have the kernel count run times: `runs on`, `runs off`.
    CountRuns(bool),
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
            orders.push(Order::parse(line.trim_ascii()));
        }
        Ok(orders)
    }
}

impl Order {
    fn parse(line: &[u8]) -> Self {
        match line {
            b"attach" => Self::Attach,
            b"empty" => Self::Empty,
            b"detach" => Self::Detach,
            b"status" => Self::Status,
            b"quit" => Self::Quit,
            b"runs on" => Self::CountRuns(true),
            b"runs off" => Self::CountRuns(false),
            b"burn nothing" => Self::Burn(Burn::Nothing),
            _ => line
                .strip_prefix(b"burn ")
                .and_then(|ns| std::str::from_utf8(ns).ok()?.parse().ok())
                .filter(|ns| *ns <= BURN_NS_MAX)
                .map_or(Self::Unknown, |ns| Self::Burn(Burn::Ns(ns))),
        }
    }
}

/// Answers an order.
pub(super) fn answer(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_burned_is_read_and_what_cannot_be_is_refused() {
        let parsed = |line: &str| Order::parse(line.as_bytes());
        assert_eq!(parsed("burn 0"), Order::Burn(Burn::Ns(0)));
        assert_eq!(parsed("burn 100000"), Order::Burn(Burn::Ns(BURN_NS_MAX)));
        assert_eq!(parsed("burn nothing"), Order::Burn(Burn::Nothing));
        assert_eq!(parsed("runs on"), Order::CountRuns(true));
        for odd in [
            "burn",
            "burn ",
            "burn -1",
            "burn 1us",
            "burn 100001",
            "runs",
        ] {
            assert_eq!(parsed(odd), Order::Unknown, "{odd}");
        }
    }
}
