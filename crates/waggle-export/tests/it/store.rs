//! Prometheus and VictoriaMetrics as child processes, and questions to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use waggle_need::{program, skip};

/// How long anything may take before the test gives up on it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks until there is an answer; says what was waited for if there is none.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < DEADLINE, "no {what} in {DEADLINE:?}");
        // sleep: between two questions to another process, which has no way to call back
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An address that no other test process has: its number is in it.
pub(crate) fn address() -> String {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{middle}.{low}:{port}", 64 + (high & 0x3f))
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brand {
    Prometheus,
    VictoriaMetrics,
}

impl Brand {
    fn package(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::VictoriaMetrics => "victoria-metrics",
        }
    }
}

/// A store with its own folder; gone when dropped, or when the test process is.
#[derive(Debug)]
pub(crate) struct Store {
    brand: Brand,
    program: String,
    pub(crate) address: String,
    folder: TempDir,
    child: Option<Child>,
}

/// The labels of a series.
pub(crate) type Labels = BTreeMap<String, String>;

/// Series by their labels, sorted, and the value of each.
pub(crate) type Answer = BTreeMap<Labels, f64>;

/// Series, and the samples of each: ms since 1970, and value.
pub(crate) type Samples = BTreeMap<Labels, Vec<(i64, f64)>>;

impl Store {
    /// Starts one that scrapes nothing; `None`, aloud, if it is not installed.
    pub(crate) fn start(brand: Brand) -> Option<Self> {
        let mut store = Self::prepare(brand)?;
        store.configure("");
        store.run();
        Some(store)
    }

    /// One that is not running yet.
    pub(crate) fn prepare(brand: Brand) -> Option<Self> {
        let Some(program) = program(&[brand.package()]) else {
            skip(brand.package(), "it is not installed");
            return None;
        };
        Some(Self {
            brand,
            program,
            address: address(),
            folder: tempfile::tempdir().unwrap(),
            child: None,
        })
    }

    /// Writes Prometheus's configuration.
    pub(crate) fn configure(&self, scrape: &str) {
        let text = format!("global:\n  scrape_interval: 1s\n{scrape}");
        std::fs::write(self.path("prometheus.yml"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it, on the data that it has, and waits until it answers.
    pub(crate) fn run(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let mut command = Command::new(&self.program);
        match self.brand {
            Brand::Prometheus => command
                .arg(format!(
                    "--config.file={}",
                    self.path("prometheus.yml").display()
                ))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    self.path("data").display()
                ))
                .arg(format!("--web.listen-address={}", self.address))
                .arg("--web.enable-remote-write-receiver"),
            Brand::VictoriaMetrics => command
                .arg(format!("-storageDataPath={}", self.path("data").display()))
                .arg(format!("-httpListenAddr={}", self.address))
                .arg("-search.latencyOffset=0s")
                .arg("-retentionPeriod=100y"),
        };
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(
                    rustix::process::Signal::KILL,
                ))?;
                if rustix::process::getppid() != Some(parent) {
                    return Err(std::io::ErrorKind::NotFound.into());
                }
                Ok(())
            });
        }
        self.child = Some(command.spawn().unwrap());
        let path = match self.brand {
            Brand::Prometheus => "/-/ready",
            Brand::VictoriaMetrics => "/health",
        };
        until("answer of the store", || {
            let exited = self.child.as_mut()?.try_wait().unwrap();
            assert_eq!(exited, None, "the store ended:\n{}", self.log());
            get(&format!("http://{}{path}", self.address)).ok()
        });
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Ends it as its service would be ended, and waits.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            child.wait().unwrap();
        }
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A number as this store keeps it.
    pub(crate) fn kept(&self, value: f64) -> f64 {
        match self.brand {
            Brand::Prometheus => value,
            // Decimal digits, and not all that a float has.
            Brand::VictoriaMetrics => number(&format!("{value:.14e}")),
        }
    }

    /// Sees to it that what it acknowledged is on its disk and can be found.
    pub(crate) fn flush(&self) {
        if self.brand == Brand::VictoriaMetrics {
            get(&format!("http://{}/internal/force_flush", self.address)).unwrap();
        }
    }

    /// Where it takes remote write.
    pub(crate) fn write_url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// The answer to an instant query at a time, s since 1970.
    pub(crate) fn query(&self, query: &str, at_s: f64) -> Answer {
        let time = at_s.to_string();
        let found = self.ask("query", &[("query", query), ("time", &time)]);
        let series = found["data"]["result"].as_array().unwrap();
        let one = |series: &serde_json::Value| {
            let value = series["value"][1].as_str().unwrap();
            (labels(&series["metric"]), number(value))
        };
        series.iter().map(one).collect()
    }

    /// Every sample in a window before a time: ms since 1970 and value.
    pub(crate) fn samples(&self, selector: &str, window_s: u64, at_s: f64) -> Samples {
        let (query, time) = (format!("{selector}[{window_s}s]"), at_s.to_string());
        let found = self.ask("query", &[("query", &query), ("time", &time)]);
        let series = found["data"]["result"].as_array().unwrap();
        let sample = |pair: &serde_json::Value| {
            let time_ms = (pair[0].as_f64().unwrap() * 1000.0).round() as i64;
            (time_ms, number(pair[1].as_str().unwrap()))
        };
        let one = |series: &serde_json::Value| {
            let values = series["values"].as_array().unwrap();
            let samples = values.iter().map(sample).collect();
            (labels(&series["metric"]), samples)
        };
        series.iter().map(one).collect()
    }

    fn ask(&self, what: &str, form: &[(&str, &str)]) -> serde_json::Value {
        let url = format!("http://{}/api/v1/{what}", self.address);
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(DEADLINE))
            .http_status_as_error(false)
            .build()
            .into();
        let mut response = agent.post(&url).send_form(form.iter().copied()).unwrap();
        let text = response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()
            .unwrap();
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"], "success", "{text}");
        answer
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
    }
}

fn labels(metric: &serde_json::Value) -> Labels {
    let text = |(name, value): (&String, &serde_json::Value)| {
        (name.clone(), value.as_str().unwrap().to_owned())
    };
    metric.as_object().unwrap().iter().map(text).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// The body of a page.
pub(crate) fn get(url: &str) -> Result<String, ureq::Error> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(DEADLINE))
        .build()
        .into();
    let mut response = agent.get(url).call()?;
    let body = response.body_mut().with_config().limit(64 << 20);
    body.read_to_string()
}

/// The series of a page as a store has them: no empty labels.
pub(crate) fn expected(text: &str, constant: &[(&str, &str)]) -> Answer {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| parse(line, constant)).collect()
}

fn parse(line: &str, constant: &[(&str, &str)]) -> (Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut labels: Labels = constant.iter().map(own).collect();
    let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
    labels.insert("__name__".to_owned(), name.to_owned());
    while rest != "}" {
        let (label, quoted) = rest.split_once("=\"").unwrap();
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next().unwrap() {
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (at, '"') => break at,
                (_, other) => value.push(other),
            }
        };
        labels.insert(label.trim_start_matches(',').to_owned(), value);
        rest = &quoted[end + 1..];
    }
    labels.retain(|_, value| !value.is_empty());
    (labels, number(value))
}

/// Says which series differ, not all of them.
pub(crate) fn assert_same(found: &Answer, expected: &Answer, what: &str) {
    let differ = |a: &Answer, b: &Answer| -> Vec<String> {
        let only = a
            .iter()
            .filter(|(labels, value)| b.get(*labels) != Some(value));
        only.take(3)
            .map(|one| format!("{one:?}").chars().take(500).collect())
            .collect()
    };
    assert!(
        found == expected,
        "{what}: {} series, {} expected; here alone {:#?}; expected alone {:#?}",
        found.len(),
        expected.len(),
        differ(found, expected),
        differ(expected, found)
    );
}
