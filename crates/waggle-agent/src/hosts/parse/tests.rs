//! The kernel's texts as they are, and as nobody would write them.

use super::*;

#[test]
fn processors_and_their_time() {
    let text = "cpu  667734 15004 232812 328278 27524 10 8801 1159 600 0\n\
                cpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5 0 0\nctxt 49\n\
                procs_running 4\nprocs_blocked 2\nsoftirq 1\n";
    let stat = stat(text, 100.0).unwrap();
    assert_eq!((stat.processors, stat.runnable, stat.blocked), (2, 4, 2));
    let cpu = stat.cpu;
    assert_eq!(
        (cpu.user, cpu.system, cpu.idle),
        (6677.34, 2328.12, 3282.78)
    );
    assert_eq!((cpu.iowait, cpu.steal), (275.24, 11.59));
    assert!((cpu.other - (150.04 + 0.10 + 88.01)).abs() < 1e-9);
    // A kernel of long ago has fewer columns.
    assert_eq!(super::stat("cpu 1 2 3 4\n", 1.0).unwrap().cpu.idle, 4.0);
    assert_eq!(super::stat("cpu0 1 2 3 4\n", 1.0), None);
}

#[test]
fn memory_load_and_pressure() {
    let text = "MemTotal:       24000 kB\nMemFree: 1 kB\nMemAvailable: 20000 kB\n\
                SwapTotal: 10 kB\nSwapFree: 4 kB\n";
    let expected = [(24_000 * 1024, 20_000 * 1024), (10 * 1024, 6 * 1024)];
    assert_eq!(meminfo(text), Some(expected));
    assert_eq!(
        meminfo("MemTotal: 5 kB\nMemFree: 1 kB\n"),
        Some([(5120, 1024), (0, 0)])
    );
    assert_eq!(
        meminfo("MemTotal: 18446744073709551615 kB\nMemFree: 1 kB\n"),
        None
    );
    assert_eq!(
        loadavg("0.20 0.18 12.12 1/80 11206\n"),
        Some([0.20, 0.18, 12.12])
    );
    assert_eq!(loadavg("0.20 nan 1\n"), None);
    let text = "some avg10=8.36 avg60=5.32 avg300=10.57 total=6451832792\nfull avg10=1.00\n";
    assert_eq!(pressure(text), Some(8.36));
    assert_eq!(pressure("full avg10=1.00\n"), None);
}

#[test]
fn disks_and_interfaces() {
    let text = " 254       0 vda 100 5 800 20 50 6 400 30 0 40 50 0 0 0 0 0 0\n\
                  254       1 vda1 1 2 3\n   8  0 sda 1 1 1 1 1 1 1 1 1 1\n";
    let disks: Vec<_> = diskstats(text).collect();
    assert_eq!(disks.len(), 2, "a line that is cut is left out");
    let expected = Disk {
        name: "vda",
        operations: (100, 50),
        bytes: (800 * 512, 400 * 512),
        time_ms: (20, 30),
        busy_ms: 40,
    };
    assert_eq!(disks[0], expected);
    let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n\
                  lo: 10 20 1 2 0 0 0 0 30 40 3 4 0 0 0 0\n\
                  eth0:1:5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n";
    let networks = networks(text);
    assert_eq!(networks.len(), 2);
    assert_eq!(
        (networks[0].bytes, networks[0].packets),
        ((10, 30), (20, 40))
    );
    assert_eq!((networks[0].failed, &*networks[1].name), ((3, 7), "eth0:1"));
}

#[test]
fn processes() {
    let text = "15289 (my) S (sql\nd) S 1 2 3 0 -1 4194304 99 0 0 0 250 130 0 0 20 0 38 0 1288407 \
                3133440 389 18446744073709551615 1 1\n";
    let expected = ProcessStat {
        user_ticks: 250,
        system_ticks: 130,
        threads: 38,
        rss_pages: 389,
    };
    assert_eq!(process_stat(text), Some(expected));
    assert_eq!(process_stat("1 (x) S 1 2"), None);
    let text = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1000\n";
    assert_eq!(io(text), Some((4096, 7192)));
    assert_eq!(io("read_bytes: 4096\n"), None);
    assert_eq!(schedstat("88525 175403 7\n"), Some((175_403, 7)));
    assert_eq!(schedstat("88525 175403\n"), None);
    let text = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(switches(text), Some((12, 3)));
}

/// Bytes changed, cut, doubled and put in at random, from a seed: nothing may panic.
#[test]
fn hostile_texts_are_survived() {
    let seeds = [
        "cpu  667734 15004 232812 328278 27524 10 8801 1159 600 0\ncpu0 1 2\nprocs_running 4\n",
        "MemTotal: 24000 kB\nMemAvailable: 20000 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n",
        "some avg10=8.36 avg60=5.32 avg300=10.57 total=6451832792\n",
        " 254 0 vda 100 5 800 20 50 6 400 30 0 40 50 0 0 0 0 0 0\n",
        "  lo: 10 20 1 2 0 0 0 0 30 40 3 4 0 0 0 0\n",
        "1 (a) S 1 2 3 0 -1 4194304 99 0 0 0 250 130 0 0 20 0 38 0 1288407 3133440 389 1 1\n",
        "read_bytes: 4096\nwrite_bytes: 8192\nvoluntary_ctxt_switches:\t12\n",
        "0.20 0.18 12.12 1/80 11206\n",
    ];
    let mut random = crate::mutation::Random::new(0x5eed);
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
        random.mutate(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = stat(&text, 100.0);
        let _ = (meminfo(&text), loadavg(&text), pressure(&text));
        let _ = (diskstats(&text).count(), networks(&text));
        let _ = (
            process_stat(&text),
            io(&text),
            schedstat(&text),
            switches(&text),
        );
    }
}
