//! An arm as data.

use serde::{Deserialize, Serialize};
use waggle_report::run::{is_secret_name, redact_argv, shell_line};

/// Something whose cost is measured, compared with nothing at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ArmSpec {
    /// Name in JSON, flags and windows.
    pub(crate) name: String,
    /// Name for people.
    pub(crate) label: String,
    /// What one sees of the server under this arm, in a few words; `None`: nothing.
    pub(crate) sees: Option<String>,
    /// Server settings, which need a server of their own: name and value. An arm that has some is
    /// measured over pairs of servers; what else it has is switched on the one with the settings.
    pub(crate) settings: Vec<(String, String)>,
    /// Statements that switch it on.
    pub(crate) on: Vec<String>,
    /// Statements that switch it off; afterwards everything is as it was.
    pub(crate) off: Vec<String>,
    /// Server variables that name a file the arm writes, such as `general_log_file`: these files
    /// may stay behind, and are removed.
    pub(crate) files: Vec<String>,
    /// A process beside the server.
    pub(crate) observer: Option<ObserverSpec>,
    /// Windows that are measured in any case, within one server life. Chosen before anything is
    /// seen, so that their number does not depend on what they show.
    pub(crate) windows_planned: usize,
    /// Half-width of the primary outcome's ratio that is aimed at; an arm without one gets none of
    /// the time that is left.
    pub(crate) target: Option<f64>,
    /// It is the base again: what the instrument sees where there is nothing to see.
    pub(crate) aa: bool,
}

/// What stands for a secret.
pub(crate) const MASK: &str = "***";

/// A statement as it may be kept and shown.
pub(crate) fn shown_sql(sql: &str) -> String {
    match waggle_digest::carries_secret(sql.as_bytes()) {
        true => MASK.to_owned(),
        false => sql.to_owned(),
    }
}

/// A process that observes the server while its arm is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObserverSpec {
    /// The statement probe with a program that returns at once: the trap alone.
    ProbeEmpty,
    /// The statement probe with a program that burns this many nanoseconds: a known cost.
    Burn {
        /// Nanoseconds a statement.
        ns: u64,
    },
    /// `waggle watch` with this source (`uprobe`, `packets`, `perfschema`, `slowlog`).
    Watch {
        /// As in `waggle watch --source`.
        source: String,
        /// Further flags of `waggle watch`.
        args: Vec<String>,
    },
    /// Any command. `{pid}`, `{socket}`, `{port}` and `{datadir}` in its words are the server's.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
        /// It is on when it has written a line that contains this; without it, once it runs.
        ready: Option<String>,
    },
}

impl ArmSpec {
    /// An arm that does nothing yet, with the number of windows that suits one that is not the
    /// subject.
    pub(crate) fn new(name: &str, label: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            windows_planned: 12,
            ..Self::default()
        }
    }

    /// The same as it may be kept and shown: without passwords.
    pub(crate) fn shown(&self) -> Self {
        let statements = |all: &[String]| all.iter().map(|sql| shown_sql(sql)).collect();
        let setting = |(name, value): &(String, String)| {
            let value = if is_secret_name(name) { MASK } else { value };
            (name.clone(), value.to_owned())
        };
        Self {
            settings: self.settings.iter().map(setting).collect(),
            on: statements(&self.on),
            off: statements(&self.off),
            observer: self.observer.as_ref().map(|observer| match observer {
                ObserverSpec::Watch { source, args } => ObserverSpec::Watch {
                    source: source.clone(),
                    args: redact_argv(args),
                },
                ObserverSpec::Command { argv, ready } => ObserverSpec::Command {
                    argv: redact_argv(argv),
                    ready: ready.clone(),
                },
                other => other.clone(),
            }),
            ..self.clone()
        }
    }

    /// What switches it on, for a report: settings, statements, the observer's command line.
    pub(crate) fn switched_by(&self) -> Vec<String> {
        self.shown().switches()
    }

    fn switches(&self) -> Vec<String> {
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| format!("server setting {name}={value}"));
        let observer = self.observer.iter().map(|observer| match observer {
            ObserverSpec::ProbeEmpty => "the statement probe with an empty program".to_owned(),
            ObserverSpec::Burn { ns } => format!("the statement probe, burning {ns} ns"),
            ObserverSpec::Watch { source, args } => {
                format!("waggle watch --source {source} {}", args.join(" "))
                    .trim_end()
                    .to_owned()
            }
            ObserverSpec::Command { argv, .. } => shell_line(argv),
        });
        settings
            .chain(self.on.iter().cloned())
            .chain(observer)
            .collect()
    }

    /// True if it is switched within one server life; else it needs servers of its own.
    pub(crate) fn is_in_life(&self) -> bool {
        self.settings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_kept_or_shown() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let arm = ArmSpec {
            settings: vec![("report_password".to_owned(), "s3cret".to_owned())],
            on: vec!["ALTER USER u IDENTIFIED BY 's3cret'".to_owned()],
            off: vec!["SET GLOBAL a = 1".to_owned()],
            observer: Some(ObserverSpec::Command {
                argv: words("mysqldump -ps3cret --password=s3cret --password s3cret db"),
                ready: None,
            }),
            ..ArmSpec::new("x", "x")
        };
        let watch = ArmSpec {
            observer: Some(ObserverSpec::Watch {
                source: "perfschema".to_owned(),
                args: words("--dsn mysql://u:s3cret@h/"),
            }),
            ..ArmSpec::new("y", "y")
        };
        for arm in [arm, watch] {
            let kept = serde_json::to_string(&arm.shown()).expect("JSON");
            let told = arm.switched_by().join("; ");
            for text in [&kept, &told] {
                assert!(!text.contains("s3cret") && text.contains(MASK), "{text}");
            }
            assert_eq!(arm.shown().off, arm.off);
        }
    }
}
