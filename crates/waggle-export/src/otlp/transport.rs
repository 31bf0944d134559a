//! How is a request given to an OTLP receiver, and what does its answer mean?
//!
//! By the protocol's own rules: 429, 502, 503 and 504 and broken connections are tried again, not
//! before the receiver asks for; every other refusal is final; a partial success is a success whose
//! rejected records are counted and not sent again. Neighbour: the courier calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;

use super::Options;
use super::encode::METRICS;
use super::proto::{Response, Status};
use crate::http::{Answer, Client};
use crate::spool::Batch;
use crate::spool::courier::{Outcome, Transport};

pub(super) struct ToReceiver {
    client: Client,
    options: Options,
    /// Records that the receiver took not, within requests that it took.
    rejected: Arc<AtomicU64>,
}

impl ToReceiver {
    pub(super) fn new(options: Options, rejected: Arc<AtomicU64>) -> Self {
        Self {
            client: Client::new(options.timeout),
            options,
            rejected,
        }
    }

    fn accepted(&self, answer: &Answer) {
        // An empty body is a full success, and one that is no message says nothing else.
        let partial = Response::decode(answer.body.as_slice())
            .ok()
            .and_then(|response| response.partial_success);
        if let Some(partial) = partial {
            let rejected = u64::try_from(partial.rejected).unwrap_or(0);
            self.rejected.fetch_add(rejected, Ordering::Relaxed);
        }
    }
}

impl Transport for ToReceiver {
    fn send(&mut self, batch: &Batch) -> Outcome {
        let signal = if batch.tag == METRICS {
            "metrics"
        } else {
            "logs"
        };
        let url = format!("{}/v1/{signal}", self.options.url.trim_end_matches('/'));
        let mut headers = vec![
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "gzip"),
        ];
        let extra = self.options.headers.iter();
        headers.extend(extra.map(|(name, value)| (name.as_str(), value.as_str())));
        let answer = match self.client.post(&url, &headers, &batch.payload) {
            Ok(answer) => answer,
            Err(why) => {
                return Outcome::Later {
                    why: format!("the receiver at {}: {why}", self.options.url),
                    after: None,
                };
            }
        };
        let why = || format!("the receiver answers {}: {}", answer.status, said(&answer));
        match answer.status {
            200..=299 => {
                self.accepted(&answer);
                Outcome::Delivered
            }
            429 | 502 | 503 | 504 => Outcome::Later {
                why: why(),
                after: answer.retry_after,
            },
            _ => Outcome::Rejected {
                why: why(),
                cause: "rejected",
            },
        }
    }
}

/// A refusal's message: a status message, or whatever a gateway wrote.
fn said(answer: &Answer) -> String {
    match Status::decode(answer.body.as_slice()) {
        Ok(status) if !status.message.is_empty() => status.message.chars().take(300).collect(),
        _ => answer.said(),
    }
}
