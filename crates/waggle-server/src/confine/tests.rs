use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use waggle_need::skip;

use super::*;
use crate::cpu;

/// A process that does this until it is dropped.
struct Busy(Child);

impl Busy {
    fn run(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Ends a `read` of the script.
    fn go(&mut self) {
        drop(self.0.stdin.take());
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cpus(count: u32) -> Limits {
    Limits {
        cpus: Some(count),
        io: None,
    }
}

fn allowed(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

fn groups_of(confinement: &Confinement) -> Vec<PathBuf> {
    let paths = confinement.groups.iter().map(|group| group.path.clone());
    paths.collect()
}

fn is_kept(mut confinement: Confinement) {
    let busy = Busy::run("while :; do :; done");
    let before = allowed(busy.pid());
    confinement.add(busy.pid()).unwrap();
    // Again, as an observer that stays is at each of its windows: it is where it is.
    confinement.add(busy.pid()).unwrap();
    assert_eq!(confinement.members.len(), 1);
    let wanted = hierarchy::list(confinement.cpus());
    assert_eq!(allowed(busy.pid()), wanted);
    let [kept] = confinement.applied() else {
        panic!("{:?}", confinement.applied());
    };
    assert!(
        kept.starts_with(&format!("processors {wanted}, by ")),
        "{kept}"
    );
    // Two on one processor use no more than its time; each beside the other would use one.
    let other = Busy::run("while :; do :; done");
    confinement.add(other.pid()).unwrap();
    let used = || {
        let both = [&busy, &other].map(|busy| cpu::process_cpu_ns(busy.pid()).unwrap());
        both.iter().sum::<u64>()
    };
    let (start, from) = (Instant::now(), used());
    let mut spent = 0;
    while spent < 100_000_000 {
        std::thread::yield_now();
        spent = used() - from;
    }
    let passed = start.elapsed().as_nanos() as u64;
    assert!(spent <= passed + 10_000_000, "{spent} ns in {passed} ns");

    let groups = groups_of(&confinement);
    assert!(groups.iter().all(|group| group.exists()));
    drop(confinement);
    assert_eq!(allowed(busy.pid()), before);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[test]
fn processes_stay_on_their_processors_and_come_back() {
    is_kept(Confinement::new(&cpus(1), Path::new("/")));
    // As on a host without control groups.
    let mut confinement = Confinement::new(&cpus(1), Path::new("/"));
    for group in confinement.groups.drain(..) {
        fs::remove_dir(group.path).unwrap();
    }
    confinement.by_affinity = true;
    is_kept(confinement);
}

#[test]
fn threads_that_start_later_are_kept_too() {
    let mut confinement = Confinement::new(&cpus(1), Path::new("/"));
    let mut busy = Busy::run("read line; sh -c 'grep Cpus_allowed_list /proc/self/status'");
    confinement.add(busy.pid()).unwrap();
    busy.go();
    let mut said = String::new();
    busy.0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let wanted = hierarchy::list(confinement.cpus());
    assert_eq!(said.split_ascii_whitespace().last(), Some(&*wanted));
}

#[test]
fn threads_of_this_process_keep_off_and_come_back() {
    // Two confinements at once, as of a pair of servers, are on the same processors.
    let mut confinement = Confinement::new(&cpus(1), Path::new("/"));
    let all = affinity::at_first().unwrap().processors();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (say, said) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        for () in told {
            say.send(affinity::of(0).unwrap().processors()).unwrap();
        }
    });
    let left = confinement.keep_threads_off(None).unwrap();
    let mut second = Confinement::new(&cpus(1), Path::new("/"));
    assert_eq!(second.cpus(), confinement.cpus());
    assert_eq!(second.keep_threads_off(None).unwrap(), left);
    tell.send(()).unwrap();
    assert_eq!(said.recv().unwrap(), left);
    assert_eq!(affinity::of(0).unwrap().processors(), all);
    if all.len() > 1 {
        assert!(left.iter().all(|cpu| !confinement.cpus().contains(cpu)));
        assert_eq!(left.len() + 1, all.len());
    }
    drop((confinement, second));
    tell.send(()).unwrap();
    assert_eq!(said.recv().unwrap(), all);
    drop(tell);
    worker.join().unwrap();
}

#[test]
fn no_limit_makes_no_group() {
    let confinement = Confinement::new(&Limits::default(), Path::new("/"));
    assert!(confinement.groups.is_empty() && confinement.applied().is_empty());
    assert!(confinement.refused().is_empty() && !Limits::default().any());
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    let mut confinement = Confinement::new(&cpus(1), Path::new("/"));
    let error = confinement.add(4_194_305).unwrap_err().to_string();
    assert!(error.starts_with("cannot keep process 4194305"), "{error}");
}

/// Reads past the page cache go through the throttle, so they cannot be faster.
#[test]
fn the_disk_is_throttled_where_the_host_allows_it() {
    const RATE: u64 = 2 << 20;
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let limits = Limits {
        cpus: None,
        io: Some(IoRates {
            read_bytes_s: Some(RATE),
            ..IoRates::default()
        }),
    };
    let mut confinement = Confinement::new(&limits, dir.path());
    let [kept] = confinement.applied() else {
        let refused = confinement.refused();
        assert!(refused[0].starts_with("no limit of disk traffic: "));
        return skip("blkio", &refused[0]);
    };
    assert!(kept.contains(&RATE.to_string()), "{kept}");
    let file = dir.path().join("data");
    fs::write(&file, vec![7_u8; 4 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let script = format!(
        "read line; exec dd if={} of=/dev/null bs=256k iflag=direct 2>/dev/null",
        file.display()
    );
    let mut reader = Busy::run(&script);
    confinement.add(reader.pid()).unwrap();
    let start = Instant::now();
    reader.go();
    assert!(reader.0.wait().unwrap().success());
    let least = Duration::from_secs_f64((4 << 20) as f64 / RATE as f64 * 0.7);
    assert!(start.elapsed() >= least, "{:?}", start.elapsed());
}
