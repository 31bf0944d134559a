//! Which roles are there, and which has a thread?
//!
//! Neighbour: `naming` says which role a thread has that is in some calls; here it is remembered.
//!
//! Invariant: bounded; a thread of which nothing better is known has the program's name.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::THREADS_MAX;
use crate::event::Thread;

/// A role, by its number among [`Waits::role_name`](super::Waits::role_name)'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

/// Roles that are told apart; beyond, they are one.
const ROLES_MAX: usize = 1024;
const OTHERS: &str = "(others)";

/// The roles of a program's threads.
#[derive(Debug)]
pub(super) struct Roles {
    program: String,
    names: Vec<String>,
    by_name: HashMap<String, RoleId>,
    of_thread: FxHashMap<Thread, RoleId>,
}

impl Roles {
    /// None is known yet.
    pub(super) fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            names: Vec::new(),
            by_name: HashMap::new(),
            of_thread: FxHashMap::default(),
        }
    }

    /// Takes note of a thread's role, if it was told.
    pub(super) fn learn(&mut self, thread: Thread, role: Option<String>) {
        let Some(role) = role else { return };
        let known = self.of_thread.get(&thread);
        if known.is_some_and(|id| self.names[usize::from(id.0)] == role) {
            return;
        }
        let id = self.intern(&role);
        if self.of_thread.len() >= THREADS_MAX {
            // Those that still live are learnt again.
            self.of_thread.clear();
        }
        self.of_thread.insert(thread, id);
    }

    fn intern(&mut self, role: &str) -> RoleId {
        if let Some(id) = self.by_name.get(role) {
            return *id;
        }
        let role = if self.names.len() < ROLES_MAX {
            role
        } else {
            OTHERS
        };
        if let Some(id) = self.by_name.get(role) {
            return *id;
        }
        let id = RoleId(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.push(role.to_owned());
        self.by_name.insert(role.to_owned(), id);
        id
    }

    /// The number of a thread's role.
    pub(super) fn id(&mut self, thread: Thread) -> RoleId {
        match self.of_thread.get(&thread) {
            Some(id) => *id,
            None => {
                let program = self.program.clone();
                self.intern(&program)
            }
        }
    }

    /// A role's name.
    pub(super) fn name(&self, role: RoleId) -> &str {
        let name = self.names.get(usize::from(role.0));
        name.map_or(&self.program, String::as_str)
    }

    /// The name of a thread's role.
    pub(super) fn of(&self, thread: Thread) -> &str {
        let role = self.of_thread.get(&thread);
        role.map_or(&self.program, |id| self.name(*id))
    }
}
