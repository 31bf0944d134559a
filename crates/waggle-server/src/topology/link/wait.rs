//! Waiting until a replica has received or applied what its primary wrote.
//!
//! The server itself waits where it can; where it cannot, its status is looked at again and again.
//! Neighbour: the parent asks the server. Invariant: nothing is waited for without a deadline, and
//! a thread of the replica that stopped ends a wait at once, with the server's words.

use std::thread;
use std::time::{Duration, Instant};

use super::Link;
use crate::Flavour;
use crate::topology::{Position, ReplicaStatus, ReplicaThread, TopologyError};

/// How long the server waits for a position before the replica's health is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same where nothing but looking tells.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Link {
    /// Waits until the replica has its connection to the primary and applies.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], [`TopologyError::Late`], and those of [`status`](Self::status).
    pub fn wait_running(&mut self, patience: Duration) -> Result<(), TopologyError> {
        self.look_until("connect to its primary", patience, |status| {
            (status.receiving == ReplicaThread::Running).then_some(())
        })
    }

    /// Waits until the replica has received all of `target`, applied or not.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], [`TopologyError::Late`], and those of [`status`](Self::status).
    pub fn wait_received(
        &mut self,
        target: &Position,
        patience: Duration,
    ) -> Result<(), TopologyError> {
        let applied = self.applied()?;
        self.look_until("receive what its primary wrote", patience, |status| {
            has_received(status, &applied, target).then_some(())
        })
    }

    fn look_until(
        &mut self,
        doing: &'static str,
        patience: Duration,
        is_done: impl Fn(&ReplicaStatus) -> Option<()>,
    ) -> Result<(), TopologyError> {
        let deadline = Instant::now() + patience;
        loop {
            let Some(status) = self.status()? else {
                return Err(self.strange("the state of its replication", ""));
            };
            if is_done(&status).is_some() {
                return Ok(());
            }
            if status.receiving == ReplicaThread::Stopped {
                return Err(TopologyError::Stopped {
                    name: self.name.clone(),
                    doing: "receive",
                    why: status.receive_trouble().unwrap_or_default(),
                });
            }
            if Instant::now() >= deadline {
                let why = status.receive_trouble();
                let why = why.unwrap_or_else(|| format!("it has received {}", status.received));
                return Err(self.late(doing, patience, why));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until the replica has applied all of `target`.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`]: it does not apply, or what is missing will not come;
    /// [`TopologyError::Late`] says how far it is; and those of [`status`](Self::status).
    pub fn wait_applied(
        &mut self,
        target: &Position,
        patience: Duration,
    ) -> Result<(), TopologyError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // To servers, no time is one without end.
            let time = left.clamp(LOOK_AGAIN, LOOK_EVERY);
            if self.server_waits(target, time)? {
                return Ok(());
            }
            let status = self.check_health(target)?;
            if left.is_zero() {
                let applied = self.applied()?;
                let mut why = match target.since(&applied) {
                    Some(missing) => format!("{missing} transactions are missing"),
                    None => format!("it is at {applied}, not yet at {target}"),
                };
                if let Some(trouble) = status.receive_trouble() {
                    why = format!("{why}, and it receives none: {trouble}");
                }
                return Err(self.late("apply what its primary wrote", patience, why));
            }
        }
    }

    /// Lets the server wait for a position; whether it is reached. An empty one always is.
    fn server_waits(&mut self, target: &Position, time: Duration) -> Result<bool, TopologyError> {
        let seconds = time.as_secs_f64();
        let sql = match target {
            Position::MySql(set) => {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {seconds:.3})")
            }
            Position::MariaDb(position) => {
                format!("SELECT MASTER_GTID_WAIT('{position}', {seconds:.3})")
            }
            Position::File { .. } => {
                let reached = self.applied()?.reaches(target);
                if !reached {
                    thread::sleep(LOOK_AGAIN.min(time));
                }
                return Ok(reached);
            }
        };
        let answer = self.value(&sql, "wait for a position")?;
        Ok(answer == "0" || (answer.is_empty() && self.applied()?.reaches(target)))
    }

    /// Whether what is missing can still come.
    fn check_health(&mut self, target: &Position) -> Result<ReplicaStatus, TopologyError> {
        let Some(status) = self.status()? else {
            return Err(self.strange("the state of its replication", ""));
        };
        if let Some(why) = status.apply_trouble() {
            return Err(self.applier_stopped(why));
        }
        if status.receiving == ReplicaThread::Stopped
            && !has_received(&status, &self.applied()?, target)
        {
            return Err(TopologyError::Stopped {
                name: self.name.clone(),
                doing: "receive",
                why: status.receive_trouble().unwrap_or_default(),
            });
        }
        Ok(status)
    }

    /// That the applier stands, with the words of the worker that failed, if one did: MySQL's
    /// coordinator says only which.
    fn applier_stopped(&mut self, why: String) -> TopologyError {
        let mut all = why;
        if self.flavour == Flavour::MySql {
            let words = self.value(
                "SELECT LAST_ERROR_MESSAGE FROM \
                 performance_schema.replication_applier_status_by_worker \
                 WHERE LAST_ERROR_NUMBER <> 0 ORDER BY LAST_ERROR_TIMESTAMP LIMIT 1",
                "ask the workers",
            );
            // A server without that table has said what it says.
            if let Some(words) = words.ok().filter(|words| !words.is_empty()) {
                all = format!("{all}; the worker: {words}");
            }
        }
        TopologyError::Stopped {
            name: self.name.clone(),
            doing: "apply",
            why: all,
        }
    }

    /// Refuses a replica whose applier does not run.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], with the server's words, and those of [`status`](Self::status).
    pub fn check_applying(&mut self) -> Result<(), TopologyError> {
        let status = self.status()?;
        match status.and_then(|status| status.apply_trouble()) {
            None => Ok(()),
            Some(why) => Err(self.applier_stopped(why)),
        }
    }

    fn late(&self, doing: &'static str, patience: Duration, why: String) -> TopologyError {
        TopologyError::Late {
            name: self.name.clone(),
            doing,
            seconds: patience.as_secs_f64(),
            why,
        }
    }
}

/// Whether all of `target` has arrived. MySQL's set of what was received begins anew with the
/// server.
fn has_received(status: &ReplicaStatus, applied: &Position, target: &Position) -> bool {
    match (&status.received, applied) {
        (Position::MySql(received), Position::MySql(applied)) => {
            let mut all = received.clone();
            all.union(applied);
            Position::MySql(all).reaches(target)
        }
        (received, applied) => received.reaches(target) || applied.reaches(target),
    }
}
