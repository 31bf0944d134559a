use super::*;

#[test]
fn a_statement_with_a_password_is_not_kept_in_the_command_line() {
    let argv = [
        "--arm=x:on ALTER USER u IDENTIFIED BY 's3cret'; off SET GLOBAL a = 1",
        "y:on SET GLOBAL a = 2;off SET GLOBAL a = 1",
    ];
    let shown = shown_argv(&argv.map(str::to_owned));
    assert_eq!(shown[0], "--arm=x:on ***;off SET GLOBAL a = 1");
    assert_eq!(shown[1], argv[1]);
}

#[test]
fn an_arm_may_burn_a_known_time() {
    let burns = |ns| Some(ObserverSpec::Burn { ns });
    let arms = parse("[[arm]]\nname = \"a\"\nburn_ns = 1000\n").expect("an arm");
    assert_eq!(arms[0].observer, burns(1000));
    assert_eq!(flag("b:burn 500").expect("an arm").observer, burns(500));
    for odd in [
        "b:burn",
        "b:burn 1us",
        "b:burn 100001",
        "b:burn 1;watch uprobe",
    ] {
        assert!(flag(odd).is_err(), "{odd}");
    }
}

#[test]
fn an_arm_of_a_file_has_what_the_file_says() {
    let arms = parse(
        "[[arm]]\nname = \"both\"\nlabel = \"P_S and watch\"\nwatch = \"uprobe\"\n\
             windows = 20\n[arm.settings]\nperformance_schema = true\n\n\
             [[arm]]\nname = \"dump\"\ncommand = [\"tcpdump\", \"-i\", \"lo\"]\n\
             ready = \"listening\"\n",
    )
    .unwrap();
    assert_eq!(arms.len(), 2);
    let settings = [("performance_schema".to_owned(), "ON".to_owned())];
    assert_eq!(arms[0].settings, settings);
    assert_eq!(arms[0].windows_planned, 20);
    assert!(!arms[0].is_in_life() && arms[1].is_in_life());
    assert_eq!(
        arms[1].observer,
        Some(ObserverSpec::Command {
            argv: ["tcpdump", "-i", "lo"].map(str::to_owned).to_vec(),
            ready: Some("listening".to_owned()),
        })
    );
}

#[test]
fn an_error_names_the_line_and_what_to_write() {
    for (text, line, part) in [
        ("", "no [[arm]]", "settings"),
        (
            "[[arm]]\nname = \"a\"\nonn = []\n",
            "line 3",
            "an [[arm]] has",
        ),
        (
            "\n[[arm]]\nname = \"a b\"\non = [\"x\"]\n",
            "line 2",
            "letters",
        ),
        ("[[arm]]\nname = \"none\"\n", "line 1", "compared with"),
        ("[[arm]]\nname = \"a\"\n", "line 1", "does nothing"),
        (
            "[[arm]]\nname = \"a\"\non = [\"x\"]\n",
            "line 1",
            "write both",
        ),
        (
            "[[arm]]\nname = \"a\"\nwatch = \"x\"\n",
            "line 1",
            "the sources are",
        ),
        (
            "[[arm]]\nname = \"a\"\nlike = \"x\"\n",
            "line 1",
            "begin as",
        ),
        (
            "[[arm]]\nname = \"a\"\nready = \"x\"\n",
            "line 1",
            "for a command",
        ),
        ("[[arm]]\nname = 3\n", "line 2", "string"),
        (
            "[[arm]]\nname = \"a\"\nlike = \"watch\"\nwindows = 1000001\n",
            "line 1",
            "1 to 1000000",
        ),
        (
            "[[arm]]\nname = \"a\"\nlike = \"watch\"\nwindows = 0\n",
            "line 1",
            "1 to 1000000",
        ),
        (
            "[[arm]]\nname = \"a\"\nlike = \"none-again\"\non = [\"x\"]\noff = [\"y\"]\n",
            "line 1",
            "may do nothing",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(
            error.contains(line) && error.contains(part),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_flag_is_a_name_or_an_arm_in_parts() {
    assert_eq!(flag("watch").unwrap(), builtin::arm("watch").unwrap());
    let arm = flag("q:on SET GLOBAL a = 1; off SET GLOBAL a = 0;file slow_query_log_file");
    let arm = arm.unwrap();
    assert_eq!(arm.on, ["SET GLOBAL a = 1"]);
    assert_eq!(arm.files, ["slow_query_log_file"]);
    let arm = flag("ps:set performance_schema=ON; watch perfschema").unwrap();
    assert!(!arm.is_in_life());
    let arm = flag("x:run bpftrace -p {pid} a.bt;ready Attaching").unwrap();
    assert!(matches!(arm.observer, Some(ObserverSpec::Command { .. })));
    for (text, part) in [
        ("nonsense", "built-in"),
        ("a:do x", "begins with"),
        ("a:on", "has to follow"),
        ("a:set x", "NAME=VALUE"),
        ("a:", "does nothing"),
    ] {
        let error = flag(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn damaged_files_are_errors_and_no_panic() {
    let whole = "[[arm]]\nname = \"a\"\non = [\"SET GLOBAL a = 'ä'\"]\noff = [\"b\"]\n";
    let mut random = waggle_stats::random::Random::new(7);
    for _ in 0..2_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..=random.next_below(3) {
            let at = random.next_below(bytes.len());
            bytes[at] = random.next_below(256) as u8;
        }
        let _ = parse(&String::from_utf8_lossy(&bytes));
        let _ = flag(&String::from_utf8_lossy(&bytes));
    }
}
