//! Which database driver, and which servers: from the options to what opens sessions.
//!
//! Hosts and ports are combined, ports fastest, and handed out in turn, one for each connection;
//! sockets take their place if there are any. Invariant: a refused connection is told in the log
//! once for each try, in sysbench's words, with the place it was for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use waggle_load::driver::mysql::MySql;
use waggle_load::driver::pgsql::{PgTarget, Pgsql};
use waggle_load::driver::{
    Driver, DriverError, Interrupter, Outcome, Prepared, Session, TextResults, Value,
};
use waggle_load::{Dialect, IgnoreErrors};
use waggle_wire::{Compression, Dsn, Endpoint, Secret, Tls, TlsMode};

use super::log::{Level, Log};
use super::options::Values;
use super::refusal::Refusal;

/// The drivers that `--db-driver=help` lists.
pub(super) const DRIVERS: &str =
    "Compiled-in database drivers:\n  mysql - MySQL and MariaDB\n  pgsql - PostgreSQL\n\n";

/// Where servers listen for `localhost` unless they are told otherwise, by distribution.
const DEFAULT_SOCKETS: [&str; 3] = [
    "/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
];

/// The driver of one run: the chosen one, with its failures told and its use noted.
pub(super) struct Servers {
    name: &'static str,
    /// What a message calls each server, and what connects to it.
    places: Vec<(String, Arc<dyn Driver>)>,
    next: AtomicUsize,
    used: AtomicBool,
    log: Arc<Log>,
}

impl Servers {
    /// `statement_timeout` is the longest wait for an answer; `None` waits for ever.
    pub(super) fn choose(
        values: &Values,
        statement_timeout: Option<Duration>,
        log: Arc<Log>,
    ) -> Result<Servers, Refusal> {
        let (name, places) = match values.text("db-driver") {
            "mysql" => ("mysql", mysql(values, statement_timeout)?),
            "pgsql" => ("pgsql", pgsql(values, statement_timeout)?),
            other => {
                let text = format!("invalid database driver name: '{other}'");
                return Err(Refusal::fatal(text));
            }
        };
        Ok(Servers {
            name,
            places,
            next: AtomicUsize::new(0),
            used: AtomicBool::new(false),
            log,
        })
    }

    /// True once the script opened a session: the report then speaks of statements.
    pub(super) fn were_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }
}

impl Driver for Servers {
    fn name(&self) -> &str {
        self.name
    }

    fn waits_in_fibers(&self) -> bool {
        let mut drivers = self.places.iter();
        drivers.all(|(_, driver)| driver.waits_in_fibers())
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        self.connect_breakably(&mut |_| true)
    }

    fn connect_breakably(
        &self,
        begun: &mut dyn FnMut(Interrupter) -> bool,
    ) -> Result<Box<dyn Session>, DriverError> {
        self.used.store(true, Ordering::Relaxed);
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let (place, driver) = &self.places[turn % self.places.len()];
        driver.connect_breakably(begun).inspect_err(|error| {
            let message = match error {
                DriverError::Server { message, .. } | DriverError::Lost { message, .. } => message,
                DriverError::Refused(message) => message,
            };
            if self.name == "pgsql" {
                let text = format!("Connection to database failed: {message}");
                return self.log.line(Level::Fatal, &text);
            }
            let unable = format!("unable to connect to MySQL server on {place}, aborting...");
            self.log.line(Level::Fatal, &unable);
            let errno = error.script_errno();
            let text = format!("error {errno}: {message}");
            self.log.line(Level::Fatal, &text);
        })
    }
}

/// The errors that restart an event.
pub(super) fn ignored_errors(values: &Values) -> Result<IgnoreErrors, Refusal> {
    let text = values.list("mysql-ignore-errors").join(",");
    text.parse().map_err(|error| {
        Refusal::fatal(format!("Invalid value for --mysql-ignore-errors: {error}"))
    })
}

type Places = Vec<(String, Arc<dyn Driver>)>;

fn mysql(values: &Values, statement_timeout: Option<Duration>) -> Result<Places, Refusal> {
    if values.is_on("mysql-dry-run") {
        return Ok(vec![("nothing".to_owned(), Arc::new(DryRun))]);
    }
    let endpoints = endpoints(
        values,
        std::env::var_os("MYSQL_UNIX_PORT").map(PathBuf::from),
    )?;
    let (tls, compression) = (tls(values)?, compression(values)?);
    let places = endpoints.into_iter().map(|(place, endpoint)| {
        let dsn = Dsn {
            tls: tls.clone(),
            compression,
            ..dsn(values, endpoint)
        };
        let driver = MySql::new(vec![dsn], statement_timeout)
            .with_client_prepare(values.text("db-ps-mode") == "disable");
        (place, Arc::new(driver) as Arc<dyn Driver>)
    });
    Ok(places.collect())
}

fn pgsql(values: &Values, statement_timeout: Option<Duration>) -> Result<Places, Refusal> {
    let port = values.count("pgsql-port");
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    let target = PgTarget {
        host: values.text("pgsql-host").to_owned(),
        port: port.ok_or_else(|| {
            let text = values.text("pgsql-port");
            Refusal::fatal(format!("Invalid value for --pgsql-port: '{text}'"))
        })?,
        user: values.text("pgsql-user").to_owned(),
        password: values.text("pgsql-password").to_owned(),
        database: values.text("pgsql-db").to_owned(),
    };
    let place = format!("host '{}', port {}", target.host, target.port);
    let driver: Arc<dyn Driver> = Arc::new(Pgsql::new(&target, statement_timeout));
    Ok(vec![(place, driver)])
}

/// One server of the options, as an account of it.
pub(super) fn dsn(values: &Values, endpoint: Endpoint) -> Dsn {
    let password = values.text("mysql-password");
    // Client libraries look there too; unlike an argument, other users do not read it.
    let password = match password.is_empty() {
        true => std::env::var("MYSQL_PWD").unwrap_or_default(),
        false => password.to_owned(),
    };
    let database = values.text("mysql-db");
    Dsn {
        password: (!password.is_empty()).then(|| Secret::new(password)),
        database: (!database.is_empty()).then(|| database.to_owned()),
        ..Dsn::new(endpoint, values.text("mysql-user"))
    }
}

/// TLS as the dialect asks for it: on or off in 1.0, a mode and files in 1.1.
fn tls(values: &Values) -> Result<Tls, Refusal> {
    let cipher = values.text("mysql-ssl-cipher");
    if !cipher.is_empty() {
        return Err(Refusal::fatal(format!(
            "--mysql-ssl-cipher={cipher}: ciphers cannot be chosen; leave the option away"
        )));
    }
    let path = |name| Some(values.text(name)).filter(|path| !path.is_empty());
    let path = |name| path(name).map(PathBuf::from);
    let text = values.text("mysql-ssl");
    let wrong = |why: &dyn std::fmt::Display| {
        Refusal::fatal(format!("Invalid value for --mysql-ssl: '{text}' ({why})"))
    };
    let tls = Tls {
        mode: match values.dialect {
            Dialect::V1_0 if values.is_on("mysql-ssl") => TlsMode::Required,
            Dialect::V1_0 => TlsMode::Disabled,
            Dialect::V1_1 => text.parse().map_err(|error| wrong(&error))?,
        },
        ca: path("mysql-ssl-ca"),
        cert: path("mysql-ssl-cert"),
        key: path("mysql-ssl-key"),
    };
    tls.check().map_err(|error| wrong(&error))?;
    Ok(tls)
}

/// The first algorithm of the list, which is what a client proposes first.
fn compression(values: &Values) -> Result<Compression, Refusal> {
    if !values.is_on("mysql-compression") {
        return Ok(Compression::Off);
    }
    let algorithms = match values.dialect {
        Dialect::V1_0 => vec!["zlib".to_owned()],
        Dialect::V1_1 => values.list("mysql-compression-algorithms"),
    };
    match algorithms.first().map(String::as_str) {
        None | Some("uncompressed") => Ok(Compression::Off),
        Some(name) => name.parse().map_err(|error| {
            let text = format!("Invalid value for --mysql-compression-algorithms: {error}");
            Refusal::fatal(text)
        }),
    }
}

/// Every server to connect to, with what a message calls it.
fn endpoints(
    values: &Values,
    socket_of_environment: Option<PathBuf>,
) -> Result<Vec<(String, Endpoint)>, Refusal> {
    let sockets = values.list("mysql-socket");
    if !sockets.is_empty() {
        let socket = |path: String| (format!("socket '{path}'"), Endpoint::Socket(path.into()));
        return Ok(sockets.into_iter().map(socket).collect());
    }
    let mut ports = Vec::new();
    for text in values.list("mysql-port") {
        let port = text.parse().ok().filter(|port| *port > 0);
        ports.push(
            port.ok_or_else(|| {
                Refusal::fatal(format!("Invalid value for --mysql-port: '{text}'"))
            })?,
        );
    }
    let mut endpoints = Vec::new();
    for host in values.list("mysql-host") {
        for port in &ports {
            let endpoint = match host.as_str() {
                // As client libraries have it.
                "localhost" => Endpoint::Socket(default_socket(socket_of_environment.clone())),
                _ => Endpoint::Tcp {
                    host: host.clone(),
                    port: *port,
                },
            };
            endpoints.push((format!("host '{host}', port {port}"), endpoint));
        }
    }
    if endpoints.is_empty() {
        return Err(Refusal::fatal("--mysql-host or --mysql-port is empty"));
    }
    Ok(endpoints)
}

/// The first place where a socket is; if there is none, the place to name in the error.
fn default_socket(of_environment: Option<PathBuf>) -> PathBuf {
    let usual = || {
        DEFAULT_SOCKETS
            .into_iter()
            .find(|path| Path::new(path).exists())
    };
    of_environment.unwrap_or_else(|| PathBuf::from(usual().unwrap_or(DEFAULT_SOCKETS[0])))
}

/// `--mysql-dry-run`: every statement ends well, has no rows, and nobody hears it.
struct DryRun;

impl Driver for DryRun {
    fn name(&self) -> &str {
        "mysql"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        Ok(Box::new(DryRun))
    }
}

impl Session for DryRun {
    fn query(&mut self, _: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError> {
        *results = TextResults::default();
        Ok(Outcome::default())
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let params = sql.iter().filter(|byte| **byte == b'?').count();
        Ok(Prepared {
            handle: 0,
            params: params as u16,
        })
    }

    fn execute(&mut self, _: u32, _: &[Value<'_>]) -> Result<Outcome, DriverError> {
        Ok(Outcome::default())
    }

    fn close_statement(&mut self, _: u32) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_usable(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::super::grammar;
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let line = grammar::parse(&words, &|_| Err("no file".into())).unwrap();
        let values = Values::take(line.given).unwrap();
        let endpoints = endpoints(&values, Some(PathBuf::from("/env.sock"))).unwrap();
        endpoints
            .into_iter()
            .map(|(place, endpoint)| format!("{place}: {endpoint}"))
            .collect()
    }

    #[test]
    fn ports_turn_fastest() {
        assert_eq!(
            found("--mysql-host=a,b --mysql-port=1,2"),
            [
                "host 'a', port 1: a:1",
                "host 'a', port 2: a:2",
                "host 'b', port 1: b:1",
                "host 'b', port 2: b:2"
            ]
        );
    }

    #[test]
    fn sockets_take_the_place_of_hosts_and_localhost_is_one() {
        assert_eq!(
            found("--mysql-host=a,b --mysql-socket=/x,/y"),
            ["socket '/x': /x", "socket '/y': /y"]
        );
        assert_eq!(found(""), ["host 'localhost', port 3306: /env.sock"]);
        assert_eq!(
            found("--mysql-host=127.0.0.1"),
            ["host '127.0.0.1', port 3306: 127.0.0.1:3306"]
        );
    }
}
