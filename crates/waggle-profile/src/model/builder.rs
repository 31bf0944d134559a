//! How is a profile made, piece by piece?
//!
//! Neighbours: recordings and [`merge`](super::Profile::merge) add to it. Invariant: equal frames,
//! stacks and whos have one number, and an entry is there once.

use std::collections::HashMap;

use super::{Entry, Frame, FrameId, Kind, Profile, Stack, StackId, Who, WhoId};

/// Makes a profile: gives frames, stacks and whos their numbers, and sums entries.
#[derive(Debug, Default)]
pub struct Builder {
    /// What is not summed here may be set directly.
    pub profile: Profile,
    frames: HashMap<Frame, FrameId>,
    stacks: HashMap<Stack, StackId>,
    whos: HashMap<Who, WhoId>,
    entries: HashMap<(WhoId, Kind, StackId), usize>,
}

/// The number of what comes next in a table.
fn next(length: usize) -> u32 {
    u32::try_from(length).expect("a profile has fewer than 2^32 of a thing")
}

impl Builder {
    /// Goes on with a profile.
    pub fn of(profile: Profile) -> Builder {
        let count = 0u32..;
        let frames = profile
            .frames
            .iter()
            .cloned()
            .zip(count.clone().map(FrameId));
        let stacks = profile
            .stacks
            .iter()
            .cloned()
            .zip(count.clone().map(StackId));
        let whos = profile.whos.iter().cloned().zip(count.map(WhoId));
        let entries = profile.entries.iter().enumerate();
        Builder {
            frames: frames.collect(),
            stacks: stacks.collect(),
            whos: whos.collect(),
            entries: entries
                .map(|(at, e)| ((e.who, e.kind, e.stack), at))
                .collect(),
            profile,
        }
    }

    /// The number of a frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        *self.frames.entry(frame).or_insert_with_key(|frame| {
            self.profile.frames.push(frame.clone());
            FrameId(next(self.profile.frames.len() - 1))
        })
    }

    /// The number of a stack.
    pub fn stack(&mut self, stack: Stack) -> StackId {
        *self.stacks.entry(stack).or_insert_with_key(|stack| {
            self.profile.stacks.push(stack.clone());
            StackId(next(self.profile.stacks.len() - 1))
        })
    }

    /// The number of whose time it is.
    pub fn who(&mut self, who: Who) -> WhoId {
        *self.whos.entry(who).or_insert_with_key(|who| {
            self.profile.whos.push(who.clone());
            WhoId(next(self.profile.whos.len() - 1))
        })
    }

    /// Adds time.
    pub fn add(&mut self, who: WhoId, kind: Kind, stack: StackId, samples: u64, ns: u64) {
        let entries = &mut self.profile.entries;
        let at = *self.entries.entry((who, kind, stack)).or_insert_with(|| {
            entries.push(Entry {
                who,
                kind,
                stack,
                samples: 0,
                ns: 0,
            });
            entries.len() - 1
        });
        let entry = &mut entries[at];
        entry.samples = entry.samples.saturating_add(samples);
        entry.ns = entry.ns.saturating_add(ns);
    }

    /// The profile, digests and time in their order.
    pub fn finish(mut self) -> Profile {
        let digests = &mut self.profile.digests;
        digests.sort_by(|a, b| (b.cpu_ns, &a.digest).cmp(&(a.cpu_ns, &b.digest)));
        self.profile
            .timeline
            .sort_by_key(|timed| (timed.at_ns, timed.tid));
        self.profile
    }
}
