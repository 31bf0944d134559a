use super::*;

#[test]
fn names_of_servers() {
    for server in [
        "/usr/sbin/mysqld",
        "mariadbd",
        "/opt/mysqld-debug",
        "mysqld.real",
    ] {
        assert!(is_server_name(Path::new(server)), "{server}");
    }
    for other in [
        "/usr/bin/mysqld_safe",
        "mysqldump",
        "mysql",
        "mariadb",
        "/",
        "",
    ] {
        assert!(!is_server_name(Path::new(other)), "{other}");
    }
}

#[test]
fn the_mark_of_a_deleted_program() {
    let (path, deleted) = without_deleted_mark("/usr/sbin/mysqld (deleted)".into());
    assert_eq!((path.to_str(), deleted), (Some("/usr/sbin/mysqld"), true));
    assert!(!without_deleted_mark("/usr/sbin/mysqld".into()).1);
}

#[test]
fn first_mapping_of_the_program() {
    let maps = "55d0-55e0 rw-p 00001000 fe:00 7 /usr/sbin/mysqld\n\
                    7f00aa000000-7f00ab000000 r--p 00000000 fe:00 7 /usr/sbin/mysqld\n\
                    7f10aa000000-7f10ab000000 r--p 00000000 fe:00 9 /lib/libc.so.6\n";
    assert_eq!(mapping_base(maps, 7), Some(0x7f00_aa00_0000));
    assert_eq!(mapping_base(maps, 8), None);
    assert_eq!(mapping_base("garbage\n\n- - -", 8), None);
}

#[test]
fn processes_that_are_no_server() {
    assert!(matches!(
        from_pid(4_194_305),
        Err(NotAServer::NoSuchProcess(4_194_305))
    ));
    let own = std::process::id();
    let error = from_pid(own).unwrap_err();
    assert!(matches!(&error, NotAServer::OtherProgram { name, .. } if name.contains("waggle")));
    let message = error.to_string();
    assert!(
        message.ends_with("not a MySQL or MariaDB server"),
        "{message}"
    );
}

#[test]
fn a_thread_is_no_process() {
    let own = std::process::id();
    let error = std::thread::spawn(|| {
        // SAFETY: gettid has no arguments and cannot fail.
        from_pid(unsafe { libc::gettid() } as u32)
    });
    assert!(matches!(error.join().unwrap(), Err(NotAServer::Thread { pid, .. }) if pid == own));
}
