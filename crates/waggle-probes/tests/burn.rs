//! Does the burning probe burn what it was asked to, and does the kernel count the same? This
//! process plays the server.

use std::hint::black_box;
use std::path::Path;

use waggle_need::had;
use waggle_probes::burn::{BURN_NS_MAX, Burn, BurnProbe};
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::own;

const CALLS: u64 = 5_000;

/// Stands for the end of a statement: begins with `push`.
#[unsafe(naked)]
extern "C" fn statement_end() {
    core::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

fn call(times: u64) {
    for _ in 0..times {
        black_box(statement_end as extern "C" fn())();
    }
}

/// `None`, aloud, where the kernel or the rights do not allow probes.
fn probe() -> Option<BurnProbe> {
    let site = own::site("statement_end", statement_end as *const ()).expect("own site");
    had("bpf", BurnProbe::load(&site))
}

#[test]
fn every_run_burns_at_least_what_was_asked_and_the_kernel_counts_the_same_runs() {
    let Some(mut probe) = probe() else { return };
    let pid = std::process::id().cast_signed();
    let exe = Path::new("/proc/self/exe");
    let stats = RunTimeStats::hold().expect("the kernel counts run times");
    // More than is allowed is cut, not wrapped.
    for asked in [0, 500, 10_000, BURN_NS_MAX + 1] {
        let calls = if asked > BURN_NS_MAX { 100 } else { CALLS };
        let before = probe.counters().expect("counters");
        let (runs_before, time_before) = probe.run_time(Burn::Ns(asked)).expect("run time");
        probe.attach(pid, exe, Burn::Ns(asked)).expect("attaching");
        call(calls);
        probe.detach();
        // Not counted: nothing is attached.
        call(calls);
        let after = probe.counters().expect("counters");
        let (runs, time) = probe.run_time(Burn::Ns(asked)).expect("run time");
        let (runs, time) = (runs - runs_before, time - time_before);
        let burned = after.burned_ns - before.burned_ns;
        assert_eq!(after.hits - before.hits, calls, "{asked}");
        assert_eq!(runs, calls, "{asked}");
        assert_eq!(after.unfinished, 0, "{asked}");
        assert!(
            burned >= calls * asked.min(BURN_NS_MAX),
            "{asked}: {burned}"
        );
        // The kernel's clock begins before the program's and ends after it; the program's is
        // slewed by at most 0.05%.
        assert!(time + time / 1000 >= burned, "{asked}: {time} of {burned}");
        println!(
            "{asked:6} ns asked: {} burned, {} by the kernel",
            burned / calls,
            time / calls
        );
    }
    let before = probe.counters().expect("counters");
    probe.attach(pid, exe, Burn::Nothing).expect("attaching");
    call(CALLS);
    let (runs, time) = probe.run_time(Burn::Nothing).expect("run time");
    assert_eq!(runs, CALLS);
    assert_eq!(probe.counters().expect("counters"), before);
    println!("nothing: {} by the kernel", time / CALLS);
    drop(stats);
}
