//! Decides, once a second, what is left out.
//!
//! Pure: readings in, decisions out. It sheds one thing after two seconds over budget, and takes
//! the last one back after a while with room to spare; what had to be shed again soon after is
//! taken back more and more slowly. Invariant: things are shed in the order of [`Shed::ORDER`] and
//! come back in the reverse order.

use super::Limits;

/// Seconds over budget after which something is shed.
const OVER: u32 = 2;
/// Seconds with room to spare after which something is taken back, and at most.
const CALM: u32 = 10;
const CALM_MAX: u32 = 640;
/// Shed again within so many seconds, it was taken back too early.
const RELAPSE: u32 = 30;
/// Shares of the limit: above the first is over, below the second is room to spare. In a control
/// group the limit is never passed, so over has to begin below it.
const NEAR: f64 = 0.9;
const SPARE: f64 = 0.5;

/// What can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// The statements' texts: all are of one digest.
    Text,
    /// Single statements.
    Samples,
    /// Wait classes: the probe on the scheduler is detached.
    Classes,
    /// Statements are counted by the probe, and nothing else is learnt of them.
    Probe,
}

impl Shed {
    /// In the order they are left out.
    pub const ORDER: [Self; 4] = [Self::Text, Self::Samples, Self::Classes, Self::Probe];

    /// The name in views.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Samples => "samples",
            Self::Classes => "classes",
            Self::Probe => "probe",
        }
    }
}

/// What the agent used in the last second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// CPU time of its own, cores.
    pub cpu: f64,
    /// CPU time that its probes took of the servers, cores; as far as it is known.
    pub server_cpu: f64,
    /// Resident memory, bytes.
    pub memory: u64,
    /// Statements were lost for want of room: it could not keep up.
    pub lost: bool,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Leave this out from now on.
    Shed(Shed),
    /// Do this again.
    Restore(Shed),
}

/// Keeps the agent within its limits.
#[derive(Debug)]
pub struct Governor {
    limits: Limits,
    /// How many of [`Shed::ORDER`] are left out.
    level: usize,
    over: u32,
    spare: u32,
    calm: u32,
    /// Seconds since something was taken back.
    since_restore: u32,
}

impl Governor {
    /// Nothing is left out yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            level: 0,
            over: 0,
            spare: 0,
            calm: CALM,
            since_restore: RELAPSE,
        }
    }

    /// What is left out now, in the order it was.
    pub fn shed(&self) -> &'static [Shed] {
        &Shed::ORDER[..self.level]
    }

    /// Takes the reading of one second.
    pub fn second(&mut self, reading: Reading) -> Option<Change> {
        self.since_restore = self.since_restore.saturating_add(1);
        let share = self.share(&reading);
        // Losing statements with the processor time used up is over, however exact the reading.
        let is_over = share >= NEAR || reading.lost && share >= SPARE;
        self.over = if is_over { self.over + 1 } else { 0 };
        self.spare = if share < SPARE { self.spare + 1 } else { 0 };
        if self.over >= OVER && self.level < Shed::ORDER.len() {
            return Some(self.leave_out());
        }
        if self.spare >= self.calm && self.level > 0 {
            self.level -= 1;
            self.spare = 0;
            self.since_restore = 0;
            return Some(Change::Restore(Shed::ORDER[self.level]));
        }
        None
    }

    fn leave_out(&mut self) -> Change {
        self.over = 0;
        if self.since_restore < RELAPSE {
            self.calm = (self.calm * 2).min(CALM_MAX);
        } else {
            self.calm = CALM;
        }
        self.level += 1;
        Change::Shed(Shed::ORDER[self.level - 1])
    }

    /// The larger share of a limit that is used.
    fn share(&self, reading: &Reading) -> f64 {
        let used = reading.cpu + reading.server_cpu;
        let cpu = self.limits.cpu.map(|limit| used / limit);
        let memory = self.limits.memory;
        let memory = memory.map(|limit| reading.memory as f64 / limit as f64);
        cpu.unwrap_or(0.0).max(memory.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        cpu: Some(0.1),
        memory: Some(100),
    };

    fn cpu(cpu: f64) -> Reading {
        Reading {
            cpu,
            ..Reading::default()
        }
    }

    /// Seconds until it decides, and what.
    fn until_change(governor: &mut Governor, reading: Reading) -> (u32, Option<Change>) {
        for second in 1..10_000 {
            if let Some(change) = governor.second(reading) {
                return (second, Some(change));
            }
        }
        (10_000, None)
    }

    #[test]
    fn over_budget_it_sheds_in_the_stated_order_and_takes_back_in_the_reverse() {
        let mut governor = Governor::new(LIMITS);
        for shed in Shed::ORDER {
            let (seconds, change) = until_change(&mut governor, cpu(0.2));
            assert_eq!((seconds, change), (OVER, Some(Change::Shed(shed))));
        }
        assert_eq!(governor.shed(), Shed::ORDER);
        assert_eq!(until_change(&mut governor, cpu(0.2)).1, None);
        for shed in Shed::ORDER.into_iter().rev() {
            let (seconds, change) = until_change(&mut governor, cpu(0.01));
            assert_eq!((seconds, change), (CALM, Some(Change::Restore(shed))));
        }
        assert!(governor.shed().is_empty());
    }

    #[test]
    fn between_near_and_spare_nothing_changes() {
        let mut governor = Governor::new(LIMITS);
        assert_eq!(until_change(&mut governor, cpu(0.089)).1, None);
        until_change(&mut governor, cpu(0.2));
        assert_eq!(until_change(&mut governor, cpu(0.051)).1, None);
        assert_eq!(governor.shed(), [Shed::Text]);
    }

    #[test]
    fn a_relapse_makes_it_wait_longer_and_peace_makes_it_forget() {
        let mut governor = Governor::new(LIMITS);
        until_change(&mut governor, cpu(0.2));
        for wait in [CALM, CALM * 2, CALM * 4] {
            let (seconds, change) = until_change(&mut governor, cpu(0.0));
            assert_eq!((seconds, change), (wait, Some(Change::Restore(Shed::Text))));
            until_change(&mut governor, cpu(0.2));
        }
        until_change(&mut governor, cpu(0.0));
        for _ in 0..RELAPSE {
            governor.second(cpu(0.06));
        }
        until_change(&mut governor, cpu(0.2));
        assert_eq!(until_change(&mut governor, cpu(0.0)).0, CALM);
    }

    #[test]
    fn what_the_probes_cost_the_servers_is_of_the_same_budget() {
        let both = Reading {
            server_cpu: 0.05,
            ..cpu(0.05)
        };
        let mut governor = Governor::new(LIMITS);
        assert_eq!(until_change(&mut governor, cpu(0.05)).1, None);
        assert_eq!(until_change(&mut governor, both).0, OVER);
        // And as long as it would be too much, nothing comes back.
        let probes = Reading {
            server_cpu: 0.095,
            ..cpu(0.0)
        };
        for shed in &Shed::ORDER[1..] {
            assert_eq!(
                until_change(&mut governor, probes).1,
                Some(Change::Shed(*shed))
            );
        }
        assert_eq!(until_change(&mut governor, probes).1, None);
    }

    #[test]
    fn memory_and_losses_count_too_and_without_limits_nothing_is_ever_shed() {
        let memory = Reading {
            memory: 95,
            ..Reading::default()
        };
        let mut governor = Governor::new(LIMITS);
        assert_eq!(until_change(&mut governor, memory).0, OVER);
        let losing = Reading {
            cpu: 0.06,
            lost: true,
            ..Reading::default()
        };
        let mut governor = Governor::new(LIMITS);
        assert_eq!(until_change(&mut governor, losing).0, OVER);
        let mut governor = Governor::new(Limits::default());
        let all = Reading {
            cpu: 9.0,
            server_cpu: 9.0,
            memory: u64::MAX,
            lost: true,
        };
        assert_eq!(until_change(&mut governor, all).1, None);
    }
}
