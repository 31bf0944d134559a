//! What cannot be done is refused with exit code 2, before anything is touched.

use waggle_server::Flavour;

use super::{database, dsn, run, sandbox, statement, stderr};

#[test]
fn what_cannot_be_used_is_refused_with_exit_code_2() {
    let runs = tempfile::tempdir().unwrap();
    let cases = [
        ("oltp_read_only", "name one with --dsn"),
        (
            "oltp_read_only --dsn mysql://root@127.0.0.1:1/",
            "127.0.0.1:1",
        ),
        (
            "oltp_read_onyl --sandbox mariadb",
            "oltp_point_select, oltp_read_only",
        ),
        (
            "oltp_read_only --sandbox mariadb -o tabels=2",
            "its options are auto_inc",
        ),
        (
            "oltp_read_only --sandbox mariadb -- --skip-trx=perhaps",
            "wants on or off",
        ),
        (
            "oltp_read_only run --sandbox mariadb",
            "takes the command all",
        ),
    ];
    for (arguments, words) in cases {
        let output = run(arguments, runs.path());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(words),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    assert_eq!(runs.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_server_that_refuses_is_quoted() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let socket = server.socket().display();
    let refused = [
        (
            format!("mysql://nobody:secret@/sbtest?socket={socket}"),
            "Access denied for user",
        ),
        (
            server.dsn_of("nowhere").to_string(),
            "Unknown database 'nowhere'",
        ),
    ];
    for (dsn, words) in refused {
        let output = run(&format!("oltp_read_only --dsn {dsn}"), runs.path());
        assert_eq!(output.status.code(), Some(2));
        let stderr = stderr(&output);
        assert!(
            stderr.contains(words) && !stderr.contains("secret"),
            "{stderr}"
        );
    }
}

#[test]
fn a_command_that_the_script_does_not_have_is_refused() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = statement(runs.path(), "DO 1");
    let output = run(
        &format!("{} polish --dsn {}", path.display(), dsn(&server)),
        runs.path(),
    );
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let stderr = stderr(&output);
    assert!(stderr.contains("'polish'"), "{stderr}");
    assert!(
        stderr.contains("prepare, warmup, run, cleanup and all"),
        "{stderr}"
    );
}
