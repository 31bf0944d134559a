use std::ffi::CString;

use super::*;

fn args(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

fn settings(line: &str, files: &[(&str, &str)]) -> Settings {
    let read = |path: &str| {
        let found = files.iter().find(|(known, _)| *known == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let list = |dir: &str| {
        let in_dir = files.iter().map(|(path, _)| (*path).to_owned());
        in_dir.filter(|path| path.starts_with(dir)).collect()
    };
    Settings::from(&args(line), read, list)
}

#[test]
fn arguments_win_and_the_last_one_wins() {
    for (line, port) in [
        ("--port=3307", Some(3307)),
        ("--port 3307", Some(3307)),
        ("-P3307", Some(3307)),
        ("-P 3307 --datadir=/x", Some(3307)),
        ("--port=1 --loose-port=3308", Some(3308)),
        ("--port=0", None),
        ("--port=x", None),
        ("--portable=5", None),
        ("-", None),
        ("--port", None),
    ] {
        assert_eq!(settings(line, &[]).port, port, "{line}");
    }
    let file = [(
        "/etc/my.cnf",
        "[mysqld]\nport=4000\nsocket = /run/x.sock # here\n",
    )];
    let found = settings("--port=3307", &file);
    assert_eq!(
        (found.port, found.socket.as_deref()),
        (Some(3307), Some("/run/x.sock"))
    );
    assert_eq!(settings("--no-defaults", &file).port, None);
    assert!(settings("--skip_networking", &[]).is_off_network);
    assert!(!settings("--skip-networking=OFF", &[]).is_off_network);
}

#[test]
fn files_groups_and_inclusion() {
    let files = [
        (
            "/etc/my.cnf",
            "[client]\nport=1\n[mysqld]\n!includedir /etc/d/\n",
        ),
        (
            "/etc/d/50.cnf",
            "[mariadb-10.11]\nport = 3310\n[mysqld_safe]\nport=2\n",
        ),
        ("/etc/d/60.cnf", "[server]\n# port=5\nsocket='/run/s'\n"),
        ("/own.cnf", "[mysqld1]\nport=3311\n[mysqld]\nport=3312\n"),
    ];
    let found = settings("", &files);
    let socket = found.socket.as_deref();
    assert_eq!((found.port, socket), (Some(3310), Some("/run/s")));
    assert_eq!(
        settings("--defaults-file=/own.cnf", &files).port,
        Some(3312)
    );
    let with_suffix = "--defaults-file=/own.cnf --defaults-group-suffix=1";
    assert_eq!(settings(with_suffix, &files[3..]).port, Some(3312));
    // A file that includes itself comes to an end.
    let endless = [("/etc/my.cnf", "[mysqld]\n!include /etc/my.cnf\nport=7\n")];
    assert_eq!(settings("", &endless).port, Some(7));
}

#[test]
fn hostile_files_and_arguments_are_survived() {
    let file = "[mysqld]\nport = \"3310\" # x\n!include /b\n!includedir /c/\nsocket='/s'\n";
    let line = "--defaults-file=/etc/my.cnf -P 3307 --socket=/x --loose_port=5";
    for at in 0..file.len() {
        for odd in [
            "",
            "\0",
            "[",
            "]",
            "=",
            "'",
            "\n",
            "!include /etc/my.cnf\n",
            "\u{fffd}",
        ] {
            let text = format!("{}{odd}{}", &file[..at], &file[at + 1..]);
            let _ = settings(
                "",
                &[("/etc/my.cnf", &text), ("/b", &text), ("/c/d", &text)],
            );
            let cut = at.min(line.len());
            let bad = format!("{}{odd}{}", &line[..cut], &line[cut..]);
            let _ = settings(&bad, &[("/etc/my.cnf", &text)]);
        }
    }
}

#[test]
fn files_in_a_root_are_not_followed_out_of_it_and_do_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let path = |leaf: &str| dir.path().join(leaf).to_str().unwrap().to_owned();
    fs::write(path("a.cnf"), "[mysqld]").unwrap();
    let own = std::process::id();
    assert_eq!(
        read_in_root(own, &path("a.cnf")).as_deref(),
        Some("[mysqld]")
    );
    assert_eq!(
        list_in_root(own, dir.path().to_str().unwrap()),
        [path("a.cnf")]
    );
    let fifo = CString::new(path("pipe.cnf")).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    assert_eq!(read_in_root(own, &path("pipe.cnf")), None);
    assert_eq!(read_in_root(own, "/proc/self/fd/0"), None);
    assert_eq!(read_in_root(own, "/no/such\0file"), None);
}
