//! Command lines as they may be kept: without passwords, and quoted so that they can be repeated.

/// Replaces passwords in a command line by `***`: those of URLs (`mysql://user:password@host/db`,
/// also inside `--dsn=...` or `NAME=...`), of `--password=...`, `--password ...` and `-p...`, and
/// of `password=` in a URL's query; also where an argument is a command of several words.
///
/// A password that was not percent-encoded may hold any character, so from the first colon of the
/// authority to the last `@` of the argument all is taken for password: rather too much than too
/// little.
pub fn redact_argv<S: AsRef<str>>(argv: &[S]) -> Vec<String> {
    let mut redacted = Vec::with_capacity(argv.len());
    let mut password_follows = false;
    for argument in argv {
        let argument = argument.as_ref();
        if std::mem::take(&mut password_follows) {
            redacted.push(MASK.to_owned());
            continue;
        }
        password_follows = matches!(argument, "--password" | "--passwd");
        redacted.push(redact_argument(argument));
    }
    redacted
}

const MASK: &str = "***";

fn redact_argument(argument: &str) -> String {
    for flag in ["--password=", "--passwd="] {
        if argument.starts_with(flag) {
            return format!("{flag}{MASK}");
        }
    }
    // The classic short flag with the password attached, as mysql's own programs have it.
    if let Some(rest) = argument.strip_prefix("-p")
        && !rest.is_empty()
        && !argument.starts_with("--")
        && !rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        return format!("-p{MASK}");
    }
    redact_words(&redact_query(&redact_authority(argument)))
}

/// A whole command in one argument (`NAME:run mysqldump -psecret`): its words as arguments.
fn redact_words(argument: &str) -> String {
    if !argument.contains(char::is_whitespace) {
        return argument.to_owned();
    }
    let pieces: Vec<&str> = argument.split_inclusive(char::is_whitespace).collect();
    let words: Vec<&str> = pieces.iter().map(|piece| piece.trim_end()).collect();
    // White space alone is no word, and may stand between a flag and its value.
    let filled: Vec<&str> = words.iter().copied().filter(|w| !w.is_empty()).collect();
    let mut redacted = redact_argv(&filled).into_iter();
    let mut whole = String::with_capacity(argument.len());
    for (piece, word) in pieces.iter().zip(words) {
        if !word.is_empty() {
            whole.push_str(&redacted.next().unwrap_or_default());
        }
        whole.push_str(&piece[word.len()..]);
    }
    whole
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

fn redact_query(argument: &str) -> String {
    let mut redacted = argument.to_owned();
    for key in ["password=", "passwd="] {
        let mut from = 0;
        while let Some(found) = redacted[from..].to_ascii_lowercase().find(key) {
            let start = from + found + key.len();
            let end = redacted[start..]
                .find('&')
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
            "x:run mysqldump --password=***",
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
    fn a_command_line_can_be_repeated() {
        assert_eq!(
            shell_line(&["waggle", "lab run", "it's", ""]),
            r"waggle 'lab run' 'it'\''s' ''"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_password_survives(
            password in "[ -~]{6,24}", user in "[a-z]{1,8}", host in "[a-z]{1,8}",
        ) {
            let marked = format!("Q7{password}7Q");
            let argument = format!("--dsn=mysql://{user}:{marked}@{host}/db");
            let redacted = redact_argv(&[argument.as_str()]).remove(0);
            proptest::prop_assert!(!redacted.contains(&marked), "{}", redacted);
            proptest::prop_assert!(!redacted.contains("7Q"), "{}", redacted);
        }
    }
}
