//! One body to the store, and what its answer means.
//!
//! Neighbour: the courier calls, and decides when to try again.
//!
//! Invariant: a call ends within [`CALL`], whatever the store does, and no credential is in an
//! error or in `Debug` output.

use std::fmt;
use std::time::Duration;

use crate::http::{Answer, Client};
use crate::spool::Batch;
use crate::spool::courier::{Outcome, Transport};

/// From the name's resolution to the answer's last byte.
const CALL: Duration = Duration::from_secs(10);

/// The value of an `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(pub String);

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(..)")
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct Store {
    client: Client,
    url: String,
    authorization: Option<Authorization>,
}

impl Store {
    pub(super) fn new(url: String, authorization: Option<Authorization>) -> Self {
        Self {
            client: Client::new(CALL),
            url,
            authorization,
        }
    }
}

impl Transport for Store {
    fn send(&mut self, batch: &Batch) -> Outcome {
        let mut headers = vec![
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        if let Some(Authorization(value)) = &self.authorization {
            headers.push(("Authorization", value));
        }
        match self.client.post(&self.url, &headers, &batch.payload) {
            Ok(answer) => meaning(&answer),
            Err(error) => Outcome::Later {
                why: format!("the store cannot be reached: {error}"),
                after: None,
            },
        }
    }
}

/// What the protocol says of an answer: 2xx has it; 429 and 5xx may have it later; others never.
fn meaning(answer: &Answer) -> Outcome {
    let why = format!("the store answered {}: {}", answer.status, answer.said());
    match answer.status {
        200..=299 => Outcome::Delivered,
        // What stands in between moved, or the store is not up yet: nothing was refused.
        300..=399 | 408 | 425 | 429 | 500.. => Outcome::Later {
            why,
            after: answer.retry_after,
        },
        _ => Outcome::Rejected {
            why,
            cause: "rejected",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_the_protocol_says() {
        let said = |status: u16| {
            meaning(&Answer {
                status,
                retry_after: Some(Duration::from_secs(5)),
                body: b"why".to_vec(),
            })
        };
        for status in [200, 202, 204] {
            assert_eq!(said(status), Outcome::Delivered);
        }
        for status in [301, 408, 429, 500, 502, 503, 599] {
            assert!(matches!(said(status), Outcome::Later { .. }), "{status}");
        }
        for status in [400, 401, 404, 413, 422] {
            assert!(matches!(said(status), Outcome::Rejected { .. }), "{status}");
        }
    }

    #[test]
    fn a_credential_is_not_printed() {
        let secret = Authorization("Bearer s3cret".to_owned());
        let store = Store::new("http://127.0.0.1:1/".to_owned(), Some(secret));
        assert!(!format!("{store:?}").contains("s3cret"));
    }
}
