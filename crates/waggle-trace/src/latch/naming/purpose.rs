//! What does a thread sleep for that sleeps on a futex?
//!
//! Invariant: told by the names of the calls it is in, or not at all.

use super::Naming;
use crate::event::StackId;
use crate::latch::seen::Kind;
use crate::stack::Stacks;

/// How many calls from the kernel up are looked at.
const CALLS_LOOKED_AT: usize = 6;

/// What a futex is slept on for, by the functions of the C library that the thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::latch) enum Purpose {
    /// A latch.
    Latch(Kind),
    /// A condition, a semaphore, another thread's end.
    Condition,
}

impl Naming {
    /// What a sleep on a futex is for; `None` if the calls do not say.
    pub(in crate::latch) fn purpose(
        &mut self,
        stacks: &Stacks,
        id: Option<StackId>,
    ) -> Option<Purpose> {
        let id = id?;
        if let Some(known) = self.kinds.get(&id) {
            return known.map(Purpose::Latch).or(Some(Purpose::Condition));
        }
        let addresses = stacks.get(id)?.addresses.clone();
        let mut found = None;
        for (at, address) in addresses.iter().take(CALLS_LOOKED_AT).enumerate() {
            let call = self
                .symbols
                .of_address(self.pid, address - u64::from(at > 0));
            let call = call.trim_start_matches('_');
            found = if call.starts_with("pthread_mutex_") {
                Some(Purpose::Latch(Kind::PthreadMutex))
            } else if call.starts_with("pthread_rwlock_") {
                Some(Purpose::Latch(Kind::PthreadRwLock))
            } else if ["pthread_", "sem_", "thrd_join", "cnd_"]
                .iter()
                .any(|of| call.starts_with(of))
            {
                Some(Purpose::Condition)
            } else {
                None
            };
            if found.is_some() {
                break;
            }
        }
        match found? {
            Purpose::Latch(kind) => self.kinds.insert(id, Some(kind)),
            Purpose::Condition => self.kinds.insert(id, None),
        };
        found
    }
}
