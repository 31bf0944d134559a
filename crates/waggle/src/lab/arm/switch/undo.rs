//! Takes back what an arm left: values of variables, files, processes.
//!
//! Neighbour: [`Leftover`] says what it is. Invariant: that it is gone is seen, not believed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Switch;
use crate::lab::arm::ArmSpec;
use crate::lab::arm::leftover::{Leftover, State};

/// How long a process that an arm left may take to end before it is killed.
const PROCESS_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
const PROCESS_LOOK: Duration = Duration::from_millis(5);

impl Switch {
    /// Files the arm said it writes, as seen from outside.
    pub(super) fn declared(
        &self,
        arm: &ArmSpec,
        variables: &BTreeMap<String, String>,
    ) -> BTreeSet<PathBuf> {
        let named = arm.files.iter().filter_map(|name| variables.get(name));
        let name = |path: &String| Some(Path::new(path).file_name()?.to_owned());
        named
            .filter_map(name)
            .map(|file| self.datadir.join(file))
            .collect()
    }

    /// Removes what `files` name: a log that was switched off, before it fills the disk.
    pub(crate) fn clear(&mut self, arm: &ArmSpec) {
        let variables = match arm.files.is_empty() {
            true => return,
            false => self.variables().unwrap_or_default(),
        };
        for file in self.declared(arm, &variables) {
            // A log that is on again makes a new one.
            let _ = std::fs::remove_file(file);
        }
    }

    /// What is not as in `before`; undone, if there is anything.
    ///
    /// # Errors
    /// The server does not answer, or something could not be undone.
    pub(crate) fn settle(&mut self, before: &State, arms: &[ArmSpec]) -> anyhow::Result<Leftover> {
        let declared: BTreeSet<PathBuf> = arms
            .iter()
            .flat_map(|arm| self.declared(arm, &before.variables))
            .collect();
        let mut after = self.look()?;
        // One that ended was replaced; it is ours.
        for pid in self.observers.standing() {
            after.processes.remove(&pid);
        }
        let left = before.left(&after, &self.moving, &declared);
        if let Err(error) = self.undo(before, &left, &declared) {
            self.spoiled = Some(format!("{error:#}"));
        }
        Ok(left)
    }

    /// Takes back what is left of an arm.
    ///
    /// # Errors
    /// Something of it is still there.
    pub(super) fn undo(
        &mut self,
        before: &State,
        left: &Leftover,
        declared: &BTreeSet<PathBuf>,
    ) -> anyhow::Result<()> {
        if left.is_empty() {
            return Ok(());
        }
        self.put_back(left);
        for file in &left.files {
            std::fs::remove_file(file).with_context(|| format!("removing {}", file.display()))?;
        }
        for (pid, _) in &left.processes {
            end_process(*pid);
        }
        let now = self.look()?;
        let still = before.left(&now, &self.moving, declared);
        match still.is_empty() {
            true => Ok(()),
            false => bail!("{}, and cannot be undone", still.words()),
        }
    }

    /// Gives variables their values back, as far as the server lets it.
    pub(super) fn put_back(&mut self, left: &Leftover) {
        for (name, before, _) in &left.variables {
            let sql = match name.strip_prefix("consumer ") {
                Some(consumer) => format!(
                    "UPDATE performance_schema.setup_consumers SET enabled = '{before}' \
                     WHERE name = '{consumer}'"
                ),
                None => format!("SET GLOBAL {name} = {}", literal(before)),
            };
            // What does not work is seen by looking again.
            let _ = self.admin.query(sql.as_bytes());
        }
    }
}

/// A variable's value as SQL.
fn literal(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => value.to_owned(),
        _ => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
    }
}

/// Ends a process that an arm left: asked first, then killed.
fn end_process(pid: u32) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else {
        return;
    };
    let gone = || {
        // It is a child of this process now, or its name is gone.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        rustix::process::test_kill_process(pid).is_err()
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + PROCESS_PATIENCE;
        while Instant::now() < deadline {
            if gone() {
                return;
            }
            thread::sleep(PROCESS_LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn values_are_put_back_as_they_read() {
        assert_eq!(literal("1000"), "1000");
        assert_eq!(literal("0.5"), "0.5");
        assert_eq!(literal("ON"), "'ON'");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("nan"), "'nan'");
    }
}
