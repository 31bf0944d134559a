//! Which part of a profile is looked at?
//!
//! Invariant: a part's indexes are those of the whole.

use super::{Digest, Kind, Profile, Who, WhoId};

/// Which part of a profile. A condition that is not set always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Time of these kinds; empty: of all.
    pub kinds: Vec<Kind>,
    /// Of this process, as in [`Who::process`].
    pub process: Option<String>,
    /// Of this role.
    pub role: Option<String>,
    /// Of this thread, as in [`Who::thread`].
    pub thread: Option<String>,
    /// Of this digest.
    pub digest: Option<String>,
}

impl Filter {
    fn has(&self, who: &Who, kind: Kind) -> bool {
        let is = |wanted: &Option<String>, had: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == had)
        };
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && is(&self.process, Some(&who.process))
            && is(&self.role, Some(&who.role))
            && is(&self.thread, who.thread.as_deref())
            && is(&self.digest, who.digest.as_deref())
    }
}

impl Profile {
    /// The part that a filter lets through. The tables stay as they are, and so does what was
    /// lost, which is known of the whole only.
    #[must_use]
    pub fn filter(&self, filter: &Filter) -> Profile {
        let has = |who: WhoId, kind| filter.has(self.who(who), kind);
        let entries = self.entries.iter().filter(|e| has(e.who, e.kind));
        let timeline = self.timeline.iter().filter(|t| has(t.who, t.kind));
        let wanted = |d: &&Digest| filter.digest.as_deref().is_none_or(|w| *w == *d.digest);
        Profile {
            entries: entries.copied().collect(),
            timeline: timeline.copied().collect(),
            digests: self.digests.iter().filter(wanted).cloned().collect(),
            ..self.clone()
        }
    }
}
