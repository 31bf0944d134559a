//! Which points of a plan begin a wait, end it, and show what the stages have reached?

use crate::event::PointId;
use crate::resolve::{self, Plan, Role};
use crate::stagefile::Rule;

/// A pipeline, in terms of the points of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Points where a wait begins; the value there is what is waited for.
    pub start: Vec<PointId>,
    /// Points where the same thread's wait ends.
    pub end: Vec<PointId>,
    /// The stages in order.
    pub stages: Vec<StageLayout>,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageLayout {
    /// Its name.
    pub name: String,
    /// How it is seen.
    pub seen: Seen,
    /// Points where its thread takes up what it then completes; if there are none, it is at it
    /// since it completed what came before.
    pub begin: Vec<PointId>,
}

/// How a stage is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A thread passes one of these points, with what it has reached as the value.
    Points(Vec<PointId>, Rule),
    /// The waiter's last wake-up within the wait.
    Waking,
    /// The waiter takes a processor after that.
    SwitchIn,
    /// It cannot be seen: its time belongs to the stage after it.
    Nowhere,
}

impl Layout {
    /// The pipeline of a plan.
    pub fn of(plan: &Plan) -> Self {
        let points = |role: Role| -> Vec<PointId> {
            let of_role = plan.points.iter().filter(|point| point.role == role);
            of_role.map(|point| point.id).collect()
        };
        let stage = |(index, stage): (usize, &resolve::PlannedStage)| StageLayout {
            name: stage.name.clone(),
            seen: match stage.seen {
                resolve::Seen::Points => Seen::Points(points(Role::Stage(index)), stage.rule),
                resolve::Seen::Waking => Seen::Waking,
                resolve::Seen::SwitchIn => Seen::SwitchIn,
                resolve::Seen::Refused => Seen::Nowhere,
            },
            begin: points(Role::StageBegin(index)),
        };
        Self {
            start: points(Role::WaitStart),
            end: points(Role::WaitEnd),
            stages: plan.stages.iter().enumerate().map(stage).collect(),
        }
    }
}
