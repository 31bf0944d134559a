//! A receiver on loopback that keeps every request, and the sink that sends to it.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use tempfile::TempDir;
use waggle_export::otlp::proto::{LogRecord, LogsRequest, MetricsRequest};
use waggle_export::otlp::{Options, Otlp};
use waggle_export::spool::Limits;

use crate::clickhouse::proxy::request;

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) path: String,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) at: Instant,
}

/// Status, more of the head, body.
pub(super) type Answer = (u16, &'static str, Vec<u8>);

/// Takes what comes, and answers as it was told to.
pub(super) struct Receiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    folder: TempDir,
}

impl Receiver {
    /// Answers with `answers` first, then always with an empty success.
    pub(super) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("a port"));
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&got);
        let mut answers = VecDeque::from(answers);
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let Ok((head, packed)) = request(&mut client) else {
                    continue;
                };
                let mut body = Vec::new();
                flate2::read::GzDecoder::new(packed.as_slice())
                    .read_to_end(&mut body)
                    .expect("gzip");
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let at = Instant::now();
                seen.lock().expect("requests").push(Got {
                    path,
                    head,
                    body,
                    at,
                });
                let (status, more, body) = answers.pop_front().unwrap_or((200, "", Vec::new()));
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n{more}\r\n",
                    body.len()
                );
                let _ = client.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        let folder = tempfile::tempdir().expect("a folder");
        Self { url, got, folder }
    }

    pub(super) fn sink(&self) -> Otlp {
        Otlp::start(Options {
            url: self.url.clone(),
            headers: vec![("X-Token".into(), "planted".into())],
            interval: Duration::ZERO,
            timeout: Duration::from_secs(20),
            spool: self.folder.path().join("spool"),
            limits: Limits {
                min_free_bytes: 0,
                ..Limits::default()
            },
        })
        .expect("a sink")
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.got.lock().expect("requests").clone()
    }

    pub(super) fn metrics(&self) -> Vec<MetricsRequest> {
        let is_metrics = |got: &Got| got.path == "/v1/metrics";
        let decode = |got: Got| MetricsRequest::decode(got.body.as_slice()).expect("metrics");
        self.got()
            .into_iter()
            .filter(is_metrics)
            .map(decode)
            .collect()
    }

    pub(super) fn logs(&self) -> Vec<LogRecord> {
        let got = self.got();
        let requests = got.iter().filter(|got| got.path == "/v1/logs");
        requests
            .map(|got| LogsRequest::decode(got.body.as_slice()).expect("logs"))
            .flat_map(|request| request.resources)
            .flat_map(|resource| resource.scopes)
            .flat_map(|scope| scope.records)
            .collect()
    }
}
