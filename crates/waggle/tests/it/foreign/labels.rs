//! Whose label a server has: a program that says it is another's gets none of its figures.

use std::path::Path;
use std::time::{Duration, Instant};

use waggle_need::{is_root, need};
use waggle_server::discovery::{Discovery, Found};

use super::fake::{Fake, USER};
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

fn found(pid: u32) -> Found {
    let mut discovery = Discovery::new();
    discovery.poll();
    let mut servers = discovery.servers();
    let found = servers.find(|found| found.process.pid == pid);
    found.expect("it carries the marks of a server").clone()
}

#[test]
fn a_port_in_arguments_is_no_label() {
    if !is_root() {
        return;
    }
    let made = Fake::new().with_marks().finish(0);
    for claim in [
        "--port=3306",
        "-P3306",
        "--socket=/run/mysqld/mysqld.sock",
        "--datadir=/var/lib/mysql",
        "--defaults-file=/etc/my.cnf",
    ] {
        let running = made.run(&[claim]);
        let found = found(running.pid());
        assert_eq!(found.instance.name, format!("pid {}", running.pid()));
        assert_eq!((found.instance.port, &found.instance.socket), (None, &None));
    }
}

#[test]
fn the_real_server_keeps_its_label_whoever_came_first() {
    let has_server = || {
        need(
            "mariadb",
            Path::new("/usr/sbin/mariadbd").exists(),
            "no mariadbd",
        )
    };
    if !is_root() || !has_server() {
        return;
    }
    let spec = SandboxSpec::new(Flavour::MariaDb).tcp();
    let real = Sandbox::start(&spec).expect("a server");
    let port = real.port().expect("it listens");
    let fake = Fake::new().with_marks().finish(0);
    // Loopback has more than one address; the port is the real one's at 127.0.0.1.
    let thief = fake.run_listening("127.0.0.9", port);
    let mut discovery = Discovery::new();
    discovery.poll();
    let name = |pid: u32| {
        let mut servers = discovery.servers();
        let found = servers.find(|found| found.process.pid == pid);
        found.expect("it is a server").instance.name.clone()
    };
    assert_eq!(name(real.pid()), port.to_string());
    assert_ne!(name(thief.pid()), port.to_string());
    // The fake is there before the real one is: both are known, and the real one gets its own.
    drop(real);
    let mut discovery = Discovery::new();
    discovery.poll();
    let real = Sandbox::start(&spec.clone().set("port", port.to_string())).expect("a server");
    let deadline = Instant::now() + Duration::from_secs(30);
    let names = loop {
        discovery.poll();
        let of = |pid: u32| {
            let mut servers = discovery.servers();
            let found = servers.find(|found| found.process.pid == pid);
            found.map(|found| found.instance.name.clone())
        };
        match (of(real.pid()), of(thief.pid())) {
            (Some(real), Some(thief)) => break (real, thief),
            _ => assert!(Instant::now() < deadline, "the real one is not found"),
        }
        // sleep: between two looks
        std::thread::sleep(Duration::from_millis(20));
    };
    let expected = format!("{port} uid {USER} pid {}", thief.pid());
    assert_eq!(names, (port.to_string(), expected));
}
