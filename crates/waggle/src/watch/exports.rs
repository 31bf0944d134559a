//! Where what is seen is sent: `--listen`, `--remote-write`, `--clickhouse`, `--otlp`, and the
//! spool that keeps it while a store is away.
//!
//! Invariants: addresses are checked before anything is opened; credentials come from the
//! environment, never from the command line, where everybody could read them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use waggle_agent::agent::Agent;
use waggle_export::clickhouse::{self, ClickHouse};
use waggle_export::otlp::{self, Otlp};
use waggle_export::prometheus::{self, Bounds, Listen, Prometheus, Token};
use waggle_export::remote_write::{self, Authorization, RemoteWrite};
use waggle_export::spool::Limits;

use crate::cli::Failure;

/// Least time between two pushes: stores are made for seconds.
const PUSH_INTERVAL: Duration = Duration::from_secs(10);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where to send what is seen.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Exports")]
pub(super) struct ExportArgs {
    /// Serve /metrics, /health and /ready for Prometheus: address:port, or a port of loopback
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,

    /// Serve only who brings this file's bearer token; needed to listen away from loopback
    #[arg(long, value_name = "FILE", requires = "listen")]
    listen_token_file: Option<PathBuf>,

    /// Listen away from loopback and serve whoever asks
    #[arg(long, requires = "listen", conflicts_with = "listen_token_file")]
    listen_without_token: bool,

    /// Push the same series by Prometheus's remote write [env: WAGGLE_REMOTE_WRITE_TOKEN: a bearer
    /// token]
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,

    /// Write digests, samples and waits to ClickHouse's HTTP interface [env:
    /// WAGGLE_CLICKHOUSE_USER, WAGGLE_CLICKHOUSE_PASSWORD]
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,

    /// Send metrics and logs over OTLP (http://host:4318) [env: WAGGLE_OTLP_TOKEN: a bearer token]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Database in ClickHouse; created if need be
    #[arg(long, value_name = "NAME", default_value = "waggle")]
    clickhouse_database: String,

    /// Keep what a store has not acknowledged in DIR [default: $STATE_DIRECTORY/spool, else
    /// /var/lib/waggle/spool]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
}

/// The same, checked.
#[derive(Debug)]
pub(super) struct Exports {
    listen: Option<Listen>,
    token: Option<Token>,
    remote_write: Option<remote_write::Settings>,
    clickhouse: Option<clickhouse::Options>,
    otlp: Option<otlp::Options>,
}

fn secret(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

impl ExportArgs {
    /// Checks addresses and names; opens nothing.
    pub(super) fn plan(self) -> Result<Exports, Failure> {
        let token = self.token().map_err(Failure::Unusable)?;
        let spool = self.spool.unwrap_or_else(|| {
            let state = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
            let state = state.unwrap_or_else(|| Path::new("/var/lib/waggle").into());
            state.join("spool")
        });
        let remote_write = self.remote_write.map(|url| {
            remote_write::check_url(&url).map_err(Failure::unusable)?;
            let token = secret("WAGGLE_REMOTE_WRITE_TOKEN");
            Ok(remote_write::Settings {
                url,
                authorization: (!token.is_empty())
                    .then(|| Authorization(format!("Bearer {token}"))),
                labels: vec![("job".to_owned(), "waggle".to_owned())],
                interval: PUSH_INTERVAL,
                bounds: Bounds::default(),
                spool: spool.join("remote_write"),
                limits: Limits::default(),
            })
        });
        let clickhouse = self.clickhouse.map(|url| {
            let options = clickhouse::Options {
                place: clickhouse::Place {
                    url: url.trim_end_matches('/').to_owned(),
                    database: self.clickhouse_database,
                    user: secret("WAGGLE_CLICKHOUSE_USER"),
                    password: secret("WAGGLE_CLICKHOUSE_PASSWORD"),
                },
                interval: PUSH_INTERVAL,
                timeout: TIMEOUT,
                retention_days: None,
                spool: spool.join("clickhouse"),
                limits: Limits::default(),
            };
            options.check().map_err(Failure::unusable)?;
            Ok(options)
        });
        let otlp = self.otlp.map(|url| {
            let token = secret("WAGGLE_OTLP_TOKEN");
            let header = ("authorization".to_owned(), format!("Bearer {token}"));
            let options = otlp::Options {
                url,
                headers: (!token.is_empty()).then_some(header).into_iter().collect(),
                interval: PUSH_INTERVAL,
                timeout: TIMEOUT,
                spool: spool.join("otlp"),
                limits: Limits::default(),
            };
            options.check().map_err(Failure::unusable)?;
            Ok(options)
        });
        Ok(Exports {
            otlp: otlp.transpose()?,
            listen: self.listen,
            token,
            remote_write: remote_write.transpose()?,
            clickhouse: clickhouse.transpose()?,
        })
    }
}

impl ExportArgs {
    /// The token of those who may scrape. Away from loopback there is one, or none on purpose.
    fn token(&self) -> anyhow::Result<Option<Token>> {
        let token = self.listen_token_file.as_ref().map(|path| {
            let token = Token::read(path);
            token.with_context(|| format!("--listen-token-file {}", path.display()))
        });
        let token = token.transpose()?;
        let far = self
            .listen
            .filter(|Listen(at)| !at.ip().to_canonical().is_loopback());
        if let Some(Listen(at)) = far
            && token.is_none()
            && !self.listen_without_token
        {
            bail!(
                "--listen {at} is open to other hosts: name a token with --listen-token-file FILE, \
                 or say --listen-without-token"
            );
        }
        Ok(token)
    }
}

/// What listening away from loopback means, said aloud.
fn warn_of(listen: Listen, has_token: bool) {
    let Listen(at) = listen;
    if at.ip().to_canonical().is_loopback() {
        return;
    }
    let what = match has_token {
        true => "other hosts reach it, and the token crosses the network in plain HTTP",
        false => "everybody who reaches it reads what the servers execute, without a token",
    };
    eprintln!("waggle: warning: --listen {at}: {what}");
}

impl Exports {
    /// Opens every export and hands it to the agent.
    pub(super) fn start(
        &self,
        agent: &mut Agent,
        interval: Duration,
        needs_server: bool,
    ) -> anyhow::Result<()> {
        if let Some(listen) = self.listen {
            warn_of(listen, self.token.is_some());
            let prometheus = Prometheus::start(prometheus::Settings {
                listen,
                bounds: Bounds::default(),
                interval,
                needs_server,
                token: self.token.clone(),
            })?;
            eprintln!("metrics: http://{}/metrics", prometheus.address());
            agent.add_sink(Box::new(prometheus))?;
        }
        if let Some(settings) = &self.remote_write {
            let sink = RemoteWrite::start(settings.clone())
                .with_context(|| format!("--remote-write {}", settings.url))?;
            agent.add_sink(Box::new(sink))?;
        }
        if let Some(options) = &self.clickhouse {
            let sink = ClickHouse::start(options.clone())
                .with_context(|| format!("--clickhouse {}", options.place.url))?;
            agent.add_sink(Box::new(sink))?;
        }
        if let Some(options) = &self.otlp {
            let sink =
                Otlp::start(options.clone()).with_context(|| format!("--otlp {}", options.url))?;
            agent.add_sink(Box::new(sink))?;
        }
        Ok(())
    }
}
