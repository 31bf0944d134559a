//! Whose password is sent to whom.

use super::*;

fn found(text: &str) -> Found {
    let mut options = Options::default();
    options.take_text(text, &|group| GROUPS.contains(&group));
    Found::of(&options).expect("a password")
}

#[test]
fn a_password_of_somebody_else_is_not_sent() {
    for (file, dsn, differs) in [
        ("password=p", "mysql://u@h/", None),
        ("password=p\nuser=u", "mysql://u@h/", None),
        ("password=p\nuser=v", "mysql://u@h/", Some("another user")),
        ("password=p\nhost=h\nport=3306", "mysql://u@h/", None),
        ("password=p\nhost=g", "mysql://u@h/", Some("another server")),
        (
            "password=p\nhost=h\nport=1",
            "mysql://u@h/",
            Some("another server"),
        ),
        ("password=p\nport=1\nsocket=/s", "mysql://u@h/", None),
        ("password=p\nhost=localhost", "mysql://u@127.0.0.1/", None),
        (
            "password=p\nhost=localhost",
            "mysql://u@h/",
            Some("another server"),
        ),
        ("password=p\nsocket=/t", "mysql://u@/?socket=/s", None),
        ("password=p\nhost=localhost", "mysql://u@/?socket=/s", None),
        (
            "password=p\nhost=h",
            "mysql://u@/?socket=/s",
            Some("another server"),
        ),
    ] {
        let dsn: Dsn = dsn.parse().unwrap();
        let found = found(&format!("[client]\n{file}\n"));
        assert_eq!(found.differs(&dsn), differs, "{file:?} {dsn}");
        assert!(!format!("{found:?}").contains("\"p\""));
    }
}
