//! The options that every test has: names, types and defaults in both dialects.
//!
//! One table feeds the parser, the help, what scripts see in `sysbench.opt`, and the test that
//! asks for a row of each in `docs/commands/sysbench-compat.md`. The descriptions are waggle's own.

use std::collections::BTreeMap;

use waggle_load::Dialect;

use super::grammar::Given;
use super::refusal::Refusal;
use super::values::{Kind, boolean, list, number, size, whole};

/// The groups of the help, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    General,
    Random,
    Log,
    Database,
    Mysql,
    Pgsql,
    Waggle,
}

impl Group {
    pub(super) const ALL: [(Group, &'static str); 7] = [
        (Group::General, "General options"),
        (Group::Random, "Pseudo-Random Numbers Generator options"),
        (Group::Log, "Log options"),
        (Group::Database, "General database options"),
        (Group::Mysql, "mysql options"),
        (Group::Pgsql, "pgsql options"),
        (Group::Waggle, "waggle options"),
    ];
}

/// Which dialects know an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Both,
    Only(Dialect),
}

/// An option that is there for every test.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltIn {
    /// With dashes, as the help shows it.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) group: Group,
    pub(super) description: &'static str,
    known: Known,
}

const fn option(
    group: Group,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> BuiltIn {
    BuiltIn {
        name,
        kind,
        default,
        group,
        description,
        known: Known::Both,
    }
}

impl BuiltIn {
    const fn only(mut self, dialect: Dialect) -> BuiltIn {
        self.known = Known::Only(dialect);
        self
    }

    pub(super) fn is_known(&self, dialect: Dialect) -> bool {
        self.known == Known::Both || self.known == Known::Only(dialect)
    }
}

use Dialect::{V1_0, V1_1};
use Group::{Database, General, Log, Mysql, Pgsql, Random, Waggle};
use Kind::{Bool, Double, File, Int, List, Size, Text};

/// Every option that is no script's. Where dialects differ in type or default, a name has a row
/// for each.
#[rustfmt::skip]
pub(super) static BUILT_INS: &[BuiltIn] = &[
    option(General, "threads", Int, "1", "worker threads, each with a connection of its own"),
    option(General, "events", Int, "0", "events to run in all; 0: no limit"),
    option(General, "time", Int, "10", "seconds to run; 0: no limit"),
    option(General, "warmup-time", Int, "0", "seconds to run before statistics begin").only(V1_1),
    option(General, "forced-shutdown", Text, "off",
        "seconds (or N% of --time) after the end of --time until what still runs is \
         given up; 'off' waits"),
    option(General, "thread-stack-size", Size, "64K",
        "accepted and not used: threads get what Lua needs"),
    option(General, "thread-init-timeout", Int, "30",
        "seconds the threads may take to connect and prepare").only(V1_1),
    option(General, "rate", Double, "0",
        "events a second over all threads, fractions allowed; 0: each thread as fast as \
         it can"),
    option(General, "report-interval", Int, "0", "seconds between two lines of progress; 0: none"),
    option(General, "report-checkpoints", List, "",
        "seconds from the start at which a full report is printed and counting begins \
         anew"),
    option(General, "debug", Bool, "off", "say more, as --verbosity=5"),
    option(General, "validate", Bool, "off", "ask scripts to check what they get where they can"),
    option(General, "help", Bool, "off", "print this help"),
    option(General, "version", Bool, "off", "print the version"),
    option(General, "config-file", File, "", "a file of options, one name=value a line"),
    option(General, "luajit-cmd", Text, "",
        "a LuaJIT command such as off or v; accepted, not used").only(V1_1),
    option(General, "tx-rate", Int, "0", "old name of --rate").only(V1_0),
    option(General, "max-requests", Int, "0", "old name of --events").only(V1_0),
    option(General, "max-time", Int, "0", "old name of --time").only(V1_0),
    option(General, "num-threads", Int, "1", "old name of --threads").only(V1_0),
    option(Random, "rand-type", Text, "special",
        "distribution of random numbers {uniform,gaussian,special,pareto,zipfian}").only(V1_0),
    option(Random, "rand-type", Text, "uniform",
        "distribution of random numbers {uniform,gaussian,pareto,zipfian,special}").only(V1_1),
    option(Random, "rand-spec-iter", Int, "12",
        "draws averaged for one gaussian or special number").only(V1_0),
    option(Random, "rand-spec-pct", Int, "1",
        "special: share of the range that is hit often, in percent").only(V1_0),
    option(Random, "rand-spec-res", Int, "75",
        "special: share of the draws that hit it, in percent").only(V1_0),
    option(Random, "rand-seed", Int, "0", "seed of all random numbers; 0 draws one"),
    option(Random, "rand-pareto-h", Double, "0.2", "shape of the pareto distribution"),
    option(Random, "rand-zipfian-exp", Double, "0.8",
        "exponent of the zipfian distribution").only(V1_1),
    option(Log, "verbosity", Int, "3", "how much to say {5: debug, 0: fatal errors only}"),
    option(Log, "percentile", Text, "95",
        "latency percentiles to report (1-100), one or a list such as 50,95,99.9; 0: \
         none"),
    option(Log, "histogram", Bool, "off", "print a histogram of latencies in the report"),
    option(Database, "db-driver", Text, "mysql", "database driver ('help' lists them)"),
    option(Database, "db-ps-mode", Text, "auto",
        "prepared statements on the server {auto, disable}"),
    option(Database, "db-debug", Bool, "off", "accepted; statements are shown by waggle watch"),
    option(Mysql, "mysql-host", List, "localhost", "servers, used in turn"),
    option(Mysql, "mysql-port", List, "3306", "their ports; every host is used with every port"),
    option(Mysql, "mysql-socket", List, "",
        "Unix sockets, used in turn, in place of hosts and ports"),
    option(Mysql, "mysql-user", Text, "sbtest", "account"),
    option(Mysql, "mysql-password", Text, "", "its password"),
    option(Mysql, "mysql-db", Text, "sbtest", "database"),
    option(Mysql, "mysql-ssl", Bool, "off", "encrypt connections with TLS").only(V1_0),
    option(Mysql, "mysql-ssl", Text, "disabled",
        "TLS {DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY}").only(V1_1),
    option(Mysql, "mysql-ssl-key", Text, "", "file with the client's key").only(V1_1),
    option(Mysql, "mysql-ssl-ca", Text, "", "file with the authorities to trust").only(V1_1),
    option(Mysql, "mysql-ssl-cert", Text, "", "file with the client's certificate").only(V1_1),
    option(Mysql, "mysql-ssl-cipher", Text, "", "cipher to use with TLS"),
    option(Mysql, "mysql-compression", Bool, "off", "compress the protocol"),
    option(Mysql, "mysql-compression-algorithms", Text, "zlib",
        "algorithms, in order of preference").only(V1_1),
    option(Mysql, "mysql-debug", Bool, "off",
        "accepted and not used: there is no client library to trace"),
    option(Mysql, "mysql-ignore-errors", List, "1213,1020,1205",
        "server errors that restart an event, or 'all'"),
    option(Mysql, "mysql-dry-run", Bool, "off",
        "send nothing; every statement ends well and has no rows"),
    option(Pgsql, "pgsql-host", Text, "localhost", "server"),
    option(Pgsql, "pgsql-port", Int, "5432", "its port"),
    option(Pgsql, "pgsql-user", Text, "sbtest", "account"),
    option(Pgsql, "pgsql-password", Text, "", "its password"),
    option(Pgsql, "pgsql-db", Text, "sbtest", "database"),
    option(Pgsql, "pgsql-sslmode", Text, "prefer",
        "TLS {disable, prefer, require, verify-ca, verify-full}").only(V1_1),
    option(Waggle, "dialect", Text, "1.0", "which sysbench to be {1.0, 1.1}"),
];

/// The old names of 1.0, and what they are called now; in the order of their warnings.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("num_threads", "threads"),
    ("max_requests", "events"),
    ("max_time", "time"),
    ("tx_rate", "rate"),
];

/// The option of this name (with underscores) in a dialect.
pub(super) fn built_in(name: &str, dialect: Dialect) -> Option<&'static BuiltIn> {
    BUILT_INS
        .iter()
        .find(|option| option.is_known(dialect) && option.name.replace('-', "_") == name)
}

/// The values of the built-in options as text, and what is left for the script.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) dialect: Dialect,
    /// By name with underscores; `None`: the name alone.
    given: BTreeMap<&'static str, Option<String>>,
    /// Not built in: the script may declare them. In order.
    pub(super) rest: Vec<Given>,
    /// A switch whose value is neither on nor off, as it was typed: sysbench calls it an unknown
    /// option, and only once the banner is printed.
    pub(super) wrong_switch: Option<String>,
    /// Old names that were used, in the order of [`ALIASES`], with the new ones.
    pub(super) old_names: Vec<(&'static str, &'static str)>,
}

impl Values {
    /// The first pass: what is known is checked and taken, the rest is kept.
    pub(super) fn take(given: Vec<Given>) -> Result<Values, Refusal> {
        let mut values = Values {
            dialect: dialect(&given)?,
            given: BTreeMap::new(),
            rest: Vec::new(),
            wrong_switch: None,
            old_names: Vec::new(),
        };
        for given in given {
            let Some(option) = built_in(&given.name, values.dialect) else {
                values.rest.push(given);
                continue;
            };
            if !option.kind.takes(given.value.as_deref()) {
                if option.kind == Kind::Bool {
                    values.wrong_switch.get_or_insert(given.typed);
                    continue;
                }
                let typed = given.value.unwrap_or_default();
                return Err(Refusal::usage(format!(
                    "Invalid value for the '{}' option: '{typed}'",
                    option.name
                )));
            }
            values.given.insert(option.name, given.value);
        }
        for (old, new) in ALIASES {
            let Some(old) = built_in(old, values.dialect) else {
                continue;
            };
            let Some(new) = built_in(new, values.dialect) else {
                continue;
            };
            let given = values.given.get(old.name).cloned();
            // sysbench does not look at an old name that only says its default.
            let says = |value: &Option<String>| {
                whole(value.as_deref().unwrap_or_default()) > whole(old.default)
            };
            if let Some(value) = given.filter(says) {
                values.given.insert(new.name, value);
                values.old_names.push((old.name, new.name));
            }
        }
        Ok(values)
    }

    /// True when the dialect has the option.
    pub(super) fn is_known(&self, name: &str) -> bool {
        BUILT_INS
            .iter()
            .any(|option| option.name == name && option.is_known(self.dialect))
    }

    /// The text of an option; `None`: its name alone was given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        match self.given.get(name) {
            Some(value) => value.as_deref(),
            None => Some(self.default(name)),
        }
    }

    fn default(&self, name: &str) -> &'static str {
        BUILT_INS
            .iter()
            .find(|option| option.name == name && option.is_known(self.dialect))
            .map_or("", |option| option.default)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        boolean(self.get(name)) == Some(true)
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        whole(self.text(name)).unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        number(self.text(name)).unwrap_or_default()
    }

    pub(super) fn bytes(&self, name: &str) -> u64 {
        size(self.text(name)).unwrap_or_default()
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        list(self.text(name))
    }
}

/// The dialect that the options ask for; the last one counts.
fn dialect(given: &[Given]) -> Result<Dialect, Refusal> {
    match given.iter().rfind(|given| given.name == "dialect") {
        None => Ok(V1_0),
        Some(given) => match given.value.as_deref() {
            Some("1.0") => Ok(V1_0),
            Some("1.1") => Ok(V1_1),
            other => Err(Refusal::usage(format!(
                "Invalid value for the 'dialect' option: '{}' (1.0 or 1.1)",
                other.unwrap_or_default()
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar;
    use super::*;

    fn taken(line: &str) -> Result<Values, Refusal> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Values::take(grammar::parse(&words, &|_| Err("no file".into()))?.given)
    }

    #[test]
    fn defaults_follow_the_dialect() {
        let old = taken("").unwrap();
        assert_eq!(old.text("rand-type"), "special");
        assert!(!old.is_on("mysql-ssl"));
        let new = taken("--dialect 1.1").unwrap();
        assert_eq!(new.text("rand-type"), "uniform");
        assert_eq!(new.text("mysql-ssl"), "disabled");
        assert_eq!(new.count("thread-init-timeout"), 30);
    }

    #[test]
    fn what_is_not_built_in_is_left_to_the_script() {
        let values = taken("--table-size=5 --threads=4 --warmup-time=3").unwrap();
        let rest: Vec<&str> = values.rest.iter().map(|given| &*given.typed).collect();
        assert_eq!(rest, ["--table-size=5", "--warmup-time=3"]);
        assert_eq!(values.count("threads"), 4);
    }

    #[test]
    fn wrong_values_are_refused_in_the_words_of_sysbench() {
        let refused = |line: &str| taken(line).unwrap_err();
        assert_eq!(
            refused("--threads=5x"),
            Refusal::usage("Invalid value for the 'threads' option: '5x'")
        );
        let wrong = taken("--debug=maybe").unwrap().wrong_switch;
        assert_eq!(wrong.as_deref(), Some("--debug=maybe"));
        assert!(taken("--dialect=2").is_err());
    }

    #[test]
    fn old_names_set_the_new_ones_and_are_told_in_order() {
        let values = taken("--max-time=7 --num-threads=3").unwrap();
        assert_eq!((values.count("threads"), values.count("time")), (3, 7));
        assert_eq!(
            values.old_names,
            [("num-threads", "threads"), ("max-time", "time")]
        );
        let values = taken("--max-time=0 --num-threads=1 --threads=2").unwrap();
        assert_eq!((values.count("threads"), values.count("time")), (2, 10));
        assert!(values.old_names.is_empty());
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for option in BUILT_INS {
            assert!(option.kind.takes(Some(option.default)), "{}", option.name);
        }
    }
}
