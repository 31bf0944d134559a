//! `contrib/`: does what is shipped for Prometheus, Grafana and systemd fit what is served?

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use waggle_agent::sink::Sink;
use waggle_export::prometheus::{Bounds, Exposition};
use waggle_need::{program, skip};

use crate::fixture::{digest, server, view};
use crate::pushed::{Agent, delivered, push, start};
use crate::store::{Brand, Store};

const DASHBOARD: &str = "grafana/waggle-watch.json";
const ALERTS: &str = "prometheus/alerts.yml";

fn contrib(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates.join("../../contrib").join(name)
}

fn read(name: &str) -> String {
    let path = contrib(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The labels of each metric that is served.
fn served() -> BTreeMap<String, BTreeSet<String>> {
    let servers = vec![server(0, "3306", vec![digest("0xA", 100)])];
    let text = Exposition::new(Bounds::default()).text(&view(1, servers));
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.split("=\"").filter_map(|part| {
            let name = part.rsplit(['"', ',', '{']).next()?;
            (!name.is_empty() && !name.contains('}')).then(|| name.to_owned())
        });
        all.entry(name.to_owned()).or_default().extend(labels);
    }
    all
}

/// What an expression names: metrics with the labels they are selected by, and labels that are
/// grouped or matched by.
#[derive(Debug, Default)]
struct Named {
    metrics: Vec<(String, Vec<String>)>,
    labels: Vec<String>,
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn named(expression: &str) -> Named {
    let mut found = Named::default();
    let mut rest = expression;
    while let Some(begin) = rest.find(is_word) {
        rest = &rest[begin..];
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let list = |open: char, close: char| {
            let inside = after.trim_start().strip_prefix(open)?;
            Some(&inside[..inside.find(close)?])
        };
        if word.starts_with("waggle_") {
            let selected = list('{', '}').unwrap_or_default().split(',');
            let labels = selected.filter_map(|one| one.split(['=', '!']).next());
            let labels = labels.map(|label| label.trim().to_owned());
            let labels = labels.filter(|label| !label.is_empty()).collect();
            found.metrics.push((word.to_owned(), labels));
        } else if ["by", "on", "group_left"].contains(&word) {
            let labels = list('(', ')').unwrap_or_default().split(',');
            found
                .labels
                .extend(labels.map(|label| label.trim().to_owned()));
        }
    }
    found
}

/// Fails if an expression, or text with `shown` labels beside it, names what is not served.
fn check(expression: &str, shown: &[String], served: &BTreeMap<String, BTreeSet<String>>) {
    let of_scrape = ["instance", "job"];
    let named = named(expression);
    let mut any: BTreeSet<&str> = of_scrape.into();
    for (metric, selected) in &named.metrics {
        let labels = served
            .get(metric)
            .unwrap_or_else(|| panic!("{metric} is not served: {expression}"));
        for label in selected {
            let is_there = labels.contains(label) || of_scrape.contains(&label.as_str());
            assert!(is_there, "{metric} has no label {label}: {expression}");
        }
        any.extend(labels.iter().map(String::as_str));
    }
    for label in named.labels.iter().chain(shown) {
        assert!(
            any.contains(label.as_str()),
            "no label {label}: {expression}"
        );
    }
}

/// The words between `open` and `}}`.
fn templates(text: &str, open: &str) -> Vec<String> {
    let parts = text.split(open).skip(1);
    let names = parts.filter_map(|part| part.split("}}").next());
    names.map(|name| name.trim().to_owned()).collect()
}

/// Expression and legend of every target of every panel.
fn targets(dashboard: &serde_json::Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let all = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    all.map(|one| (text(&one["expr"]), text(&one["legendFormat"])))
        .collect()
}

#[test]
fn the_dashboard_names_only_what_is_served() {
    let served = served();
    let dashboard: serde_json::Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let targets = targets(&dashboard);
    assert!(targets.len() > 50);
    for (expression, legend) in &targets {
        assert!(!named(expression).metrics.is_empty(), "{expression}");
        check(expression, &templates(legend, "{{"), &served);
    }
    for note in dashboard["annotations"]["list"].as_array().unwrap() {
        check(note["expr"].as_str().unwrap(), &[], &served);
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let (selector, label) = query.rsplit_once(',').unwrap();
            let label = label.trim().trim_end_matches(')').to_owned();
            check(selector, &[label], &served);
        }
    }
    // And the other way round: what is wrong is found.
    let wrong = std::panic::catch_unwind(|| check("sum by (nosuch) (up)", &[], &served));
    assert!(wrong.is_err());
}

/// Every query of the dashboard has an answer from a Prometheus that has the agent's series.
#[test]
fn every_panel_shows_something() {
    let Some(store) = Store::start(Brand::Prometheus) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::new(600);
    let mut write = start(store.write_url(), folder.path());
    for second in [1, 30, 60, 90] {
        push(&mut write, &agent.view(second));
    }
    delivered(&write);
    let dashboard: serde_json::Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    for (expression, _) in targets(&dashboard) {
        let query = expression
            .replace("$__rate_interval", "2m")
            .replace("$__range", "5m")
            .replace("$instance", ".*")
            .replace("$server", ".*");
        assert!(!query.contains('$'), "{query}");
        let answer = store.query(&query, agent.until_s());
        let numbers = answer.values().filter(|value| value.is_finite()).count();
        assert!(numbers > 0, "nothing to show: {query}: {answer:?}");
    }
    write.close(Duration::ZERO);
}

#[test]
fn alerts_name_only_what_is_served() {
    let served = served();
    let text = read(ALERTS);
    let alerts: Vec<&str> = text.split("- alert:").skip(1).collect();
    assert!(alerts.len() >= 10);
    for alert in alerts {
        let expression = alert.split("expr:").nth(1).unwrap();
        let (expression, rest) = expression.split_once("labels:").unwrap();
        if expression.contains("waggle_") {
            check(expression, &templates(rest, "{{ $labels."), &served);
        }
    }
}

fn promtool() -> Option<String> {
    let found = program(&["promtool"]);
    if found.is_none() {
        skip("prometheus", "promtool is not installed");
    }
    found
}

/// Runs a checker; what it says is the failure.
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

#[test]
fn promtool_takes_the_configuration_and_the_alerts() {
    let Some(promtool) = promtool() else { return };
    passes(
        Command::new(&promtool)
            .args(["check", "rules"])
            .arg(contrib(ALERTS)),
    );
    let scrape = contrib("prometheus/scrape.yml");
    passes(
        Command::new(&promtool)
            .args(["check", "config"])
            .arg(scrape),
    );
}

/// Two in a hundred lost is told, one in two hundred is not; a wait of a minute is told.
#[test]
fn alerts_fire_when_they_should() {
    let Some(promtool) = promtool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.yml");
    let alerts = contrib(ALERTS).canonicalize().unwrap();
    let series = |lost: u32| {
        format!(
            "  - series: 'waggle_statements_captured_total{{instance=\"i\",server=\"s{lost}\"}}'\n\
             \x20   values: '0+{}x30'\n\
             \x20 - series: 'waggle_statements_lost_total\
             {{instance=\"i\",server=\"s{lost}\",cause=\"c\"}}'\n\
             \x20   values: '0+{lost}x30'\n",
            1000 - lost
        )
    };
    let text = format!(
        "rule_files: ['{}']\n\
         tests:\n\
         - interval: 1m\n\
         \x20 input_series:\n{}{}\
         \x20 - series: 'waggle_lock_wait_longest_seconds\
         {{instance=\"i\",server=\"s\",kind=\"row\"}}'\n\
         \x20   values: '0 31 60 0'\n\
         \x20 alert_rule_test:\n\
         \x20 - eval_time: 20m\n\
         \x20   alertname: WaggleLosesStatements\n\
         \x20   exp_alerts:\n\
         \x20   - exp_labels: {{instance: i, server: s20, severity: info}}\n\
         \x20     exp_annotations: {{summary: 'More than one statement in a hundred is not seen \
         on s20'}}\n\
         \x20 - eval_time: 2m\n\
         \x20   alertname: LockWaitIsLong\n\
         \x20   exp_alerts:\n\
         \x20   - exp_labels: {{instance: i, server: s, kind: row, severity: warning}}\n\
         \x20     exp_annotations: {{summary: 'A session of s waits for a row lock for half a \
         minute'}}\n",
        alerts.display(),
        series(20),
        series(5)
    );
    std::fs::write(&file, text).unwrap();
    passes(Command::new(promtool).args(["test", "rules"]).arg(file));
}

#[test]
fn systemd_takes_the_unit() {
    let Some(analyze) = program(&["systemd-analyze"]) else {
        skip("systemd", "systemd-analyze is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("waggle-watch.service");
    // It looks for the program; what it is does not matter here.
    let text = read("waggle-watch.service").replace("/usr/local/bin/waggle", "/bin/true");
    std::fs::write(&unit, text).unwrap();
    let mut command = Command::new(analyze);
    command.args(["verify", "--man=no"]).arg(&unit);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Other units of the machine are none of ours.
    let ours = said.lines().filter(|line| line.contains("waggle-watch"));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(output.status.success(), "{said}");
}
