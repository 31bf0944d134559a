//! `/metrics`, `/health` and `/ready`: one thread, one page a view, bounded clients.
//!
//! Neighbours: the agent leaves its latest view here ([`Prometheus`] is its sink); a scraper takes
//! the page made of it. hyper reads the requests.
//!
//! Invariants:
//! - The agent's thread only swaps a pointer. A view that nobody scrapes is never printed.
//! - A page is made once a view, whoever asks how often.
//! - A client that is slow, silent or many costs at most [`CONNECTIONS`] sockets for
//!   [`CONNECTION_LIFE`] and [`PACE`] requests a second; each connection serves one request.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue,
    WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use waggle_agent::budget::rights::without_rights;
use waggle_agent::sink::{Sink, SinkStatus};
use waggle_agent::view::View;

use super::{Bounds, Exposition, Listen, Token};

/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 16;
/// A client has so long to say what it wants.
const HEADER_WAIT: Duration = Duration::from_secs(2);
/// After that a connection is closed, whatever is left to send.
const CONNECTION_LIFE: Duration = Duration::from_secs(10);
/// Connections accepted a second, in the long run, and at once.
const PACE: (f64, f64) = (32.0, 64.0);
/// Bytes of a request's head, at most.
const HEAD_BYTES: usize = 8 << 10;
/// Pages smaller than this are not worth packing.
const PACK_BYTES: usize = 4 << 10;

/// How to serve.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where.
    pub listen: Listen,
    /// How many series.
    pub bounds: Bounds,
    /// How often a view comes: ready means that the latest is not older than three of these.
    pub interval: Duration,
    /// Not ready while no server is watched (false for a host alone).
    pub needs_server: bool,
    /// What a request has to bring, but for `/health`; `None`: nothing.
    pub token: Option<Token>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, not this host's, or not allowed.
    #[error("cannot listen on {address}: {source}; give another with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No thread, no event queue.
    #[error("cannot start the thread that serves /metrics: {0}")]
    Thread(io::Error),
}

/// The latest view, and when it came.
#[derive(Debug)]
struct Latest {
    view: Arc<View>,
    came: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<Option<Latest>>,
    scrapes: std::sync::atomic::AtomicU64,
    stop: Notify,
}

/// The sink that Prometheus scrapes.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Prometheus {
    /// Listens, and serves from a thread of its own.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let wanted = settings.listen.0;
        let failed = |source| StartError::Listen {
            address: wanted,
            source,
        };
        let listener = std::net::TcpListener::bind(wanted).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("waggle-metrics".to_owned())
            .spawn(move || {
                let tasks = tokio::task::LocalSet::new();
                without_rights(|| {
                    tasks.block_on(&runtime, serve(listener, settings, of_thread));
                });
            })
            .map_err(StartError::Thread)?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens: the port is known even if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Sink for Prometheus {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn view(&mut self, view: &Arc<View>) {
        let latest = Latest {
            view: Arc::clone(view),
            came: Instant::now(),
        };
        let mut slot = lock(&self.shared.latest);
        let before = slot.replace(latest);
        drop(slot);
        // Outside the lock: the last owner of a view frees all its tables.
        drop(before);
    }

    /// Counts pages delivered.
    fn status(&self) -> SinkStatus {
        SinkStatus {
            delivered: self
                .shared
                .scrapes
                .load(std::sync::atomic::Ordering::Relaxed),
            ..SinkStatus::default()
        }
    }

    fn close(&mut self, _within: Duration) {
        self.shared.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends at once: connections are closed, whatever they were doing.
            let _ = thread.join();
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The page of one view.
#[derive(Debug, Default)]
struct Made {
    /// Of the view taken then, ns.
    time_ns: Option<u64>,
    plain: Bytes,
    packed: Option<Bytes>,
}

struct Server {
    settings: Settings,
    shared: Arc<Shared>,
    exposition: std::cell::RefCell<Exposition>,
    made: std::cell::RefCell<Made>,
}

/// Serves until it is told to stop; then everything that is under way is dropped.
async fn serve(listener: std::net::TcpListener, settings: Settings, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let server = Rc::new(Server {
        exposition: Exposition::new(settings.bounds).into(),
        made: Made::default().into(),
        settings,
        shared: Arc::clone(&shared),
    });
    tokio::task::spawn_local(accept(listener, server));
    shared.stop.notified().await;
}

async fn accept(listener: TcpListener, server: Rc<Server>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut pace = Pace::new(Instant::now());
    loop {
        tokio::time::sleep(pace.wait(Instant::now())).await;
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors, mostly: somebody has to close some first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        pace.took_one();
        // Without a place the stream is dropped here, which closes it.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let work = converse(Rc::clone(&server), stream, peer);
            tokio::task::spawn_local(async move {
                let _ = tokio::time::timeout(CONNECTION_LIFE, work).await;
                drop(place);
            });
        }
    }
}

/// A bucket of leave to accept.
#[derive(Debug)]
struct Pace {
    leave: f64,
    at: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            leave: PACE.1,
            at: now,
        }
    }

    /// How long to wait until one may be accepted.
    fn wait(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.leave = (self.leave + passed * PACE.0).min(PACE.1);
        self.at = now;
        Duration::from_secs_f64(((1.0 - self.leave) / PACE.0).max(0.0))
    }

    fn took_one(&mut self) {
        self.leave -= 1.0;
    }
}

async fn converse(server: Rc<Server>, stream: TcpStream, peer: SocketAddr) {
    let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
        let response = server.answer(&request, peer);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // What went wrong with a client is the client's business.
    let _ = connection.await;
}

impl Server {
    fn answer(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        // That the process lives is no secret: whoever asks has its answer on the port.
        if request.uri().path() != "/health" && !self.is_allowed(request) {
            let mut response = text(StatusCode::UNAUTHORIZED, "bring the token\n");
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return response;
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match request.uri().path() {
            "/metrics" => self.metrics(request, peer),
            "/health" => text(StatusCode::OK, "ok\n"),
            "/ready" => match self.readiness() {
                Ok(()) => text(StatusCode::OK, "ready\n"),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            "/" => text(StatusCode::OK, "waggle: /metrics /health /ready\n"),
            _ => text(StatusCode::NOT_FOUND, "try /metrics, /health or /ready\n"),
        }
    }

    fn is_allowed(&self, request: &Request<Incoming>) -> bool {
        let Some(token) = &self.settings.token else {
            return true;
        };
        let mut given = request.headers().get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(one), None) => token.is_brought_by(one.as_bytes()),
            _ => false,
        }
    }

    /// Attached, and a view is not older than three intervals.
    fn readiness(&self) -> Result<(), &'static str> {
        let latest = lock(&self.shared.latest);
        let latest = latest.as_ref().ok_or("no view yet\n")?;
        if latest.came.elapsed() > self.settings.interval * 3 {
            return Err("the latest view is older than three intervals\n");
        }
        let watches = latest.view.servers.iter().any(|s| s.ended.is_none());
        if self.settings.needs_server && !watches {
            return Err("no server is watched\n");
        }
        Ok(())
    }

    fn metrics(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let latest = lock(&self.shared.latest)
            .as_ref()
            .map(|latest| Arc::clone(&latest.view));
        let Some(view) = latest else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "no view yet\n");
        };
        let mut made = self.made.borrow_mut();
        if made.time_ns != Some(view.time_ns) {
            *made = Made {
                time_ns: Some(view.time_ns),
                plain: self.exposition.borrow_mut().text(&view).into(),
                packed: None,
            };
        }
        // Packing costs more than loopback does.
        let is_packed = accepts_gzip(request)
            && !peer.ip().to_canonical().is_loopback()
            && made.plain.len() >= PACK_BYTES;
        let body = if is_packed {
            let plain = made.plain.clone();
            made.packed.get_or_insert_with(|| gzip(&plain)).clone()
        } else {
            made.plain.clone()
        };
        self.shared
            .scrapes
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut response = Response::new(Full::new(body));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if is_packed {
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(CONTENT_ENCODING, gzip);
        }
        response
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn accepts_gzip(request: &Request<Incoming>) -> bool {
    let accepted = request.headers().get_all(ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| gzip_is_wanted(coding.trim()))
}

/// `gzip`, but not `gzip;q=0`.
fn gzip_is_wanted(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let is_gzip = parts.next().is_some_and(|c| c.eq_ignore_ascii_case("gzip"));
    is_gzip
        && !parts.any(|part| {
            part.strip_prefix("q=")
                .is_some_and(|q| q.parse() == Ok(0.0))
        })
}

fn gzip(plain: &[u8]) -> Bytes {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory does not fail.
    let _ = packer.write_all(plain);
    packer.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
