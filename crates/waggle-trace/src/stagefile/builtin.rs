//! The pipelines that waggle brings along. They are stage files like any other, shipped as data.

use super::{Expression, Pipeline, Place, Rule, Sighting, Stage, Wait, parse};

/// Name and text of each.
pub(super) const TEXTS: [(&str, &str); 6] = [
    ("redo", include_str!("builtin/redo.toml")),
    ("redo-paused", include_str!("builtin/redo-paused.toml")),
    ("mariadb-redo", include_str!("builtin/mariadb-redo.toml")),
    ("binlog", include_str!("builtin/binlog.toml")),
    (
        "mariadb-binlog",
        include_str!("builtin/mariadb-binlog.toml"),
    ),
    ("replica", include_str!("builtin/replica.toml")),
];

/// Names of the built-in pipelines.
pub fn builtin_names() -> &'static [&'static str] {
    const NAMES: [&str; TEXTS.len()] = {
        let mut names = [""; TEXTS.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = TEXTS[index].0;
            index += 1;
        }
        names
    };
    &NAMES
}

/// A built-in pipeline by its name; `None` if there is none.
pub fn builtin(name: &str) -> Option<Pipeline> {
    let (_, text) = TEXTS.iter().find(|(known, _)| *known == name)?;
    // A test reads every one of them.
    let mut found = parse(text).expect("the built-in files are well-formed");
    found.pop()
}

/// The pipeline of static probes in the article's format: `PROVIDER:wait_start(value)`, stages
/// `PROVIDER:1(progress)` to `PROVIDER:N(progress)`, `PROVIDER:wait_end`. `stages` are the numbers
/// that the binary has; any other name is no stage.
pub fn from_static_probes(provider: &str, names: &[&str]) -> Pipeline {
    let place = |name: &str| Place::Static {
        provider: provider.to_owned(),
        name: name.to_owned(),
    };
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let stages = numbers.iter().map(|number| Stage {
        name: number.to_string(),
        at: Sighting::Places(vec![(place(&number.to_string()), Expression::Argument(1))]),
        rule: Rule::AtLeast,
        begins: Vec::new(),
    });
    Pipeline {
        name: provider.to_owned(),
        about: format!("static probes of {provider}"),
        when: Vec::new(),
        wait: Wait {
            start: place("wait_start"),
            key: Expression::Argument(1),
            second: None,
            tests: Vec::new(),
            ends: vec![(place("wait_end"), None)],
            stack: true,
        },
        stages: stages.collect(),
    }
}
