//! The help pages: every option of every test, and those that a script declares.
//!
//! The layout is sysbench's, so that what reads the pages goes on working: a group's names are
//! padded to its longest one. The descriptions are waggle's.

use std::fmt::Write as _;

use waggle_load::{DeclaredOption, Dialect, OptionKind, OptionValue};

use super::options::{BUILT_INS, Group};
use super::values::Kind;

/// Tests that sysbench has built in and that measure no database.
pub(super) const NOT_DATABASES: [&str; 5] = ["fileio", "cpu", "memory", "threads", "mutex"];

/// `--help`.
pub(super) fn page(dialect: Dialect) -> String {
    let mut page = "Usage:\n  sysbench [options]... [testname] [command]\n\n\
                    Commands implemented by most tests: prepare run cleanup help\n\n"
        .to_owned();
    for (group, title) in Group::ALL {
        if group == Group::Mysql {
            page += "Compiled-in database drivers:\n  mysql - MySQL and MariaDB\n\
                     \x20 pgsql - PostgreSQL\n\n";
        }
        let rows = BUILT_INS
            .iter()
            .filter(|option| option.group == group && option.is_known(dialect))
            .map(|option| Row {
                name: format!("{}{}", option.name, option.kind.placeholder()),
                description: option.description.to_owned(),
                default: shown(option.kind, option.default),
            });
        let _ = writeln!(page, "{title}:\n{}", table(&rows.collect::<Vec<_>>()));
    }
    let _ = write!(
        page,
        "Tests of sysbench without a database are not part of waggle: {}\n\n\
         See 'sysbench <testname> help' for a list of options for each test.\n\n",
        NOT_DATABASES.join(" ")
    );
    page
}

/// The `help` command of a script.
pub(super) fn of_script(script: &str, declared: &[DeclaredOption]) -> String {
    let rows: Vec<Row> = declared
        .iter()
        .map(|option| {
            let (kind, default) = (kind(option.kind), typed(&option.default));
            Row {
                name: format!("{}{}", option.name, kind.placeholder()),
                description: option.description.clone(),
                default: shown(kind, &default),
            }
        })
        .collect();
    format!("{script} options:\n{}\n", table(&rows))
}

fn kind(declared: OptionKind) -> Kind {
    match declared {
        OptionKind::Bool => Kind::Bool,
        OptionKind::Int => Kind::Int,
        OptionKind::Size => Kind::Size,
        OptionKind::Double => Kind::Double,
        OptionKind::Text => Kind::Text,
        OptionKind::List => Kind::List,
        OptionKind::File => Kind::File,
    }
}

/// A default as a user would type it.
fn typed(default: &OptionValue) -> String {
    match default {
        OptionValue::Bool(true) => "on".to_owned(),
        OptionValue::Bool(false) => "off".to_owned(),
        OptionValue::Number(value) => value.to_string(),
        OptionValue::Text(value) => value.clone(),
        OptionValue::List(values) => values.join(","),
    }
}

struct Row {
    name: String,
    description: String,
    default: Option<String>,
}

/// Paths show no default; an empty text shows one only where sysbench shows it.
fn shown(kind: Kind, default: &str) -> Option<String> {
    match kind {
        Kind::File => None,
        Kind::Text if default.is_empty() => None,
        _ => Some(default.to_owned()),
    }
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let _ = write!(text, "  --{:width$} {}", row.name, row.description);
        let _ = match &row.default {
            Some(default) => writeln!(text, " [{default}]"),
            None => writeln!(text),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(default: &OptionValue) -> OptionKind {
        match default {
            OptionValue::Bool(_) => OptionKind::Bool,
            OptionValue::Number(_) => OptionKind::Double,
            OptionValue::Text(_) => OptionKind::Text,
            OptionValue::List(_) => OptionKind::List,
        }
    }

    #[test]
    fn a_scripts_options_are_listed_as_sysbench_lists_them() {
        let option = |name: &str, description: &str, default| DeclaredOption {
            name: name.to_owned(),
            description: description.to_owned(),
            kind: kind_of(&default),
            default,
        };
        let list = OptionValue::List(vec!["a".to_owned(), "b".to_owned()]);
        let declared = [
            option("b", "a bool", OptionValue::Bool(true)),
            option("flt", "a float", OptionValue::Number(0.5)),
            option("l", "a list", list),
            option("none", "nothing", OptionValue::Text(String::new())),
            option("num", "a number", OptionValue::Number(5.0)),
            option("str", "a string", OptionValue::Text("abc".to_owned())),
        ];
        let wanted = "ev.lua options:\n\
            \x20 --b[=on|off]   a bool [on]\n\
            \x20 --flt=N        a float [0.5]\n\
            \x20 --l=[LIST,...] a list [a,b]\n\
            \x20 --none=STRING  nothing\n\
            \x20 --num=N        a number [5]\n\
            \x20 --str=STRING   a string [abc]\n\n";
        assert_eq!(of_script("ev.lua", &declared), wanted);
    }

    #[test]
    fn the_page_knows_the_dialects() {
        let (old, new) = (page(Dialect::V1_0), page(Dialect::V1_1));
        assert!(old.contains("--num-threads=N") && !new.contains("--num-threads=N"));
        assert!(new.contains("--warmup-time=N") && !old.contains("--warmup-time=N"));
    }
}
