//! From the files of a bench run to its report. Every field is optional; nothing here panics.

use serde_json::{Map, Value};
use waggle_stats::latency::LatencyHistogram;

use super::{BenchCheck, BenchFigure, BenchInterval, BenchLatency, BenchReport};
use crate::lab::LabServer;
use crate::quantity::count;
use crate::run::{ReadError, Run, shell_line};
use crate::summary::ended;

/// Most intervals that are shown: a day of one a second, and more.
const INTERVALS_MAX: usize = 100_000;

/// Steps of a density to a factor of ten.
const PER_DECADE: u32 = 120;

/// Most rows of a table that come from a file; a workload has dozens of statements at most.
const ROWS_MAX: usize = 1_000;

impl BenchReport {
    /// Reads the run as far as it came.
    ///
    /// # Errors
    /// When a file of the run is there and cannot be read.
    pub fn read(run: &Run) -> Result<Self, ReadError> {
        let facts = run.facts();
        let server = facts.server.clone().unwrap_or_default();
        let mut report = Self {
            workload: facts.name.clone(),
            threads: facts.settings.get("threads").and_then(Value::as_f64),
            command: shell_line(&facts.command),
            waggle_version: facts.waggle_version.clone(),
            started: facts.started.clone(),
            ended: ended(facts),
            server: LabServer {
                flavour: server.flavour,
                version: server.version,
                build_id: server.build_id,
                settings: server.variables,
            },
            environment: facts.host.clone(),
            settings: facts
                .settings
                .iter()
                .map(|(name, value)| (name.clone(), words(value)))
                .collect(),
            ..Self::default()
        };
        report.read_samples(run)?;
        report.read_histograms(run);
        match run.result()? {
            Some(result) => report.read_result(&result),
            None => report
                .notes
                .push("The run wrote no result: it is still running or was killed.".to_owned()),
        }
        Ok(report)
    }

    fn read_samples(&mut self, run: &Run) -> Result<(), ReadError> {
        let mut left_out = 0_u64;
        let samples = run.each_sample(|value| match interval(&value) {
            Some(_) if self.intervals.len() >= INTERVALS_MAX => left_out += 1,
            Some(interval) => self.intervals.push(interval),
            None => {}
        })?;
        if left_out > 0 {
            let note = format!("{} intervals at the end are left out.", count(left_out));
            self.notes.push(note);
        }
        if samples.damaged > 0 {
            self.notes.push(format!(
                "{} damaged lines of samples are left out.",
                count(samples.damaged)
            ));
        }
        if samples.half_written {
            self.notes
                .push("The last sample was half-written and is left out.".to_owned());
        }
        Ok(())
    }

    fn read_histograms(&mut self, run: &Run) {
        for name in run.histogram_names() {
            let bytes = run.histogram(&name).map_err(|error| error.to_string());
            let read = bytes.and_then(|bytes| {
                LatencyHistogram::from_v2_bytes(&bytes).map_err(|error| error.to_string())
            });
            match read {
                Ok(histogram) => {
                    let buckets = histogram.density(PER_DECADE);
                    let buckets = buckets
                        .iter()
                        .map(|bucket| (bucket.high_ns as f64 / 1e3, bucket.count));
                    self.histograms.insert(name, buckets.collect());
                }
                Err(why) => self
                    .notes
                    .push(format!("The histogram {name} cannot be read: {why}")),
            }
        }
    }

    fn read_result(&mut self, result: &Value) {
        self.duration_s = number(result, "duration_s");
        self.offered_rate = number(result, "offered_rate");
        if let Some(workload) = result.get("workload").and_then(Value::as_str) {
            self.workload = workload.to_owned();
        }
        self.threads = number(result, "threads").or(self.threads);
        self.figures = figures(result, self.duration_s);
        self.latencies = latencies(result);
        self.checks = rows(result.get("checks")).filter_map(check).collect();
        if let Some(failure) = result.get("failure").and_then(Value::as_str) {
            self.notes.push(format!("It ended early: {failure}"));
        }
        if result.get("generator_was_late").and_then(Value::as_bool) == Some(true) {
            self.notes.push(
                "The load generator itself was late: latencies are partly its own.".to_owned(),
            );
        }
        self.notes.push(
            if self.offered_rate.is_some() {
                "Open loop: response time runs from when a transaction was due, so a backlog shows."
            } else {
                "Closed loop: each connection waits for its answer, so latencies hide coordinated \
                 omission: they do not tell what a user of a busy server sees."
            }
            .to_owned(),
        );
    }
}

fn figures(result: &Value, duration_s: Option<f64>) -> Vec<BenchFigure> {
    const COUNTS: [&str; 8] = [
        "transactions",
        "queries",
        "reads",
        "writes",
        "other",
        "prepares",
        "errors",
        "dropped",
    ];
    let per_second = |value: Option<f64>| {
        let duration = duration_s.filter(|duration| *duration > 0.0)?;
        Some(value? / duration)
    };
    let counts = COUNTS.iter().map(|name| {
        let value = number(result, name);
        BenchFigure {
            name: (*name).to_owned(),
            value,
            per_second: per_second(value),
            unit: String::new(),
        }
    });
    let client = BenchFigure {
        name: "client CPU per query".to_owned(),
        value: number(result, "client_cpu_us_per_query"),
        per_second: None,
        unit: "µs".to_owned(),
    };
    counts
        .chain([client])
        .filter(|figure| figure.value.is_some())
        .collect()
}

fn latencies(result: &Value) -> Vec<BenchLatency> {
    let mut all = Vec::new();
    for (name, field) in [
        ("response", "response_us"),
        ("service", "service_us"),
        ("wait", "wait_us"),
        ("generator's lag", "lag_us"),
    ] {
        if let Some(Value::Object(fields)) = result.get(field) {
            all.push(latency("transaction", name, fields, fields));
        }
    }
    for (name, operation) in entries(result.get("operations")) {
        if let (Some(outer), Some(Value::Object(inner))) =
            (operation.as_object(), operation.get("response_us"))
        {
            all.push(latency("event", name, outer, inner));
        }
    }
    for (name, statement) in entries(result.get("statements")) {
        if let Some(fields) = statement.as_object() {
            all.push(latency("statement", name, fields, fields));
        }
    }
    all
}

fn latency(
    kind: &str,
    name: &str,
    outer: &Map<String, Value>,
    inner: &Map<String, Value>,
) -> BenchLatency {
    let mut quantiles: Vec<(f64, String, Option<f64>)> = inner
        .iter()
        .filter_map(|(key, value)| {
            let at: f64 = key.strip_prefix('p')?.parse().ok()?;
            (0.0..=100.0)
                .contains(&at)
                .then(|| (at, key.clone(), finite(value)))
        })
        .take(ROWS_MAX)
        .collect();
    quantiles.sort_by(|left, right| left.0.total_cmp(&right.0));
    let of = |fields: &Map<String, Value>, key: &str| fields.get(key).and_then(finite);
    BenchLatency {
        kind: kind.to_owned(),
        name: name.to_owned(),
        count: of(outer, "count").or_else(|| of(inner, "count")),
        per_second: of(outer, "per_second"),
        mean: of(inner, "mean"),
        max: of(inner, "max"),
        quantiles: quantiles
            .into_iter()
            .map(|(_, name, us)| (name, us))
            .collect(),
    }
}

fn interval(sample: &Value) -> Option<BenchInterval> {
    let kind = sample.get("kind")?.as_str()?;
    let at_s = number(sample, "at_s")?;
    let duration_s = number(sample, "duration_s")?;
    let rate = |name: &str| {
        let value = number(sample, name)?;
        (duration_s > 0.0).then(|| value / duration_s)
    };
    Some(BenchInterval {
        kind: kind.to_owned(),
        at_s,
        duration_s,
        qps: rate("queries"),
        tps: rate("transactions"),
        errors: number(sample, "errors"),
        p50_us: number(sample, "latency_us_p50"),
        p95_us: number(sample, "latency_us_p95"),
        p99_us: number(sample, "latency_us_p99"),
        backlog: number(sample, "backlog"),
    })
}

fn check(value: &Value) -> Option<BenchCheck> {
    let text = |name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    Some(BenchCheck {
        name: value.get("name")?.as_str()?.to_owned(),
        value: number(value, "value"),
        unit: text("unit"),
        ok: value.get("ok").and_then(Value::as_bool),
        note: text("note"),
    })
}

fn number(value: &Value, name: &str) -> Option<f64> {
    finite(value.get(name)?)
}

fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

fn rows(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(ROWS_MAX)
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .take(ROWS_MAX)
}

/// A setting as text: strings without their quotes.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
