//! What the program knows of who held its latch, and how near the tool's account comes.

use std::path::Path;

use waggle_trace::latch::Wait;

/// What the program knows.
#[derive(Default)]
pub(crate) struct Truth {
    /// Thread, from, to; in order.
    held: Vec<(u32, u64, u64)>,
    /// Thread, from, to, sleeps.
    pub(crate) waited: Vec<(u32, u64, u64, u64)>,
}

impl Truth {
    pub(crate) fn read(log: &Path) -> Self {
        let mut truth = Self::default();
        for line in std::fs::read_to_string(log).unwrap().lines() {
            let mut words = line.split(' ');
            let what = words.next().unwrap();
            let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            let tid = u32::try_from(numbers[0]).unwrap();
            match what {
                "held" => truth.held.push((tid, numbers[1], numbers[2])),
                _ => truth.waited.push((tid, numbers[1], numbers[2], numbers[3])),
            }
        }
        truth.held.sort_unstable_by_key(|held| held.1);
        truth
    }

    /// How long `tid` held it between `from` and `to`; anybody but `waiter`, if `tid` is none.
    fn held_ns(&self, tid: Option<u32>, waiter: u32, from: u64, to: u64) -> u64 {
        let after = self.held.partition_point(|held| held.2 <= from);
        let spans = self.held[after..].iter().take_while(|held| held.1 < to);
        let of = spans.filter(|held| tid.map_or(held.0 != waiter, |tid| held.0 == tid));
        of.map(|held| held.2.min(to) - held.1.max(from)).sum()
    }
}

/// How the tool's holders compare with the program's.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) waits: u64,
    pub(crate) sleeps: u64,
    pub(crate) wait_ns: u64,
    /// Held by somebody, as the program knows, ns.
    pub(crate) true_ns: u64,
    /// Of it, by whom the tool says, ns.
    pub(crate) right_ns: u64,
    /// Said to be held by one who did not, ns.
    wrong_ns: u64,
    pub(crate) unobserved_ns: u64,
    /// Parts with a holder, and those of them whose holder never had it then.
    pub(crate) parts: u64,
    pub(crate) false_parts: u64,
    pub(crate) word: [u64; 2],
}

pub(crate) fn compare(waits: &[Wait], truth: &Truth) -> Compared {
    let mut compared = Compared::default();
    for wait in waits {
        let tid = wait.thread.tid;
        assert_eq!(wait.parts.total_ns(), wait.to_ns - wait.from_ns, "{wait:?}");
        assert!(!wait.flagged, "{wait:?}");
        compared.waits += 1;
        compared.sleeps += u64::from(wait.sleeps);
        compared.wait_ns += wait.to_ns - wait.from_ns;
        compared.true_ns += truth.held_ns(None, tid, wait.from_ns, wait.to_ns);
        compared.unobserved_ns += wait.parts.unobserved_ns;
        for held in &wait.parts.held {
            let right = truth.held_ns(Some(held.tid), tid, held.from_ns, held.to_ns);
            compared.right_ns += right;
            compared.wrong_ns += held.to_ns - held.from_ns - right;
            compared.parts += 1;
            compared.false_parts += u64::from(right == 0);
        }
        if let Some(agrees) = wait.word_agrees {
            compared.word[usize::from(agrees)] += 1;
        }
    }
    compared
}
