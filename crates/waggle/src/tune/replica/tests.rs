//! The subject on real servers: blocks count exactly, variables come and go, and a server that
//! refuses or dies is a finding.

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::Script;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;

use super::*;
use crate::tune::subject::Objective;

/// The flavours that are installed; a missing one is skipped aloud or, if required, a failure.
fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    let is_there = |flavour: &Flavour| {
        let found = installed.iter().any(|server| server.flavour == *flavour);
        need(flavour.name(), found, "no such server is installed")
    };
    let all = [Flavour::MariaDb, Flavour::MySql];
    all.into_iter().filter(is_there).collect()
}

fn setup(flavour: Flavour) -> Setup {
    let options = [("tables", "2"), ("table-size", "1000")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Setup {
        flavour,
        script: Script::open("oltp_write_only").unwrap(),
        options: BTreeMap::from(options),
        threads: 4,
        rate: None,
        objective: Objective::ReplicaApplyRate,
        settings: Vec::new(),
        restart: Vec::new(),
        warm_up: Duration::from_millis(100),
        warm_up_restarted: Duration::from_millis(100),
        seed: 7,
    }
}

fn workers(flavour: Flavour, count: u32) -> Vec<(String, String)> {
    let name = match flavour {
        Flavour::MySql => "replica_parallel_workers",
        Flavour::MariaDb => "slave_parallel_threads",
    };
    vec![(name.to_owned(), count.to_string())]
}

fn value(subject: &mut ReplicaSubject, name: &str) -> String {
    let (end, name) = End::of(name);
    let link = subject.link(end).unwrap();
    ends::read(link, &name).unwrap().unwrap()
}

#[test]
fn blocks_are_measured_and_variables_switched_in_place() {
    for flavour in flavours() {
        let mut subject = ReplicaSubject::start(&setup(flavour)).unwrap();
        let config = workers(flavour, 3);
        let name = config[0].0.clone();
        let present = subject.present(std::slice::from_ref(&name)).unwrap();
        assert_eq!(subject.apply(&config).unwrap(), Applied::InPlace);
        assert_eq!(value(&mut subject, &name), "3");
        for _ in 0..2 {
            let block = subject.block(0.5).unwrap();
            assert!(block.objective > 0.0 && block.seconds > 0.0, "{block:?}");
            assert!(block.guards["replica-lag"] >= 0.0, "{block:?}");
            assert!(block.guards["memory"] > 1e7, "{block:?}");
            let drained = block.details["drain"]["transactions"].as_u64().unwrap();
            let recorded = block.details["record"]["transactions"].as_u64().unwrap();
            assert!(drained > 0 && drained <= recorded, "{block:?}");
        }
        // Between blocks the replica has everything, row for row.
        let both = subject.stage.topology.both(0).unwrap();
        let (primary, replica) = (both.0, both.1.link());
        let sums = |link: &mut waggle_server::topology::Link| {
            let sql = "SELECT SUM(CRC32(CONCAT_WS(',', id, k, c))) FROM sbtest1";
            link.value(sql, "sum the rows").unwrap()
        };
        assert_eq!(sums(primary), sums(replica));
        assert_eq!(
            primary
                .written()
                .unwrap()
                .since(&replica.applied().unwrap()),
            Some(0)
        );

        assert_eq!(subject.apply(&[]).unwrap(), Applied::InPlace);
        assert_eq!(value(&mut subject, &name), present[&name]);
    }
}

#[test]
fn what_takes_a_restart_is_restarted_and_goes_back() {
    for flavour in flavours() {
        let mut subject = ReplicaSubject::start(&setup(flavour)).unwrap();
        let first = subject.stage.replica().unwrap().sandbox().pid();
        let before = value(&mut subject, "performance_schema");
        let mut config = workers(flavour, 2);
        config.push(("performance_schema".into(), "ON".into()));
        assert_eq!(subject.apply(&config).unwrap(), Applied::Restarted);
        assert_ne!(subject.stage.replica().unwrap().sandbox().pid(), first);
        assert_eq!(value(&mut subject, "performance_schema"), "1");
        assert_eq!(value(&mut subject, &config[0].0), "2");
        assert!(subject.block(0.3).unwrap().objective > 0.0);
        subject.restore().unwrap();
        assert_eq!(value(&mut subject, "performance_schema"), before);

        // The primary's, with its load.
        let config = [("primary.performance_schema".to_owned(), "ON".to_owned())];
        assert_eq!(subject.apply(&config).unwrap(), Applied::Restarted);
        assert_eq!(value(&mut subject, "primary.performance_schema"), "1");
        assert!(subject.block(0.3).unwrap().objective > 0.0);
    }
}

#[test]
fn refusals_and_deaths_are_findings_and_the_run_goes_on() {
    for flavour in flavours() {
        let mut subject = ReplicaSubject::start(&setup(flavour)).unwrap();
        let name = workers(flavour, 1)[0].0.clone();
        let before = value(&mut subject, &name);
        for (name, wrong) in [
            ("no_such_variable", "1"),
            (name.as_str(), "many"),
            (name.as_str(), "123456789"),
        ] {
            let config = [
                ("innodb_flush_log_at_trx_commit".to_owned(), "2".to_owned()),
                (name.to_owned(), wrong.to_owned()),
            ];
            let refused = subject.apply(&config).unwrap_err();
            assert_eq!(refused.kind(), "refused", "{name} {wrong}: {refused}");
        }
        let durable = value(&mut subject, "innodb_flush_log_at_trx_commit");
        assert_eq!(
            (value(&mut subject, &name), durable.as_str()),
            (before, "1")
        );

        // A value that the server does not start with.
        let config = [("innodb_data_file_path".to_owned(), "nonsense".to_owned())];
        let failed = subject.apply(&config).unwrap_err();
        assert_eq!(failed.kind(), "cannot-restart", "{failed}");

        // A server that dies under a value.
        subject.apply(&workers(flavour, 2)).unwrap();
        let pid = subject.stage.replica().unwrap().sandbox().pid();
        // SAFETY: the pid is that of our own server, which its guardian has not reaped.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        let died = subject.block(0.3).unwrap_err();
        assert_eq!(died.kind(), "crashed", "{died}");
        assert!(died.to_string().contains("signal 9"), "{died}");
        let name = subject.stage.replica().unwrap().sandbox().name().to_owned();
        let log =
            waggle_server::sandbox::default_directory().join(format!("waggle-{name}.error.log"));
        assert!(!log.exists(), "{}", log.display());
        assert!(
            subject.block(0.3).unwrap().objective > 0.0,
            "the run goes on"
        );
    }
}

#[test]
fn a_refusal_after_a_restart_undoes_the_restart_too() {
    for flavour in flavours() {
        let mut subject = ReplicaSubject::start(&setup(flavour)).unwrap();
        let before = value(&mut subject, "performance_schema");
        // Another than it is.
        let other = if before == "1" { "OFF" } else { "ON" };
        let mut config = vec![("performance_schema".to_owned(), other.to_owned())];
        assert_eq!(subject.apply(&config).unwrap(), Applied::Restarted);
        assert_ne!(value(&mut subject, "performance_schema"), before);
        config.extend(workers(flavour, 123_456_789));
        let refused = subject.apply(&config).unwrap_err();
        assert_eq!(refused.kind(), "refused", "{refused}");
        assert_eq!(value(&mut subject, "performance_schema"), before);

        // Sizes are passed on in bytes; a value that the server rounds is refused.
        let sized = [("innodb_sort_buffer_size".to_owned(), "2M".to_owned())];
        assert_eq!(subject.apply(&sized).unwrap(), Applied::Restarted);
        let clipped = [("innodb_sort_buffer_size".to_owned(), "1K".to_owned())];
        let refused = subject.apply(&clipped).unwrap_err();
        assert_eq!(refused.kind(), "refused", "{refused}");
        assert!(
            refused.to_string().contains("was started with"),
            "{refused}"
        );
        assert!(subject.block(0.3).unwrap().objective > 0.0);
    }
}

#[test]
fn the_load_is_opened_anew_for_values_of_the_primary() {
    for flavour in flavours() {
        let mut subject = ReplicaSubject::start(&setup(flavour)).unwrap();
        let config = [("primary.sort_buffer_size".to_owned(), "1M".to_owned())];
        let first = session_of_load(&mut subject);
        subject.apply(&config).unwrap();
        let second = session_of_load(&mut subject);
        assert!(second > first, "{flavour}: {second} after {first}");
        subject.apply(&config).unwrap();
        assert_eq!(session_of_load(&mut subject), second, "nothing changed");
        subject.apply(&[]).unwrap();
        assert!(session_of_load(&mut subject) > second, "{flavour}");
    }
}

/// The number of the load's oldest session, after a block.
fn session_of_load(subject: &mut ReplicaSubject) -> u64 {
    subject.block(0.2).unwrap();
    let sql = "SELECT MIN(id) FROM information_schema.processlist \
               WHERE db = 'sbtest' AND id <> CONNECTION_ID()";
    let link = subject.link(End::Primary).unwrap();
    link.value(sql, "look at sessions")
        .unwrap()
        .parse()
        .unwrap()
}

/// `cargo test -p waggle --bin waggle replica::tests::sweep -- --ignored --nocapture`
#[test]
#[ignore = "a measurement by hand: minutes"]
fn sweep() {
    for flavour in flavours() {
        let mut setup = setup(flavour);
        setup.threads = 16;
        setup.options = [("tables", "4"), ("table-size", "20000")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        setup.settings = vec![("sync_binlog".to_owned(), "1".to_owned())];
        let mut subject = ReplicaSubject::start(&setup).unwrap();
        for _ in 0..3 {
            for count in [1, 2, 4, 8, 16, 32] {
                let begin = std::time::Instant::now();
                subject.apply(&workers(flavour, count)).unwrap();
                let block = subject.block(2.0).unwrap();
                println!(
                    "{flavour} {count} {:.0}/s in {:.1} s {}",
                    block.objective,
                    begin.elapsed().as_secs_f64(),
                    block.details
                );
            }
        }
    }
}
