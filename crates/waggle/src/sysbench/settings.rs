//! What the built-in options ask for, checked before anything is opened.

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::{Dialect, OptionValue};

use super::options::{BUILT_INS, Values};
use super::refusal::Refusal;
use super::values::{self, Kind};

/// The most threads one process is given.
const THREADS_MAX: u64 = 100_000;

/// The general options, checked.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) dialect: Dialect,
    pub(super) threads: u32,
    /// `None`: no limit.
    pub(super) events: Option<u64>,
    /// `None`: no limit.
    pub(super) time: Option<Duration>,
    pub(super) warmup: Duration,
    /// How long after the end of the time; `None`: wait for what still runs.
    pub(super) forced_shutdown: Option<Duration>,
    pub(super) init_timeout: Duration,
    /// Events a second; 0: closed loop.
    pub(super) rate: f64,
    pub(super) interval: Option<Duration>,
    /// Rising.
    pub(super) checkpoints: Vec<u64>,
    pub(super) debug: bool,
    pub(super) validate: bool,
    /// 0: one is drawn.
    pub(super) seed: u64,
    pub(super) verbosity: u8,
    /// Empty: none.
    pub(super) percentiles: Vec<f64>,
    pub(super) histogram: bool,
    /// Parameters go into the text of statements.
    pub(super) client_prepare: bool,
}

impl Settings {
    pub(super) fn check(values: &Values) -> Result<Settings, Refusal> {
        let verbosity = values.count("verbosity");
        if verbosity > 5 {
            let text = format!("Invalid value for verbosity: {verbosity}");
            return Err(Refusal::Plain(text));
        }
        let percentiles = percentiles(values.text("percentile"))?;
        let histogram = values.is_on("histogram");
        if histogram && percentiles.is_empty() {
            return refused("--histogram cannot be used with --percentile=0");
        }
        let random = values.text("rand-type");
        if !["uniform", "gaussian", "special", "pareto", "zipfian"].contains(&random) {
            return refused(format!("Invalid random numbers distribution: {random}."));
        }
        let threads = values.count("threads");
        if !(1..=THREADS_MAX).contains(&threads) {
            return refused(format!("Invalid value for --threads: {threads}.\n"));
        }
        let stack = values.bytes("thread-stack-size");
        if stack == 0 {
            return refused(format!("Invalid value for thread-stack-size: {stack}.\n"));
        }
        let rate = values.number("rate");
        if rate < 0.0 {
            return refused(format!("Invalid value for --rate: {rate}"));
        }
        let seconds = |name| Some(values.count(name)).filter(|seconds| *seconds > 0);
        let time = seconds("time").map(Duration::from_secs);
        let debug = values.is_on("debug");
        Ok(Settings {
            dialect: values.dialect,
            threads: threads as u32,
            events: seconds("events"),
            time,
            warmup: Duration::from_secs(values.count("warmup-time")),
            forced_shutdown: forced_shutdown(values, time)?,
            // 1.0 has the limit without the option.
            init_timeout: Duration::from_secs(match values.dialect {
                Dialect::V1_0 => 30,
                Dialect::V1_1 => values.count("thread-init-timeout"),
            }),
            rate,
            interval: seconds("report-interval").map(Duration::from_secs),
            checkpoints: checkpoints(values)?,
            debug,
            validate: values.is_on("validate"),
            seed: values.count("rand-seed"),
            verbosity: if debug { 5 } else { verbosity as u8 },
            percentiles,
            histogram,
            client_prepare: match values.text("db-ps-mode") {
                "auto" => false,
                "disable" => true,
                other => return refused(format!("Invalid value for db-ps-mode: {other}")),
            },
        })
    }
}

/// What scripts see in `sysbench.opt` beside their own options. A path has no value there.
pub(super) fn for_scripts(values: &Values) -> BTreeMap<String, OptionValue> {
    let known = BUILT_INS
        .iter()
        .filter(|option| option.is_known(values.dialect) && option.kind != Kind::File);
    known
        .map(|option| {
            let text = || values.text(option.name).to_owned();
            let value = match option.kind {
                Kind::Bool => OptionValue::Bool(values.is_on(option.name)),
                Kind::Int => OptionValue::Number(values.count(option.name) as f64),
                Kind::Size => OptionValue::Number(values.bytes(option.name) as f64),
                Kind::Double => OptionValue::Number(values.number(option.name)),
                Kind::List => OptionValue::List(values.list(option.name)),
                // One percentile is the number that scripts know; a list is text.
                Kind::Text | Kind::File => match text().parse() {
                    Ok(percent) if option.name == "percentile" => OptionValue::Number(percent),
                    _ => OptionValue::Text(text()),
                },
            };
            (option.name.replace('-', "_"), value)
        })
        .collect()
}

fn refused<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::fatal(text))
}

/// One percentile or several; 0 alone: none.
fn percentiles(text: &str) -> Result<Vec<f64>, Refusal> {
    if values::number(text) == Some(0.0) {
        return Ok(Vec::new());
    }
    let wrong = || Refusal::fatal(format!("Invalid value for --percentile: {text}"));
    let parts = values::list(text).into_iter().map(|part| {
        let percent: Option<f64> = part.parse().ok();
        percent
            .filter(|percent| *percent > 0.0 && *percent <= 100.0)
            .ok_or_else(wrong)
    });
    let percentiles = parts.collect::<Result<Vec<f64>, _>>()?;
    if percentiles.is_empty() {
        return Err(wrong());
    }
    Ok(percentiles)
}

fn checkpoints(values: &Values) -> Result<Vec<u64>, Refusal> {
    let parts = values.list("report-checkpoints").into_iter().map(|part| {
        part.parse().ok().filter(|s| *s > 0).ok_or_else(|| {
            Refusal::fatal(format!("Invalid value for --report-checkpoints: '{part}'"))
        })
    });
    let mut checkpoints = parts.collect::<Result<Vec<u64>, _>>()?;
    checkpoints.sort_unstable();
    checkpoints.dedup();
    Ok(checkpoints)
}

/// `off`, seconds, or a share of `--time`; the name alone is 5 %.
fn forced_shutdown(values: &Values, time: Option<Duration>) -> Result<Option<Duration>, Refusal> {
    let Some(text) = values.get("forced-shutdown") else {
        return Ok(time.map(|time| time.mul_f64(0.05)));
    };
    if text == "off" {
        return Ok(None);
    }
    let wrong = || Refusal::fatal(format!("Invalid value for --forced-shutdown: '{text}'"));
    let (number, is_share) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| (0.0..1e9).contains(number))
        .ok_or_else(wrong)?;
    // Without a limit of time there is nothing to be late for.
    Ok(time.map(|time| match is_share {
        true => time.mul_f64(number / 100.0),
        false => Duration::from_secs_f64(number),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::grammar;
    use super::*;

    fn checked(line: &str) -> Result<Settings, Refusal> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let line = grammar::parse(&words, &|_| Err("no file".into()))?;
        Settings::check(&Values::take(line.given)?)
    }

    #[test]
    fn values_that_cannot_be_used_are_refused_in_the_words_of_sysbench() {
        let cases = [
            ("--threads=0", "Invalid value for --threads: 0.\n"),
            ("--threads", "Invalid value for --threads: 0.\n"),
            ("--percentile=101", "Invalid value for --percentile: 101"),
            (
                "--histogram --percentile=0",
                "--histogram cannot be used with --percentile=0",
            ),
            (
                "--rand-type=foo",
                "Invalid random numbers distribution: foo.",
            ),
            (
                "--report-checkpoints=1,x",
                "Invalid value for --report-checkpoints: 'x'",
            ),
            (
                "--forced-shutdown=abc",
                "Invalid value for --forced-shutdown: 'abc'",
            ),
            ("--db-ps-mode=foo", "Invalid value for db-ps-mode: foo"),
        ];
        for (line, wanted) in cases {
            assert_eq!(checked(line).unwrap_err(), Refusal::fatal(wanted), "{line}");
        }
        let refused = checked("--verbosity=9").unwrap_err();
        let wanted = "Invalid value for verbosity: 9".to_owned();
        assert_eq!(refused, Refusal::Plain(wanted));
    }

    #[test]
    fn a_forced_shutdown_is_off_seconds_or_a_share() {
        let shutdown = |line: &str| checked(line).unwrap().forced_shutdown;
        assert_eq!(shutdown(""), None);
        assert_eq!(shutdown("--forced-shutdown=off"), None);
        assert_eq!(
            shutdown("--forced-shutdown=3"),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            shutdown("--forced-shutdown --time=20"),
            Some(Duration::from_secs(1))
        );
        assert_eq!(
            shutdown("--forced-shutdown=50% --time=20"),
            Some(Duration::from_secs(10))
        );
    }

    #[test]
    fn percentiles_may_be_a_list_and_scripts_see_one_as_a_number() {
        assert_eq!(
            checked("--percentile=50,99.9").unwrap().percentiles,
            [50.0, 99.9]
        );
        assert!(checked("--percentile=0").unwrap().percentiles.is_empty());
        let values = Values::take(Vec::new()).unwrap();
        let seen = for_scripts(&values);
        assert_eq!(seen["percentile"], OptionValue::Number(95.0));
        assert_eq!(seen["mysql_port"], OptionValue::List(vec!["3306".into()]));
        assert_eq!(seen["thread_stack_size"], OptionValue::Number(65_536.0));
        assert!(!seen.contains_key("config_file"));
    }
}
