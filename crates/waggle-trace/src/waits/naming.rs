//! Which role does a thread have?
//!
//! What its name says, where the program gives its threads names; else the outermost of the
//! program's own calls, which is what the thread is for. Neighbour: `threads` knows what the
//! servers' names mean.
//!
//! Invariant: a thread of which neither is known gets no role here.

use std::collections::HashMap;

use waggle_foreign::is_harmful;

use crate::event::{StackId, Thread};
use crate::stack::{Stacks, names::Names};
use crate::threads::{role_of, role_of_root};
use crate::timeline::Records;

/// Threads whose purpose is remembered; beyond, it is looked up again.
const THREADS_MAX: usize = 131_072;

/// Roles of threads without names, each looked up once: the first stack tells.
#[derive(Debug)]
pub struct Naming {
    program: String,
    purposes: HashMap<Thread, String>,
}

impl Naming {
    /// For a process whose threads are called `program` unless they have names of their own.
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            purposes: HashMap::new(),
        }
    }

    /// The role of a thread that is in these calls.
    pub fn role(
        &mut self,
        (records, stacks, names): (&Records, &Stacks, &mut Names),
        thread: Thread,
        stack: Option<StackId>,
    ) -> Option<String> {
        let name = records.name(thread)?;
        if name != self.program {
            return Some(plain(role_of(&name)));
        }
        if let Some(purpose) = self.purposes.get(&thread) {
            return Some(purpose.clone());
        }
        let purpose = role_of_root(&names.root(stacks, stack?)?);
        if self.purposes.len() >= THREADS_MAX {
            self.purposes.clear();
        }
        self.purposes.insert(thread, purpose.clone());
        Some(purpose)
    }
}

/// The kernel allows every byte in a name, and it goes to a terminal.
fn plain(name: &str) -> String {
    let plain = |c: char| if is_harmful(c) { '?' } else { c };
    name.chars().map(plain).collect()
}
