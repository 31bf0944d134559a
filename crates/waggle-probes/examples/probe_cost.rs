//! What one hit of the statement probe costs, in a loop in this process: the trap alone, and the
//! capture of a statement from a made-up session object laid out as a server lays it out.
//!
//! Caches are warm and nothing competes, so this is the floor; the lab measures the cost in a
//! server. Least of several rounds, as interruptions only add. Needs root.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use waggle_probes::own;
use waggle_probes::sched::{SchedProbe, THREADS_MAX};
use waggle_probes::statement::{Breakdown, Options, Program, StatementProbe};
use waggle_symbols::known;
use waggle_symbols::layout::{Field, Source, StartClock};
use waggle_symbols::{BuildId, FieldName, Location, StatementLayout};

const CALLS: u32 = 20_000;
const ROUNDS: u32 = 15;

/// Stands for the end of a statement: begins with `push`, has the session object in `rdi`.
#[unsafe(naked)]
extern "C" fn statement_end(_thd: *const u64) {
    core::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

fn main() {
    let build = hex("cc8a18826385d7182761a4a8f41044748267244d");
    let known = known::lookup(&BuildId::new(&build)).expect("a build of the table");
    let pid = std::process::id();
    let sched = SchedProbe::load(THREADS_MAX).and_then(|mut sched| {
        sched.attach()?;
        sched.watch(pid)?;
        Ok(sched)
    });
    match &sched {
        Ok(sched) => {
            println!("with the breakdown of time, 150 bytes of text");
            measure(&known, 150, Some(sched));
        }
        Err(error) => println!("no breakdown of time: {error}"),
    }
    for length in [36, 150, 1000] {
        println!("{length} bytes of text");
        for count in 1..=known.len() {
            measure(&known[..count], length, None);
        }
    }
}

/// Measures the capture of the first fields of the table, the last of which is new.
fn measure(known: &[(FieldName, Location)], length: usize, sched: Option<&SchedProbe>) {
    let fields = FieldName::ALL.into_iter().map(|name| {
        let place = known.iter().find(|(known, _)| *known == name);
        let found = place.map(|(_, at)| (at.clone(), Source::Table));
        Field {
            name,
            found: found.ok_or_else(|| "left out".to_owned()),
        }
    });
    let layout = StatementLayout {
        fields: fields.collect(),
        start_clock: StartClock::Realtime,
    };
    let options = Options {
        ring_bytes: 64 << 20,
        ..Options::default()
    };
    let site = own::site("statement_end", statement_end as *const ()).expect("own site");
    let loaded = match sched {
        Some(sched) => {
            let breakdown = Breakdown { sched, hooks: &[] };
            StatementProbe::load_with_times(&layout, &site, &options, &breakdown)
        }
        None => StatementProbe::load(&layout, &site, &options),
    };
    let mut probe = loaded.expect("run it as root");
    let texts = Texts::new(length);
    let thd = session(known, &texts);
    let mut events = probe.events().expect("a ring buffer");
    let pid = std::process::id().cast_signed();
    let exe = Path::new("/proc/self/exe");
    let (mut bare, mut empty, mut capture) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    // Taking turns: the machine drifts, and the least of each is wanted.
    for _ in 0..ROUNDS {
        probe.detach();
        bare = bare.min(ns_per_call(&thd));
        probe
            .attach(pid, exe, Program::Empty)
            .expect("attaching to this process");
        empty = empty.min(ns_per_call(&thd));
        probe
            .attach(pid, exe, Program::Capture)
            .expect("attaching to this process");
        capture = capture.min(ns_per_call(&thd));
        events.consume(usize::MAX, |_| {});
    }
    let last = known.last().map_or("", |(name, _)| name.as_str());
    println!(
        "  with {last:14} trap {:4.0} ns, capture {:4.0} ns more",
        empty - bare,
        capture - empty
    );
}

fn ns_per_call(thd: &[u64]) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(statement_end as extern "C" fn(*const u64))(thd.as_ptr());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// The texts a session object points to.
struct Texts {
    query: Vec<u8>,
    context: [u64; 32],
    area: Vec<u64>,
}

impl Texts {
    fn new(length: usize) -> Self {
        let mut context = [0; 32];
        context[0] = b"root".as_ptr() as u64;
        context[1] = 4;
        Self {
            query: vec![b'x'; length],
            context,
            area: vec![0; 256],
        }
    }
}

/// A session object with every known field in its place.
fn session(known: &[(FieldName, Location)], texts: &Texts) -> Vec<u64> {
    let mut thd = vec![0u64; 4096];
    for (name, at) in known {
        let slot = (at.derefs.first().unwrap_or(&at.offset) / 8) as usize;
        match name {
            FieldName::Query => {
                thd[slot] = texts.query.as_ptr() as u64;
                thd[slot + 1] = texts.query.len() as u64;
            }
            FieldName::Database => {
                thd[slot] = b"sbtest".as_ptr() as u64;
                thd[slot + 1] = 6;
            }
            FieldName::User | FieldName::ClientHost => thd[slot] = texts.context.as_ptr() as u64,
            FieldName::ErrorNumber | FieldName::RowsAffected | FieldName::Warnings => {
                thd[slot] = texts.area.as_ptr() as u64
            }
            _ => thd[slot] = 1,
        }
    }
    thd
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap_or(0);
    (0..text.len()).step_by(2).map(byte).collect()
}
