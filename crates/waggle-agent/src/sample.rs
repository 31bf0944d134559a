//! Single statements that are worth keeping: slow, failed, or drawn at random.

use std::sync::Arc;

use waggle_probes::wait::WaitClass;

use crate::statement::{Origin, ServerId, Work};

/// Why it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// As slow as asked for, or slower.
    Slow,
    /// It failed.
    Failed,
    /// Drawn at random, one of so many.
    Random,
}

/// One kept statement, owned.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Sample {
    /// Unique within this agent's life; together with the agent's start it names the sample.
    pub sequence: u64,
    /// Which server.
    pub server: ServerId,
    /// Why.
    pub reason: Reason,
    /// End, us since 1970.
    pub time_us: u64,
    /// Digest, as Percona's tools print it.
    pub digest: Arc<str>,
    /// Without literals.
    pub fingerprint: Arc<str>,
    /// The statement's own text; only where literals were asked for and it carries no secret.
    pub text: Option<String>,
    /// Key and value of comments in sqlcommenter's form, `traceparent` among them.
    pub comments: Vec<(String, String)>,
    /// User name.
    pub user: Arc<str>,
    /// The client's host.
    pub host: Arc<str>,
    /// Default database.
    pub database: Arc<str>,
    /// Connection id.
    pub connection_id: Option<u64>,
    /// Who had it carried out.
    pub origin: Option<Origin>,
    /// How long it took, us.
    pub latency_us: Option<f64>,
    /// On a processor, us.
    pub cpu_us: Option<f64>,
    /// Ready but not running, us.
    pub runnable_us: Option<f64>,
    /// Blocked, by class in the order of [`WaitClass::ALL`], us.
    pub blocked_us: Option<[f64; WaitClass::COUNT]>,
    /// What it did.
    #[serde(flatten)]
    pub work: Work,
}
