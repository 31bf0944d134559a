//! In which calls was a thread?
//!
//! The kernel half sends each stack once and names it by a number; here it gets a short id, by
//! which events share it. Neighbour: `names` says what the addresses are called.
//!
//! Invariant: an id stands for the same addresses for ever. A stack that was named before it was
//! sent, or whose sending was lost, is there without addresses.

pub mod names;
mod tables;

use rustc_hash::FxHashMap;
use waggle_probes::timeline::StackEnd;

use crate::event::StackId;

/// Most stacks that are kept, each of some hundred bytes.
pub const STACKS_MAX: usize = 262_144;

/// A stack's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Process.
    pub pid: u32,
    /// Innermost first.
    pub addresses: Box<[u64]>,
    /// Where it ends.
    pub end: StackEnd,
}

/// All stacks that were seen.
#[derive(Debug, Default)]
pub struct Stacks {
    by_number: FxHashMap<u64, StackId>,
    stacks: Vec<Option<Stack>>,
}

impl Stacks {
    /// The id of the stack of that number; `None` for 0, and for a new one beyond the most that
    /// are kept.
    pub fn id(&mut self, number: u64) -> Option<StackId> {
        if number == 0 {
            return None;
        }
        if self.stacks.len() >= STACKS_MAX {
            return self.by_number.get(&number).copied();
        }
        let next = u32::try_from(self.stacks.len()).ok()?;
        let id = *self.by_number.entry(number).or_insert(StackId(next));
        if id.0 == next {
            self.stacks.push(None);
        }
        Some(id)
    }

    /// Takes a stack that was sent.
    pub fn add(
        &mut self,
        number: u64,
        pid: u32,
        end: StackEnd,
        addresses: impl Iterator<Item = u64>,
    ) {
        let Some(id) = self.id(number) else { return };
        let stack = &mut self.stacks[id.0 as usize];
        if stack.is_none() {
            *stack = Some(Stack {
                pid,
                addresses: addresses.collect(),
                end,
            });
        }
    }

    /// The stack's addresses, if they were received.
    pub fn get(&self, id: StackId) -> Option<&Stack> {
        self.stacks.get(id.0 as usize)?.as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_may_be_named_before_it_is_sent_and_sent_twice() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.id(0), None);
        let first = stacks.id(77).unwrap();
        assert_eq!(stacks.get(first), None);
        stacks.add(77, 5, StackEnd::Whole, [1, 2].into_iter());
        stacks.add(77, 5, StackEnd::Whole, [9].into_iter());
        stacks.add(78, 5, StackEnd::Cut, [3].into_iter());
        assert_eq!(stacks.id(77), Some(first));
        assert_eq!(stacks.get(first).unwrap().addresses[..], [1, 2]);
        assert_eq!(stacks.len(), 2);
    }
}
