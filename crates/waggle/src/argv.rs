//! The arguments of this process: taken once, and with every password in them blotted out where
//! other users read them.
//!
//! Arguments lie in memory that `/proc/PID/cmdline` shows to everybody on the host. As MySQL's own
//! client does, a password that was given in them is overwritten before anything slow happens; for
//! the moment until then it can be seen, so that files, the environment and the prompt
//! ([`crate::account`]) are better. Invariant: after [`take`], what this process was started with
//! is read from what it gave, never from the environment again.

use std::ffi::{OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static ARGUMENTS: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes where the arguments lie; glibc calls it before `main` with what `main` in C gets.
extern "C" fn note(count: c_int, arguments: *mut *mut c_char, _: *mut *mut c_char) {
    COUNT.store(usize::try_from(count).unwrap_or(0), Ordering::Relaxed);
    ARGUMENTS.store(arguments, Ordering::Relaxed);
}

// SAFETY: the linker gathers pointers to functions of this type in this section, and glibc calls
// each once with these arguments; `note` touches two integers of ours.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = note;

/// The arguments as they were given; from now on nobody else sees the passwords in them.
pub(crate) fn take() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let arguments = ARGUMENTS.swap(ptr::null_mut(), Ordering::Relaxed);
    if arguments.is_null() {
        return given;
    }
    let count = COUNT.load(Ordering::Relaxed).min(given.len());
    for (at, text) in given.iter().enumerate().take(count) {
        let secret = secret_in(text.as_bytes(), at.checked_sub(1).map(|at| &given[at]));
        if secret.is_empty() {
            continue;
        }
        // SAFETY: `main` has not begun anything yet, so that no other thread reads them; each of
        // the `count` pointers is to the bytes that `given` was copied from, and the range lies
        // within these.
        unsafe {
            let text = *arguments.add(at);
            for byte in secret {
                *text.add(byte) = b'*'.cast_signed();
            }
        }
    }
    given
}

/// Options whose value is a password.
const SECRET_OPTIONS: [&str; 3] = ["--mysql-password", "--pgsql-password", "--password"];

/// Where in an argument a password stands: in a server's address, or as the value of an option.
fn secret_in(text: &[u8], before: Option<&OsString>) -> std::ops::Range<usize> {
    for option in SECRET_OPTIONS {
        if before.is_some_and(|before| before.as_os_str() == OsStr::new(option)) {
            return 0..text.len();
        }
        let value = text.strip_prefix(option.as_bytes());
        if value.is_some_and(|value| value.first() == Some(&b'=')) {
            return option.len() + 1..text.len();
        }
    }
    let find = |from: usize, what: &[u8]| {
        let rest = text.get(from..).unwrap_or_default();
        let at = rest.windows(what.len()).position(|bytes| bytes == what);
        at.map(|at| from + at)
    };
    // What follows may hold any character, escaped or not: up to the last @ it may be password.
    let account = find(0, b"://").map(|at| at + 3);
    let from = account
        .and_then(|account| find(account, b":"))
        .map(|at| at + 1);
    let to = text.iter().rposition(|byte| *byte == b'@');
    match (from, to) {
        (Some(from), Some(to)) if from < to => from..to,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, before: Option<&str>) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let before = before.map(OsString::from);
        bytes[secret_in(text.as_bytes(), before.as_ref())].fill(b'*');
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn passwords_are_found_wherever_they_stand() {
        for (given, expected) in [
            ("mysql://u:secret@h:3306/d", "mysql://u:******@h:3306/d"),
            ("--dsn=mysql://u:s@h/d?a=b", "--dsn=mysql://u:*@h/d?a=b"),
            ("mysql://u:p@ss/w?rd@h/d", "mysql://u:*********@h/d"),
            ("watch: --dsn mysql://u:s@h", "watch: --dsn mysql://u:*@h"),
            ("mysql://u@h:3306/d", "mysql://u@h:3306/d"),
            ("mysql://u@/d?socket=/s", "mysql://u@/d?socket=/s"),
            ("--mysql-password=secret", "--mysql-password=******"),
            ("--pgsql-password=", "--pgsql-password="),
            ("--mysql-passwords=a", "--mysql-passwords=a"),
            ("bench", "bench"),
        ] {
            assert_eq!(shown(given, None), expected);
        }
        assert_eq!(shown("secret", Some("--mysql-password")), "******");
        assert_eq!(shown("secret", Some("--threads")), "secret");
    }
}
