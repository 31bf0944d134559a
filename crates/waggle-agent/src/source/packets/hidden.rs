//! How many statements hide in bytes that were never seen?
//!
//! Two witnesses: what the client's statements usually take, and what the server said meanwhile,
//! which answers each. Either alone is wrong where sizes differ: after one statement of 16 MiB a
//! mean says that a gap of thousands hides none, and a gap within such a one seems to hide
//! thousands. The session asks; `flows` asks for what was dropped last of all.
//!
//! Invariant: a gap hides one statement at least, and none that the server cannot have answered,
//! but for the one under way.

/// Statements remembered.
const RECENT: usize = 8;
/// No answer is shorter, bytes: a header, and the packet that ends rows for old clients.
const ANSWER_BYTES_MIN: u64 = 9;
/// No command is shorter.
const COMMAND_BYTES_MIN: u64 = 5;
/// Packets an exchange takes where none was seen: question, answer, acknowledgement.
const EXCHANGE_PACKETS: u64 = 3;

/// What the latest statements of a connection and their answers took.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    commands: [u32; RECENT],
    /// Commands in all, of which the latest are kept.
    count: usize,
    /// The shortest answer of all: the next may be as short, however long the latest are.
    least_answer: Option<u64>,
}

impl Sizes {
    /// A statement took so many bytes of the client.
    pub(super) fn asked(&mut self, bytes: u64) {
        self.commands[self.count % RECENT] = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.count += 1;
    }

    /// Its answer took so many.
    pub(super) fn answered(&mut self, bytes: u64) {
        self.least_answer = Some(self.least_answer.map_or(bytes, |least| least.min(bytes)));
    }

    /// A usual statement's bytes: in the middle of the latest ones.
    fn usual(&self) -> u64 {
        let mut known = self.commands;
        let known = &mut known[..self.count.min(RECENT)];
        known.sort_unstable();
        let middle = known.get(known.len() / 2).copied().unwrap_or_default();
        u64::from(middle).max(COMMAND_BYTES_MIN)
    }

    /// How many statements a gap of `gap` bytes of the client hides, of which the first `begun`
    /// bytes were seen and `left` of the first one's are known to be missing; the server said
    /// `answered` bytes meanwhile.
    pub(super) fn hidden(&self, gap: u64, begun: u64, left: u64, answered: u64) -> u64 {
        let usual = self.usual();
        let by_client = match begun {
            0 => (gap + usual / 2) / usual,
            _ if left > 0 => 1 + (gap.saturating_sub(left) + usual / 2) / usual,
            _ => (gap + begun + usual / 2) / usual,
        };
        by_client.min(self.answers_in(answered) + 1).max(1)
    }

    /// Most answers that so many bytes of the server can be.
    fn answers_in(&self, bytes: u64) -> u64 {
        bytes / self.least_answer.unwrap_or(0).max(ANSWER_BYTES_MIN)
    }
}

/// What was dropped at a time, and nothing came after it that would show what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dropped {
    /// What comes earlier than this came before it, monotonic clock, ns.
    pub(super) after_ns: u64,
    /// What comes later than this came after it.
    pub(super) before_ns: u64,
    pub(super) packets: u64,
}

/// How many statements `packets` are, of which `rest` belong to one that was seen to begin, when
/// `commands` took `seen` packets.
pub(super) fn in_packets(packets: u64, rest: u64, commands: u64, seen: u64) -> u64 {
    let own = packets.saturating_sub(rest);
    match commands {
        0 => own / EXCHANGE_PACKETS,
        _ => own.saturating_mul(commands) / seen.max(commands),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_statement_changes_nothing_of_what_is_usual() {
        let mut sizes = Sizes::default();
        for bytes in [50, 50, 50, 16 << 20, 50] {
            sizes.asked(bytes);
            sizes.answered(11);
        }
        assert_eq!(sizes.hidden(5000, 0, 0, 1100), 100);
        // In the midst of one of 50 bytes.
        assert_eq!(sizes.hidden(4980, 20, 30, 1089), 100);
    }

    #[test]
    fn a_gap_within_a_large_statement_hides_that_one() {
        let mut sizes = Sizes::default();
        sizes.asked(50);
        sizes.answered(11);
        // Its length was seen, or it goes on in a frame whose length was not.
        assert_eq!(sizes.hidden(8 << 20, 1 << 20, 15 << 20, 0), 1);
        assert_eq!(sizes.hidden(16 << 20, 1 << 20, 15 << 20, 0), 1);
        // All of it, and ten small ones behind it.
        assert_eq!(sizes.hidden((16 << 20) + 500, 0, 0, 11 * 11), 12);
    }

    #[test]
    fn nothing_known_is_one() {
        assert_eq!(Sizes::default().hidden(1, 0, 0, 0), 1);
        assert_eq!(Sizes::default().hidden(1 << 20, 0, 0, 0), 1);
    }

    #[test]
    fn packets_at_the_end() {
        assert_eq!(in_packets(300, 0, 1000, 3000), 100);
        assert_eq!(in_packets(300, 270, 0, 0), 10);
        assert_eq!(in_packets(3, 100, 10, 30), 0);
        // Most acknowledgements come with an answer.
        assert_eq!(in_packets(2900, 0, 1000, 2900), 1000);
    }
}
