//! Both sides in one process: what is asked there is what would have been done here, and what a
//! bad child says does no more than fail the run.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::message::{Ask, Event};
use super::socket::{MESSAGE_BYTES_MAX, decoded, receive, receive_descriptors, send};
use super::*;
use crate::{Load, LoadState, Progress, Script};

fn nowhere() -> waggle_wire::Dsn {
    "mysql://nobody:secret@127.0.0.1:1/db".parse().unwrap()
}

fn spec(text: &str) -> LoadSpec {
    LoadSpec::new(nowhere(), Script::from_text("mine", text))
}

/// A child that is a thread, which does as `child` says.
fn apart_with(child: impl FnOnce(UnixStream) + Send + 'static) -> Arc<Apart> {
    let (control, theirs) = UnixStream::pair().unwrap();
    thread::spawn(move || child(theirs));
    Arc::new(Apart {
        control: Mutex::new(control),
        pid: None,
        user: "nobody (user 65534)".to_owned(),
        end: Mutex::default(),
    })
}

fn apart() -> Arc<Apart> {
    apart_with(|control| serve::run(&control))
}

/// Answers the first question of the first session by `answer`, then does nothing.
fn answering(answer: impl Fn(&mut UnixStream) + Send + 'static) -> Arc<Apart> {
    apart_with(move |control| {
        let mut descriptors = receive_descriptors(&control).unwrap().into_iter();
        let mut stream = UnixStream::from(descriptors.next().unwrap());
        let _: Open = receive(&stream, MESSAGE_BYTES_MAX).unwrap();
        answer(&mut stream);
        // The rest stays open until the other side ends it.
        let _ = receive::<Ask>(&stream, MESSAGE_BYTES_MAX);
    })
}

const EVENTS: &str = "sysbench.cmdline.options = { size = {'how much', 7} }\n\
                      function thread_init() sysbench.sql.driver():connect() end\n\
                      function event() end";

#[test]
fn a_script_is_checked_there_as_here() {
    let apart = apart();
    let names = |options: Vec<DeclaredOption>| -> Vec<String> {
        options.into_iter().map(|option| option.name).collect()
    };
    let there = names(apart.check(&spec(EVENTS)).unwrap());
    assert_eq!(there, names(crate::check(&spec(EVENTS)).unwrap()));
    assert!(there.contains(&"size".to_owned()));
    for wrong in ["no lua", "x = 1", "error('of mine')"] {
        let here = crate::check(&spec(wrong)).unwrap_err().to_string();
        assert_eq!(apart.check(&spec(wrong)).unwrap_err().to_string(), here);
    }
    assert!(matches!(
        apart.check(&spec("x = 1")),
        Err(LoadError::NoEvent { .. })
    ));
}

#[test]
fn a_file_that_the_user_cannot_read_is_told_with_the_user() {
    let error = apart().check(&spec("require('not_there')")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("runs as nobody (user 65534)"), "{text}");
    assert!(text.contains("--load-user"), "{text}");
}

#[test]
fn what_commands_print_arrives_before_their_end() {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let sink = printed.clone();
    let progress: Sink = Arc::new(move |progress: Progress<'_>| {
        if let Progress::Message { text, .. } = progress {
            locked(&sink).push(text.to_owned());
        }
    });
    let text = "function prepare() for i = 1, 100 do print('line\\27[2J ' .. i) end end";
    apart().command(&spec(text), "prepare", progress).unwrap();
    let printed = locked(&printed);
    assert_eq!(printed.len(), 100);
    // What a terminal would act upon is gone.
    assert_eq!(printed[99], "line\u{fffd}[2J 100");
}

#[test]
fn a_load_that_cannot_connect_says_so_without_its_password() {
    let error = Remote::start(apart(), &spec(EVENTS)).err().unwrap();
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_load_there_is_used_as_one_here() {
    let mut spec = spec("n = 0\nfunction event() n = n + 1 end");
    spec.threads = 2;
    spec.start_paused = true;
    spec.event_limit = Some(1_000);
    let load = Remote::start(apart(), &spec).unwrap();
    assert_eq!((load.state(), load.busy()), (LoadState::Active, 0));
    assert_eq!(load.counters().transactions, 0);
    load.resume();
    while load.wait(Duration::from_secs(10)) == LoadState::Active {}
    assert_eq!(load.state(), LoadState::Ended);
    assert_eq!(load.counters().transactions, 1_000);
    let snapshot = load.snapshot();
    assert_eq!(snapshot.response.count(), 1_000);
    assert_eq!(snapshot.threads.len(), 2);
    assert!(snapshot.at.elapsed() < Duration::from_secs(10));
    assert_eq!(load.take_latency().count(), 1_000);
    assert_eq!(load.take_latency().count(), 0);
    assert!(load.cpu_ns() > 0);
    let (report, failure) = load.finish_within(Duration::from_secs(1));
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!(report.counters.transactions, 1_000);
    assert_eq!(report.last.response.count(), 1_000);
}

#[test]
fn several_loads_do_not_wait_for_each_other() {
    let apart = apart();
    let mut spec = spec("function event() end");
    spec.start_paused = true;
    let idle = Remote::start(apart.clone(), &spec).unwrap();
    let busy = Remote::start(apart, &spec).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                idle.wait(Duration::from_millis(200));
            }
        });
        busy.resume();
        while busy.counters().transactions < 100 {
            thread::yield_now();
        }
        assert!(busy.pause_within(Duration::from_secs(10)));
        stop.store(true, Ordering::Relaxed);
        waiting.join().unwrap();
    });
}

/// Prints what each call takes, here and there: `-- --ignored --nocapture what_a_call_costs`.
#[test]
#[ignore = "a measurement"]
fn what_a_call_costs() {
    let mut spec = spec("function event() end");
    spec.start_paused = true;
    let here = Load::start(&spec).unwrap();
    let there = Remote::start(apart(), &spec).unwrap();
    let each = |name: &str, here: &dyn Fn(), there: &dyn Fn()| {
        let time = |call: &dyn Fn()| {
            let began = std::time::Instant::now();
            (0..1_000).for_each(|_| call());
            began.elapsed().as_micros() as f64 / 1e3
        };
        println!(
            "{name}: {:.1} us here, {:.1} us there",
            time(here),
            time(there)
        );
    };
    each("counters", &|| _ = here.counters(), &|| {
        _ = there.counters()
    });
    each("take_latency", &|| _ = here.take_latency(), &|| {
        _ = there.take_latency()
    });
    each("snapshot", &|| _ = here.snapshot(), &|| {
        _ = there.snapshot()
    });
    let limit = Duration::from_secs(1);
    each(
        "resume and pause",
        &|| {
            here.resume();
            assert!(here.pause_within(limit));
        },
        &|| {
            there.resume();
            assert!(there.pause_within(limit));
        },
    );
}

#[test]
fn garbage_fails_the_run_and_nothing_else() {
    let length = |length: u32| length.to_le_bytes().to_vec();
    let framed = |bytes: &[u8]| [&length(bytes.len() as u32)[..], bytes].concat();
    let bad = [
        length(u32::MAX),
        framed(b"\xff\xff\xff\xff"),
        framed(&[0, 0, 0, 0]),
        // A list of options as long as can be said, and nothing in it.
        framed(&[2, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ];
    for bytes in bad {
        let apart = answering(move |stream| stream.write_all(&bytes).unwrap());
        let error = apart.check(&spec(EVENTS)).unwrap_err().to_string();
        assert!(error.contains("what is no message"), "{error}");
    }
    let silent = apart_with(drop);
    let error = silent.check(&spec(EVENTS)).unwrap_err().to_string();
    assert!(error.contains("is gone"), "{error}");
}

#[test]
fn an_answer_to_another_question_fails_the_run() {
    let apart = answering(|stream| {
        send(stream, &Answer::Flag(true), MESSAGE_BYTES_MAX).unwrap();
    });
    let error = apart.check(&spec(EVENTS)).unwrap_err().to_string();
    assert!(error.contains("another question"), "{error}");
}

#[test]
fn counts_that_nothing_reaches_are_not_believed() {
    let mut run = Snapshot::nothing();
    run.counters.queries = u64::MAX;
    assert!(SnapshotForm::new(&run).into_snapshot().is_err());
    let mut run = Snapshot::nothing();
    run.cpu_ns = u64::MAX;
    assert!(SnapshotForm::new(&run).into_snapshot().is_err());
    let mut run = Snapshot::nothing();
    run.response.record(1_000);
    run.user_counters.insert("a".to_owned(), f64::INFINITY);
    let back = SnapshotForm::new(&run).into_snapshot().unwrap();
    assert_eq!(back.response.count(), 1);
    assert_eq!(back.user_counters, run.user_counters);
}

#[test]
fn a_load_here_is_not_touched_by_any_of_this() {
    assert_eq!(process(), None);
    let load = Load::start(&spec(EVENTS));
    assert!(matches!(load, Err(LoadError::Connect { .. })));
}

proptest! {
    /// The parent reads whatever bytes come.
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        if let Ok(Answer::Snapshot(form)) = decoded(&bytes) {
            let _ = form.into_snapshot();
        }
        if let Ok(Answer::Finished(report, failure)) = decoded(&bytes) {
            let _ = report.into_report();
            let _ = failure.map(|error| error.into_error(&|text| text).to_string());
        }
        let _ = decoded::<Event>(&bytes);
    }

    /// The same of what was a message before some of its bytes were changed.
    #[test]
    fn no_change_of_a_message_breaks_the_reader(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut run = Snapshot::nothing();
        for value in 1..200 {
            run.response.record(value * value);
        }
        let answer = Answer::Snapshot(Box::new(SnapshotForm::new(&run)));
        let mut bytes = postcard::to_stdvec(&answer).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(Answer::Snapshot(form)) = decoded(&bytes)
            && let Ok(snapshot) = form.into_snapshot()
        {
            // What was believed can be added up.
            let mut sum = snapshot.response.clone();
            sum.merge(&snapshot.response);
            let _ = sum.summary();
        }
    }
}
