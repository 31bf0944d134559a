//! Command lines as they may be kept: without secrets, and quoted so that they can be repeated.
//!
//! Invariant: where it is not clear which part of an argument is the secret, all of it goes.

use serde_json::Value;
use waggle_digest::{carries_secret, names_secret};

/// Replaces secrets in a command line by `***`: those of URLs (`mysql://user:password@host/db`,
/// also inside `--dsn=...` or `NAME=...`) and of their queries, of flags and variables that are
/// named as secrets (`--password=...`, `--token ...`, `MYSQL_PWD=...`), of `-p...`, of
/// `-u user:password` and of `Authorization: ...`; also where an argument is a command of several
/// words, quoted or not. A statement that may carry a secret goes as a whole.
///
/// A password that was not percent-encoded may hold any character, so from the first colon of the
/// authority to the last `@` of the argument all is taken for password: rather too much than too
/// little.
pub fn redact_argv<S: AsRef<str>>(argv: &[S]) -> Vec<String> {
    let words = argv.iter().map(AsRef::as_ref);
    redact_words(words)
        .into_iter()
        .map(|word| word.shown)
        .collect()
}

const MASK: &str = "***";

/// A word of a command line.
struct Word {
    shown: String,
    /// It was redacted, or says what the redacted next one is.
    is_done: bool,
}

impl Word {
    fn done(shown: String) -> Word {
        Word {
            shown,
            is_done: true,
        }
    }
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Any,
    Secret,
    /// `user:password`.
    User,
}

fn redact_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Word> {
    let mut redacted = Vec::new();
    let mut next = Next::Any;
    let mut is_client = false;
    for word in words {
        let now = std::mem::replace(&mut next, Next::Any);
        let bare = unquoted(word);
        next = match flag_name(bare) {
            Some(_) if bare.contains('=') => Next::Any,
            Some("u" | "user" | "proxy-user") => Next::User,
            Some(name) if is_secret_name(name) && bare.starts_with("--") => Next::Secret,
            _ => Next::Any,
        };
        let mut done = match now {
            Next::Secret => Word::done(MASK.to_owned()),
            Next::User if bare.contains(':') => Word::done(masked_user(bare)),
            _ => redact_argument(word, is_client),
        };
        done.is_done |= next == Next::Secret || done.shown.contains(MASK);
        redacted.push(done);
        // Of these programs, and few others, `-p` with digits is a password.
        is_client |= ["mysql", "maria", "percona"]
            .iter()
            .any(|name| bare.contains(name));
    }
    redacted
}

/// `host` of `--host=x`, `-host` and `-h`.
fn flag_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    Some(name.split('=').next().unwrap_or(name))
}

/// Whether what is set under this name, a flag's, a server variable's or another, is a secret; also
/// names that only end in `key`: `--s3-key`, `LICENSE_KEY`.
pub fn is_secret_name(name: &str) -> bool {
    // A flag has `-` where a column has `_`.
    let name = name.replace('-', "_").to_ascii_lowercase();
    // A file or a program that has it is not the secret.
    let is_place = ["_file", "_path", "_command", "_dir"];
    let is_place = is_place.iter().any(|end| name.ends_with(end));
    !is_place && (names_secret(name.as_bytes()) || name == "key" || name.ends_with("_key"))
}

fn redact_argument(argument: &str, is_client: bool) -> Word {
    if let Some(quoted) = inside_quotes(argument) {
        let word = redact_argument(quoted, is_client);
        let quote = &argument[..1];
        return Word {
            shown: format!("{quote}{}{quote}", word.shown),
            is_done: word.is_done,
        };
    }
    // The classic short flag with the password attached, as mysql's own programs have it.
    if let Some(rest) = argument.strip_prefix("-p")
        && !rest.is_empty()
        && (is_client || !rest.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Word::done(format!("-p{MASK}"));
    }
    if let Some(end) = assigned_name_end(argument) {
        return Word::done(format!("{}={MASK}", &argument[..end]));
    }
    if let Some((name, value)) = argument.split_once(':')
        && !name.contains('=')
        && !value.starts_with("//")
        && !value.is_empty()
        && (is_secret_name(name) && !name.contains(char::is_whitespace))
    {
        return Word::done(format!("{name}: {MASK}"));
    }
    if ["-u", "--user="]
        .iter()
        .any(|flag| argument.starts_with(flag))
        && argument.contains(':')
    {
        return Word::done(masked_user(argument));
    }
    let shown = redact_query(&redact_authority(argument));
    if shown.contains(char::is_whitespace) {
        return redact_command(&shown);
    }
    Word {
        is_done: shown != argument,
        shown,
    }
}

/// Where the name ends that something secret is assigned to: `--password=x`, `MYSQL_PWD=x`,
/// `--set=x_secret='y'`.
fn assigned_name_end(argument: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.@`".contains(c);
    let mut begin = 0;
    argument.match_indices('=').find_map(|(end, _)| {
        let name = argument[begin..end].trim_start_matches('-');
        begin = end + 1;
        let is_secret = !name.is_empty() && name.chars().all(is_name) && is_secret_name(name);
        (is_secret && begin < argument.len()).then_some(end)
    })
}

fn masked_user(word: &str) -> String {
    let colon = word.find(':').unwrap_or(word.len());
    format!("{}:{MASK}", &word[..colon])
}

fn inside_quotes(word: &str) -> Option<&str> {
    ["'", "\""]
        .iter()
        .find_map(|quote| word.strip_prefix(quote)?.strip_suffix(quote))
}

fn unquoted(word: &str) -> &str {
    inside_quotes(word).unwrap_or(word)
}

/// Masks texts and numbers whose name says that they are secret, at any depth; in pairs of a name
/// and a value, too.
pub(super) fn redact_settings(settings: &mut Value) {
    match settings {
        Value::Object(members) => {
            for (name, value) in members {
                match is_secret_name(name) {
                    true => mask(value),
                    false => redact_settings(value),
                }
            }
        }
        Value::Array(values) => match values.as_mut_slice() {
            [Value::String(name), value] if is_secret_name(name) => mask(value),
            values => values.iter_mut().for_each(redact_settings),
        },
        _ => {}
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(mask),
        Value::Object(members) => members.values_mut().for_each(mask),
        Value::String(_) | Value::Number(_) => *value = Value::from(MASK),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A whole command in one argument (`NAME:run mysqldump -psecret`): its words as arguments. Where
/// what is left of it may carry a secret, as a statement does, all but its first word goes.
fn redact_command(command: &str) -> Word {
    let pieces = shell_pieces(command);
    // White space alone is no word, and may stand between a flag and its value.
    let is_word = |piece: &&str| !piece.starts_with(char::is_whitespace);
    let redacted = redact_words(pieces.iter().copied().filter(is_word));
    let is_done = redacted.iter().any(|word| word.is_done);
    let left: Vec<&str> = redacted
        .iter()
        .filter(|word| !word.is_done)
        .map(|word| word.shown.as_str())
        .collect();
    // A single word is a name, such as a file's.
    let left = left.join(" ");
    if carries_secret(left.as_bytes()) {
        let arm = command.split_once(':').filter(|(arm, _)| {
            arm.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && !arm.is_empty()
        });
        let shown = match arm {
            Some((arm, _)) => format!("{arm}:{MASK}"),
            None => MASK.to_owned(),
        };
        return Word::done(shown);
    }
    let mut words = redacted.into_iter();
    let mut shown = String::with_capacity(command.len());
    for piece in &pieces {
        match is_word(piece) {
            true => shown.push_str(&words.next().map(|word| word.shown).unwrap_or_default()),
            false => shown.push_str(piece),
        }
    }
    Word { shown, is_done }
}

/// Words and the white space between them, in turn; quotes and backslashes as a shell has them. A
/// quote that does not end takes the rest.
fn shell_pieces(command: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut quote, mut escaped, mut in_space) = (0, None, false, false);
    for (at, c) in command.char_indices() {
        if quote.is_none() && !escaped && c.is_whitespace() != in_space {
            if at > begin {
                pieces.push(&command[begin..at]);
            }
            (begin, in_space) = (at, !in_space);
        }
        match (escaped, quote, c) {
            (true, ..) => escaped = false,
            (_, Some('"') | None, '\\') => escaped = true,
            (_, None, '\'' | '"') => quote = Some(c),
            (_, Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    if begin < command.len() {
        pieces.push(&command[begin..]);
    }
    pieces
}

fn redact_authority(argument: &str) -> String {
    let Some(scheme) = argument.find("://") else {
        return argument.to_owned();
    };
    let (head, rest) = argument.split_at(scheme + 3);
    let Some(at) = rest.rfind('@') else {
        return argument.to_owned();
    };
    match rest[..at].find(':') {
        Some(colon) => format!("{head}{}:{MASK}{}", &rest[..colon], &rest[at..]),
        None => argument.to_owned(),
    }
}

/// `password=` and its kin in what follows a URL's `?`.
fn redact_query(argument: &str) -> String {
    let mut redacted = argument.to_owned();
    if !argument.contains("://") {
        return redacted;
    }
    for key in ["password=", "passwd=", "token=", "secret=", "pwd="] {
        let mut from = 0;
        while let Some(found) = redacted[from..].to_ascii_lowercase().find(key) {
            let start = from + found + key.len();
            let end = redacted[start..]
                .find(|c: char| c == '&' || c.is_whitespace())
                .map_or(redacted.len(), |end| start + end);
            redacted.replace_range(start..end, MASK);
            from = start + MASK.len();
        }
    }
    redacted
}

/// Joins a command line for a POSIX shell, quoting what needs it.
pub fn shell_line<S: AsRef<str>>(argv: &[S]) -> String {
    argv.iter()
        .map(|word| shell_word(word.as_ref()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argument: &str, expected: &str) {
        assert_eq!(redact_argv(&[argument]), [expected]);
    }

    #[test]
    fn passwords_of_urls_go() {
        check(
            "mysql://root:hunter2@db:3306/test",
            "mysql://root:***@db:3306/test",
        );
        check(
            "--dsn=mysql://root:hunter2@db/test",
            "--dsn=mysql://root:***@db/test",
        );
        check(
            "WAGGLE_DSN=mysql://a:b@/t?socket=/s",
            "WAGGLE_DSN=mysql://a:***@/t?socket=/s",
        );
        check("mysql://root:p@ss:w/rd@db/test", "mysql://root:***@db/test");
        check("mysql://root:@db", "mysql://root:***@db");
        check(
            "mysql://db/t?user=a&password=secret&ssl=1",
            "mysql://db/t?user=a&password=***&ssl=1",
        );
    }

    #[test]
    fn what_holds_no_password_stays() {
        check("mysql://root@db:3306/test", "mysql://root@db:3306/test");
        check("mysql://db:3306/test", "mysql://db:3306/test");
        check("--tables=16", "--tables=16");
        check("-p", "-p");
        check("-p3306", "-p3306");
    }

    #[test]
    fn passwords_of_flags_go() {
        check("--password=hunter2", "--password=***");
        check("-phunter2", "-p***");
        assert_eq!(
            redact_argv(&["--password", "hunter2", "x"]),
            ["--password", "***", "x"]
        );
    }

    #[test]
    fn passwords_of_a_command_in_one_argument_go() {
        check(
            "x:run mysqldump --password=s3 db",
            "x:run mysqldump --password=*** db",
        );
        check(
            "x:run mysqldump  --password  s3 -ps4 db",
            "x:run mysqldump  --password  *** -p*** db",
        );
        check(
            "x:run bpftrace -p {pid}\ta.bt",
            "x:run bpftrace -p {pid}\ta.bt",
        );
    }

    #[test]
    fn secrets_of_variables_headers_and_other_flags_go() {
        check("MYSQL_PWD=s3", "MYSQL_PWD=***");
        check(
            "x:run env MYSQL_PWD=s3 mysql -e x",
            "x:run env MYSQL_PWD=*** mysql -e x",
        );
        check(
            "x:run env 'API_KEY=s3 s4' ./a",
            "x:run env 'API_KEY=***' ./a",
        );
        check("--set=wsrep_sst_auth=u:s3", "--set=wsrep_sst_auth=***");
        check("wsrep_sst_auth=u:s3", "wsrep_sst_auth=***");
        check(
            "x:mysqldump --password='s3 s4' db",
            "x:mysqldump --password=*** db",
        );
        check("x:mysqldump -p's3 s4' db", "x:mysqldump -p*** db");
        check("x:mysqldump -p's3 s4", "x:mysqldump -p***");
        check("x:mysql -p123456 db", "x:mysql -p*** db");
        check("x:curl -u me:s3 http://h/", "x:curl -u me:*** http://h/");
        check(
            "x:curl -H 'Authorization: Bearer s3' h",
            "x:curl -H 'Authorization: ***' h",
        );
        check(
            "x:curl http://h/?token=s3 -v",
            "x:curl http://h/?token=*** -v",
        );
        check(
            "x:run a --master-password s3 -v",
            "x:run a --master-password *** -v",
        );
        let argv = [
            "--s3-secret-key",
            "s3",
            "--token",
            "s4",
            "--listen-token-file",
            "f",
        ];
        let shown = [
            "--s3-secret-key",
            "***",
            "--token",
            "***",
            "--listen-token-file",
            "f",
        ];
        assert_eq!(redact_argv(&argv), shown);
    }

    #[test]
    fn a_statement_with_a_secret_goes_whole() {
        check("x:on ALTER USER u IDENTIFIED BY 's3'", "x:***");
        check(
            "x:run mysql -e \"CREATE USER u IDENTIFIED BY 's3'\"",
            "x:run mysql -e \"***\"",
        );
        check(
            "x:run mysql -e 'SELECT AES_ENCRYPT(a, \"s3\")' db",
            "x:run mysql -e '***' db",
        );
        check("SET GLOBAL a = 1, PASSWORD FOR u = 's3'", "***");
        check(
            "x:run sh -c 'mysql -ps3 db'",
            "x:run sh -c 'mysql -p*** db'",
        );
        check("x:run ./a --file /tokens/x", "x:***");
    }

    #[test]
    fn settings_named_as_secrets_are_masked() {
        let mut settings = serde_json::json!({
            "threads": 4, "options": {"table-size": 10, "api-token": "s3"},
            "cells": [[["wsrep_sst_auth", "u:s3"], ["sync_binlog", "1"]]], "report_password": 3,
        });
        redact_settings(&mut settings);
        let expected = serde_json::json!({
            "threads": 4, "options": {"table-size": 10, "api-token": "***"},
            "cells": [[["wsrep_sst_auth", "***"], ["sync_binlog", "1"]]], "report_password": "***",
        });
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_names_no_secret_stays() {
        for argument in [
            "x:on SET GLOBAL sync_binlog=1;off SET GLOBAL sync_binlog=0",
            "x:run perf record -p {pid} -o 'a b'",
            "--workload=token.lua",
            "--dsn-file=/run/secrets/dsn",
            "--password-file=f",
        ] {
            check(argument, argument);
        }
    }

    #[test]
    fn a_command_line_can_be_repeated() {
        assert_eq!(
            shell_line(&["waggle", "lab run", "it's", ""]),
            r"waggle 'lab run' 'it'\''s' ''"
        );
    }

    /// How a command line may hold a secret, with `@` for it.
    const FORMS: [&str; 14] = [
        "--dsn=mysql://user:@@host/db",
        "x:run tool mysql://user:@@host/db --threads=4",
        "x:run tool --password=@",
        "x:run tool '--password=@' x",
        "x:run tool --password '@' x",
        "x:run tool --password=\"@\" x",
        "x:run mysql -p'@' x",
        "x:run env MYSQL_PWD='@' mysql",
        "x:run curl -u 'me:@' h",
        "x:run curl -H 'Authorization: Bearer @' h",
        "x:run mysql -e \"ALTER USER u IDENTIFIED BY '@'\"",
        "x:on SET GLOBAL wsrep_sst_auth = '@';off SELECT 1",
        "x:on CREATE USER u IDENTIFIED BY '@'",
        "x:run sh -c \"mysql -p'@' db\"",
    ];

    proptest::proptest! {
        #[test]
        fn no_password_survives(
            form in 0..FORMS.len(), password in "[!#-&(-\\[\\]-~]{6,24}",
        ) {
            let marked = format!("Q7{password}7Q");
            // The second `@` of a URL is its own.
            let argument = FORMS[form].replacen('@', &marked, 1);
            let redacted = redact_argv(&[argument.as_str()]).remove(0);
            proptest::prop_assert!(!redacted.contains("Q7"), "{}", redacted);
            proptest::prop_assert!(!redacted.contains("7Q"), "{}", redacted);
        }
    }
}
