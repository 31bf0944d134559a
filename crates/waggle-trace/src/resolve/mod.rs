//! Where in this process are a pipeline's places, and what is read there?
//!
//! From a pipeline as a file says it ([`crate::stagefile`]) to a plan that
//! [`crate::source`] can attach: every place found in the process' own binary, every
//! value as steps that the kernel half can take. Neighbour: `waggle-symbols` decodes.
//!
//! Invariant: a place that cannot be had is a refusal with its reason, never a guess; the rest of
//! the plan stays.

mod known;
mod lower;
mod place;
mod process;
mod tracepoint;

pub use process::{Process, ProcessError};

use waggle_probes::point::{self, Follow, PointSpec, Test};
use waggle_symbols::usdt;

use crate::event::PointId;
use crate::stagefile::{
    Comparison, Condition, Expression, Pipeline, Place, Rule, Sighting, builtin, from_static_probes,
};
use known::Redo;
use place::Resolver;

/// What can be attached of a pipeline in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pipeline's name.
    pub pipeline: String,
    /// What it shows, a line.
    pub about: String,
    /// The points; a [`PointId`] is an index into these.
    pub points: Vec<PlannedPoint>,
    /// The stages, in order, refused ones among them.
    pub stages: Vec<PlannedStage>,
    /// What cannot be had, and why.
    pub refusals: Vec<Refusal>,
    /// The process it was made for, and where that has its binary's address 0.
    pub made_for: (u32, u64),
}

/// A point and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPoint {
    /// Its number.
    pub id: PointId,
    /// Its name, for people: function and offset, or as the stage file has it.
    pub name: String,
    /// What passing it means.
    pub role: Role,
    /// Its places; several if the same static probe stands in the code more than once.
    pub specs: Vec<PointSpec>,
}

/// What passing a point means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A wait begins; the value is what it waits for.
    WaitStart,
    /// The thread's wait ends.
    WaitEnd,
    /// The stage with this index was reached.
    Stage(usize),
    /// A thread took up the batch that the stage with this index then completes.
    StageBegin(usize),
}

/// A stage of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// Its name.
    pub name: String,
    /// Which sighting of it belongs to a wait.
    pub rule: Rule,
    /// How it is seen.
    pub seen: Seen,
}

/// How a stage is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// By points whose role is this stage.
    Points,
    /// By the last wake-up of the waiter within the wait (`What::Wakes`).
    Waking,
    /// By the waiter taking a processor after that (`What::Came`).
    SwitchIn,
    /// Not at all: the stage is merged into the next, and said to be.
    Refused,
}

/// Something that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which part: `wait`, or the stage's name.
    pub part: String,
    /// The place, as the stage file has it.
    pub place: String,
    /// Why not.
    pub reason: String,
}

impl Plan {
    /// True if a wait can be seen at all: its start and its end.
    pub fn is_usable(&self) -> bool {
        let has = |role| self.points.iter().any(|point| point.role == role);
        has(Role::WaitStart) && has(Role::WaitEnd)
    }

    /// The point with this number.
    pub fn point(&self, id: PointId) -> Option<&PlannedPoint> {
        self.points.get(usize::from(id.0))
    }

    /// True if the scheduler's events are needed to see a stage.
    pub fn needs_scheduler(&self) -> bool {
        let scheduler = |stage: &PlannedStage| matches!(stage.seen, Seen::Waking | Seen::SwitchIn);
        self.stages.iter().any(scheduler)
    }
}

/// What waggle knows of one process, to make plans for it.
#[derive(Debug)]
pub struct Target {
    process: Process,
    redo: std::cell::OnceCell<Redo>,
    probes: std::cell::OnceCell<Vec<usdt::Probe>>,
}

impl Target {
    /// Looks at process `pid`.
    ///
    /// # Errors
    /// It is gone, may not be looked at, or its binary cannot be read.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        Ok(Self {
            process: Process::open(pid)?,
            redo: std::cell::OnceCell::new(),
            probes: std::cell::OnceCell::new(),
        })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn redo(&self) -> &Redo {
        self.redo.get_or_init(|| Redo::find(&self.process))
    }

    fn probes(&self) -> &[usdt::Probe] {
        self.probes
            .get_or_init(|| usdt::probes(self.process.program()))
    }

    /// The built-in pipeline of that name that fits this server: `redo` stands for the one that
    /// this server's settings make it, `binlog` for its flavour's.
    ///
    /// # Errors
    /// There is none of that name, or the server is none for it; says why.
    pub fn builtin(&self, name: &str) -> Result<Pipeline, String> {
        let is_mysql = self.process.program().address("log_sys").is_some();
        let candidates: &[&str] = match (name, is_mysql) {
            ("redo", true) => &["redo", "redo-paused"],
            ("redo", false) => &["mariadb-redo"],
            ("binlog", false) => &["mariadb-binlog"],
            _ => &[name],
        };
        let mut reasons = Vec::new();
        for candidate in candidates {
            let pipeline = builtin(candidate);
            let pipeline = pipeline.ok_or_else(|| format!("there is no pipeline {candidate}"))?;
            match self.unfit(&pipeline) {
                None => return Ok(pipeline),
                Some(reason) => reasons.push(format!("{candidate}: {reason}")),
            }
        }
        Err(reasons.join("; "))
    }

    /// The pipeline of this binary's static probes of `provider`.
    ///
    /// # Errors
    /// The binary has no such probes, or not those of a pipeline.
    pub fn static_pipeline(&self, provider: &str) -> Result<Pipeline, String> {
        let own = self.probes().iter().filter(|p| p.provider == provider);
        let names: Vec<&str> = own.map(|p| p.name.as_str()).collect();
        for needed in ["wait_start", "wait_end"] {
            if !names.contains(&needed) {
                let mut all: Vec<&str> = self.probes().iter().map(|p| &p.provider[..]).collect();
                all.sort_unstable();
                all.dedup();
                return Err(format!(
                    "the binary has no static probe {provider}:{needed}; it has probes of: {}",
                    if all.is_empty() {
                        "nobody".to_owned()
                    } else {
                        all.join(", ")
                    }
                ));
            }
        }
        let pipeline = from_static_probes(provider, &names);
        if pipeline.stages.is_empty() {
            return Err(format!("the binary has no static probe {provider}:1"));
        }
        Ok(pipeline)
    }

    /// Why this process is none for the pipeline; `None` if it is one.
    pub fn unfit(&self, pipeline: &Pipeline) -> Option<String> {
        let resolver = Resolver::new(self);
        pipeline.when.iter().find_map(|condition| {
            let test = match resolver.condition(condition, &resolver.nowhere()) {
                Ok(test) => test,
                Err(reason) => return Some(reason),
            };
            match self.process.value(&test.value) {
                Err(reason) => Some(reason),
                Ok(value) if holds(&test, value, self.process.image()) => None,
                Ok(value) => Some(format!("its condition does not hold: {value} is there")),
            }
        })
    }

    /// What can be attached of `pipeline` here.
    pub fn plan(&self, pipeline: &Pipeline) -> Plan {
        let mut making = Making {
            resolver: Resolver::new(self),
            plan: Plan {
                pipeline: pipeline.name.clone(),
                about: pipeline.about.clone(),
                points: Vec::new(),
                stages: Vec::new(),
                refusals: Vec::new(),
                made_for: (self.process.pid(), self.process.image()),
            },
        };
        let wait = &pipeline.wait;
        let zero = Expression::Number(0);
        let read = Reads {
            value: &wait.key,
            second: wait.second.as_ref().unwrap_or(&zero),
            tests: &wait.tests,
            stack: wait.stack,
            follow: Follow::Begins,
        };
        making.point("wait", Role::WaitStart, &wait.start, &read);
        for (place, test) in &wait.ends {
            let read = Reads {
                tests: test.as_slice(),
                follow: Follow::Ends,
                ..Reads::stage(&zero)
            };
            making.point("wait", Role::WaitEnd, place, &read);
        }
        for (index, stage) in pipeline.stages.iter().enumerate() {
            let seen = match &stage.at {
                Sighting::Waking => Seen::Waking,
                Sighting::SwitchIn => Seen::SwitchIn,
                Sighting::Places(places) => {
                    let mut attached = 0;
                    for (place, value) in places {
                        let read = Reads::stage(value);
                        attached += making.point(&stage.name, Role::Stage(index), place, &read);
                    }
                    if attached > 0 {
                        Seen::Points
                    } else {
                        Seen::Refused
                    }
                }
            };
            for (place, value) in &stage.begins {
                let read = Reads::stage(value);
                making.point(&stage.name, Role::StageBegin(index), place, &read);
            }
            making.plan.stages.push(PlannedStage {
                name: stage.name.clone(),
                rule: stage.rule,
                seen,
            });
        }
        making.plan
    }
}

fn holds(test: &Test, value: u64, image: u64) -> bool {
    let with = if test.in_image {
        test.with.wrapping_add(image)
    } else {
        test.with
    };
    match test.comparison {
        point::Comparison::Equal => value == with,
        point::Comparison::NotEqual => value != with,
        point::Comparison::Less => value < with,
        point::Comparison::AtLeast => value >= with,
    }
}

/// What is read at a point.
struct Reads<'a> {
    value: &'a Expression,
    second: &'a Expression,
    tests: &'a [Condition],
    stack: bool,
    follow: Follow,
}

impl<'a> Reads<'a> {
    fn stage(value: &'a Expression) -> Self {
        Self {
            value,
            second: &Expression::Number(0),
            tests: &[],
            stack: false,
            follow: Follow::Stage,
        }
    }
}

struct Making<'a> {
    resolver: Resolver<'a>,
    plan: Plan,
}

impl Making<'_> {
    /// Adds a point, or a refusal; returns how many places it has.
    fn point(&mut self, part: &str, role: Role, place: &Place, read: &Reads<'_>) -> usize {
        let number = u16::try_from(self.plan.points.len()).unwrap_or(u16::MAX);
        let mut specs = Vec::new();
        let found = match self.resolver.places(place) {
            Ok(found) => found,
            Err(reason) => {
                self.refuse(part, place, reason);
                return 0;
            }
        };
        let mut name = None;
        for found in found {
            let made = self.resolver.spec(number, &found, read);
            match made {
                Ok(spec) => {
                    name.get_or_insert_with(|| match place {
                        Place::Known(known) => format!("{known} ({})", found.name()),
                        _ => found.name(),
                    });
                    specs.push(spec);
                }
                Err(reason) => self.refuse(part, place, reason),
            }
        }
        let count = specs.len();
        if count > 0 {
            self.plan.points.push(PlannedPoint {
                id: PointId(number),
                name: name.unwrap_or_default(),
                role,
                specs,
            });
        }
        count
    }

    fn refuse(&mut self, part: &str, place: &Place, reason: String) {
        self.plan.refusals.push(Refusal {
            part: part.to_owned(),
            place: place.to_string(),
            reason,
        });
    }
}

fn comparison(comparison: Comparison) -> point::Comparison {
    match comparison {
        Comparison::Equal => point::Comparison::Equal,
        Comparison::NotEqual => point::Comparison::NotEqual,
        Comparison::Less => point::Comparison::Less,
        Comparison::AtLeast => point::Comparison::AtLeast,
    }
}
