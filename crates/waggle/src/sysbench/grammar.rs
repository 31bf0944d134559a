//! From words to options, a test and a command, by sysbench's own grammar.
//!
//! An option is `--name` or `--name=value`, anywhere on the line; `-` and `_` in a name are the
//! same. What is no option is the test, then the command; a third such word is refused. A file
//! named by `--config-file` is read where it stands, so that a later option wins over it.
//!
//! Neighbours: [`super::options`] knows the names and types, this module only takes words apart.
//! Invariant: the order of the line is kept.

use super::refusal::Refusal;

/// One option as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// Name with underscores.
    pub(super) name: String,
    /// `None`: the name alone.
    pub(super) value: Option<String>,
    /// The word as it was typed, for messages.
    pub(super) typed: String,
    /// From a configuration file: an unknown name is then a warning.
    pub(super) from_file: bool,
}

/// A command line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// In order, those of configuration files in place.
    pub(super) given: Vec<Given>,
    /// The first word that is no option.
    pub(super) test: Option<String>,
    /// The second.
    pub(super) command: Option<String>,
    /// `--test=` named the test, as versions before 1.0 had it.
    pub(super) test_was_option: bool,
}

/// Names of options are compared in this spelling.
pub(super) fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// Takes the words of a line apart. `read_file` gives the text of a configuration file.
pub(super) fn parse(
    words: &[String],
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Line, Refusal> {
    let mut line = Line::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            line.positional(word)?;
            continue;
        };
        let mut given = given(option, word);
        match given.name.as_str() {
            // waggle's own option: the dialect may also be the next word, as other tools have it.
            "dialect" if given.value.is_none() => {
                given.value = words.next().cloned();
                line.given.push(given);
            }
            "config_file" => {
                let path = given.value.clone().unwrap_or_default();
                line.given.push(given);
                let text = read_file(&path).map_err(Refusal::fatal)?;
                line.given.extend(in_file(&path, &text)?);
            }
            "test" => {
                line.test_was_option = true;
                line.positional(&given.value.unwrap_or_default())?;
            }
            _ => line.given.push(given),
        }
    }
    Ok(line)
}

impl Line {
    fn positional(&mut self, word: &str) -> Result<(), Refusal> {
        if self.test.is_none() {
            self.test = Some(word.to_owned());
        } else if self.command.is_none() {
            self.command = Some(word.to_owned());
        } else {
            return Err(Refusal::usage(format!(
                "Unrecognized command line argument: {word}"
            )));
        }
        Ok(())
    }
}

fn given(option: &str, typed: &str) -> Given {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (option, None),
    };
    Given {
        name: canonical(name),
        value,
        typed: typed.to_owned(),
        from_file: false,
    }
}

/// `name = value` lines; `#` begins a comment, a `[section]` is skipped, quotes around a value
/// are taken off.
fn in_file(path: &str, text: &str) -> Result<Vec<Given>, Refusal> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with('[') {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(unquoted(value.trim()).to_owned())),
            None => (line, None),
        };
        let name = name.trim_start_matches("--");
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(Refusal::fatal(format!(
                "{path}, line {}: '{line}' is no name=value",
                index + 1
            )));
        }
        found.push(Given {
            name: canonical(name),
            value,
            typed: line.to_owned(),
            from_file: true,
        });
    }
    Ok(found)
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Line, Refusal> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&words, &|path| match path {
            "mine.conf" => Ok("threads=2\n# no\n\n[client]\nevents = 4\nname='a b'\n".to_owned()),
            "wrong.conf" => Ok("threads 2".to_owned()),
            _ => Err(format!("{path}: No such file or directory")),
        })
    }

    fn pairs(line: &str) -> Vec<(String, Option<String>)> {
        let line = parsed(line).unwrap();
        let pair = |given: Given| (given.name, given.value);
        line.given.into_iter().map(pair).collect()
    }

    fn pair(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn options_stand_anywhere_and_dashes_are_underscores() {
        let line = parsed("--mysql-host=a=b oltp_read_only --debug run --table_size=5").unwrap();
        assert_eq!(line.test.as_deref(), Some("oltp_read_only"));
        assert_eq!(line.command.as_deref(), Some("run"));
        let bare = ("debug".to_owned(), None);
        assert_eq!(
            pairs("--mysql-host=a=b oltp_read_only --debug run --table_size=5"),
            [pair("mysql_host", "a=b"), bare, pair("table_size", "5")]
        );
    }

    #[test]
    fn a_third_word_is_refused_as_sysbench_refuses_it() {
        let refused = parsed("cpu run extra").unwrap_err();
        assert_eq!(
            refused,
            Refusal::usage("Unrecognized command line argument: extra")
        );
        // No space form: the value becomes the test.
        let refused = parsed("--threads 4 cpu run").unwrap_err();
        assert_eq!(
            refused,
            Refusal::usage("Unrecognized command line argument: run")
        );
    }

    #[test]
    fn a_configuration_file_counts_where_it_stands() {
        assert_eq!(
            pairs("--events=9 --config-file=mine.conf --threads=7"),
            [
                pair("events", "9"),
                pair("config_file", "mine.conf"),
                pair("threads", "2"),
                pair("events", "4"),
                pair("name", "a b"),
                pair("threads", "7"),
            ]
        );
        let refused = parsed("--config-file=wrong.conf").unwrap_err();
        assert_eq!(
            refused,
            Refusal::fatal("wrong.conf, line 1: 'threads 2' is no name=value")
        );
        assert!(parsed("--config-file=none.conf").is_err());
    }

    #[test]
    fn the_dialect_may_be_a_word_of_its_own_and_the_test_an_option() {
        let line = parsed("--dialect 1.1 oltp_read_only run").unwrap();
        assert_eq!(line.test.as_deref(), Some("oltp_read_only"));
        assert_eq!(line.given[0].value.as_deref(), Some("1.1"));
        let line = parsed("--test=mine.lua run").unwrap();
        assert_eq!(
            (line.test.as_deref(), line.command.as_deref()),
            (Some("mine.lua"), Some("run"))
        );
        assert!(line.test_was_option);
    }
}
