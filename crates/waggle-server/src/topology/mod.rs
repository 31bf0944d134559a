//! A primary and its replicas, as throw-away servers on this host.
//!
//! ```text
//!   primary (a Sandbox) --halted--> its data, copied --> replicas (Sandboxes)
//!      binary log ----------- 127.0.0.1 ---------------> receive, apply   <-- Link: what is where
//! ```
//!
//! [`Topology::around`] gives a server that was filled its replicas; [`Replica::of_running`] adds
//! one to a server that runs; [`Link`] says what was written, received and applied, and rules the
//! replica's threads. Below are `sandbox` and `waggle-wire`. Invariants: the servers go as
//! sandboxes go, with the process that started them; transactions are counted from GTIDs, exactly.

mod error;
mod link;
mod position;
mod primary;
mod replica;
mod status;

use std::time::Duration;

use crate::sandbox::{Sandbox, SandboxSpec};

pub use error::TopologyError;
pub use link::{Admission, Begin, Link, Part};
pub use position::Position;
pub use primary::{PrimaryFacts, primary_settings};
pub use replica::Replica;
pub use status::{ReplicaFault, ReplicaStatus, ReplicaThread};

/// A primary and its replicas; dropping it kills all of them.
#[derive(Debug)]
pub struct Topology {
    replicas: Vec<Replica>,
    link: Link,
    primary: Sandbox,
}

impl Topology {
    /// Gives a primary its replicas, one for each of `specs`, all of which begin with its data: it
    /// is stopped, its data directory is copied, it is started again, and they follow it.
    ///
    /// The primary needs a binary log: see [`primary_settings`]. Connections to it are lost.
    ///
    /// # Errors
    /// [`TopologyError`]; [`TopologyError::is_unusable`] tells whether the request was at fault.
    /// All servers are gone then.
    pub fn around(primary: Sandbox, specs: &[SandboxSpec]) -> Result<Self, TopologyError> {
        let mut primary = primary;
        if let Some(other) = specs.iter().find(|spec| spec.flavour != primary.flavour()) {
            return Err(TopologyError::OtherFlavour {
                name: primary.name().to_owned(),
                primary: primary.flavour(),
                replica: other.flavour,
            });
        }
        let (facts, position) = {
            let mut link = Link::open(primary.name(), &primary.dsn_socket())?;
            let facts = PrimaryFacts::read(&mut link, primary.port())?;
            (facts, link.written()?)
        };
        primary.halt()?;
        let copies = specs
            .iter()
            .map(|spec| Replica::copied(spec, &facts, primary.datadir()))
            .collect::<Result<Vec<_>, _>>()?;
        primary.restart(&[])?;
        let mut link = Link::open(primary.name(), &primary.dsn_socket())?;
        let replicas = copies
            .into_iter()
            .map(|copy| Replica::after_copy(copy, facts.clone(), &link.admit()?, &position))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            replicas,
            link,
            primary,
        })
    }

    /// The primary.
    pub fn primary(&self) -> &Sandbox {
        &self.primary
    }

    /// The same, to halt it or to ask how it ended.
    pub fn primary_mut(&mut self) -> &mut Sandbox {
        &mut self.primary
    }

    /// The session on the primary.
    pub fn primary_link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The replicas, in the order of their specs.
    pub fn replicas(&mut self) -> &mut [Replica] {
        &mut self.replicas
    }

    /// Session on the primary and one replica, to look at both at once; `None` if there is no such
    /// replica.
    pub fn both(&mut self, replica: usize) -> Option<(&mut Link, &mut Replica)> {
        let replica = self.replicas.get_mut(replica)?;
        Some((&mut self.link, replica))
    }

    /// Stops the primary and starts it again on the same data with further settings; the replicas
    /// connect again by themselves.
    ///
    /// # Errors
    /// Those of [`Sandbox::restart`] and [`Link`].
    pub fn restart_primary(&mut self, settings: &[(String, String)]) -> Result<(), TopologyError> {
        self.primary.restart(settings)?;
        self.link = Link::open(self.primary.name(), &self.primary.dsn_socket())?;
        Ok(())
    }

    /// Waits until every replica has applied all that the primary has written by now.
    ///
    /// # Errors
    /// Those of [`Link::wait_applied`], of the first replica that fails.
    pub fn wait_caught_up(&mut self, patience: Duration) -> Result<Position, TopologyError> {
        let written = self.link.written()?;
        for replica in &mut self.replicas {
            replica.link().wait_applied(&written, patience)?;
        }
        Ok(written)
    }

    /// Stops all servers in an orderly way, the replicas first.
    ///
    /// # Errors
    /// The first that failed or had to be killed. All are gone even so.
    pub fn stop(self) -> Result<(), TopologyError> {
        let Self {
            replicas,
            link,
            primary,
        } = self;
        drop(link);
        let mut first = Ok(());
        for replica in replicas {
            let stopped = replica.into_sandbox().stop();
            first = first.and(stopped.map_err(TopologyError::from));
        }
        first.and(primary.stop().map_err(TopologyError::from))
    }
}
