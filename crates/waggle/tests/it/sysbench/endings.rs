//! How a run ends before its time, and what it still says.

use waggle_server::Flavour;

use super::bed::{Bed, Counts, Tool, both};
use super::running::Running;
use super::without_numbers;

const SLOW: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event() con:query('SELECT SLEEP(30)') end
";
const QUICK: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event() con:query('SELECT 1') end
";
const LATE: &str = "
    function thread_init()
      con = sysbench.sql.driver():connect()
      con:query('SELECT SLEEP(100)')
    end
    function event() end
";

/// The lines of a report without those that hold what sysbench leaves undefined for events that
/// never ended.
fn forced(report: &str) -> Vec<String> {
    let lines = without_numbers(report).into_iter();
    lines
        .filter(|line| !line.starts_with("events (avg") && !line.starts_with("execution time"))
        .collect()
}

#[test]
fn a_forced_shutdown_ends_with_2_and_the_report() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("slow.lua", SLOW);
    let line = "slow.lua run --threads=2 --time=1 --forced-shutdown=1";
    let (ours, theirs) = bed.side_by_side(line);
    assert_eq!(ours.code, Some(2), "{ours:?}");
    let unfinished = "\nNumber of unfinished transactions on forced shutdown: 2\n\nGeneral";
    assert!(ours.stdout.contains(unfinished), "{ours:?}");
    if let Some(theirs) = theirs {
        assert_eq!(
            (ours.code, forced(&ours.stdout)),
            (theirs.code, forced(&theirs.stdout))
        );
    }
}

#[test]
fn threads_that_do_not_start_in_time_end_it_with_2() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("late.lua", LATE);
    let line = "--dialect=1.1 late.lua run --threads=2 --thread-init-timeout=1";
    let said = bed.run(Tool::Waggle, line);
    assert_eq!(said.code, Some(2));
    let told = "FATAL: Worker threads failed to initialize within 1 seconds!\n";
    assert!(said.stdout.ends_with(told), "{said:?}");
}

#[test]
fn an_interrupt_ends_with_the_report() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("quick.lua", QUICK);
    bed.script("slow.lua", SLOW);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let words = bed.words("quick.lua run --threads=2 --time=0 --report-interval=1");
        let mut run = Running::start(Tool::Waggle, &words, bed.directory.path());
        run.wait_for("s ] thds:");
        run.signal(signal);
        let said = run.ended();
        assert_eq!(said.code, Some(130), "{said:?}");
        let counts = Counts::of(&said.stdout);
        assert!(
            counts.events > 0 && counts.read == counts.events,
            "{said:?}"
        );
    }
    // Also with a statement in flight that nobody will wait for.
    let words = bed.words("slow.lua run --threads=2 --time=0");
    let mut run = Running::start(Tool::Waggle, &words, bed.directory.path());
    run.wait_for("Threads started!");
    run.signal(libc::SIGINT);
    let said = run.ended();
    assert_eq!(said.code, Some(130), "{said:?}");
    assert_eq!(Counts::of(&said.stdout).events, 0);
}

/// A statement that fails in one of many events.
const SOMETIMES: &str = "
    local number = 0
    function thread_init() con = sysbench.sql.driver():connect() end
    function event()
      number = number + 1
      con:query('SELECT 1')
      if number % 3 == 1 then con:query('SELECT * FROM nope') end
    end
";

#[test]
fn errors_to_be_ignored_restart_an_event_and_are_counted_as_sysbench_does() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("sometimes.lua", SOMETIMES);
    for list in ["1146", "1213,1146,1020", "all"] {
        let line = format!("sometimes.lua run --events=30 --time=0 --mysql-ignore-errors={list}");
        let ours = Counts::of(&bed.well(Tool::Waggle, &line));
        assert_eq!(
            (ours.events, ours.read, ours.other, ours.ignored),
            (30, 45, 0, 15)
        );
        if both().is_some() {
            assert_eq!(ours, Counts::of(&bed.well(Tool::Sysbench, &line)), "{list}");
        }
    }
    let strict = bed.run(Tool::Waggle, "sometimes.lua run --events=30 --time=0");
    assert_eq!(strict.code, Some(1));
    assert_eq!(Counts::of(&strict.stdout).events, 0);
}

/// A script that handles an error itself.
const CAUGHT: &str = "
    function event()
      local con = sysbench.sql.driver():connect()
      local ok, err = pcall(function() con:query('SELECT * FROM nope') end)
      print(type(err) .. ' ' .. err .. ' ' .. err:match('errno = (%d+)'))
      local prepared, why = pcall(function() con:prepare('SELEC ?') end)
      print(type(why) .. ' ' .. tostring(prepared) .. ' ' .. why:match('errno = (%d+)'))
    end
";

#[test]
fn an_error_that_a_script_catches_is_the_text_of_sysbench() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("caught.lua", CAUGHT);
    let caught = |tool: Tool| -> Vec<String> {
        let said = bed.well(tool, "caught.lua run --events=1 --time=0");
        let own = said.lines().filter(|line| line.starts_with("string "));
        own.map(str::to_owned).collect()
    };
    let ours = caught(Tool::Waggle);
    assert_eq!(ours[1], "string false 1064");
    if both().is_some() {
        let theirs = caught(Tool::Sysbench);
        assert_eq!(ours[0], theirs[0]);
        // sysbench gives the number of the error before.
        assert_eq!(theirs[1], "string false 1146");
    }
}

/// What hooks of a script see of a failed statement.
const HOOKED: &str = "
    local number = 0
    function thread_init() con = sysbench.sql.driver():connect() end
    function event()
      number = number + 1
      if number % 2 == 0 then con:query('SELECT 1') else con:query('SELECT * FROM nope') end
    end
    function sysbench.hooks.sql_error_ignorable(err)
      print('hook ' .. err.sql_errno .. ' ' .. err.sql_state .. ' ' .. err.sql_errmsg)
      return err.sql_errno == 1146
    end
    function sysbench.hooks.before_restart_event(err)
      print('before ' .. err.sql_errno .. ' ' .. err.errcode)
    end
    function sysbench.hooks.report_cumulative(stat)
      print('cumulative ' .. stat.events .. ' ' .. stat.reads .. ' ' .. stat.errors)
    end
";

#[test]
fn hooks_hear_of_errors_and_take_the_report_over() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("hooked.lua", HOOKED);
    let line = "hooked.lua run --events=1 --time=0";
    let heard = |tool: Tool| -> Vec<String> {
        let said = bed.well(tool, line);
        let (_, said) = said.split_once("Threads started!\n").expect("it ran");
        // sysbench tells of the error also when the hook lets it pass.
        let own = said.lines().filter(|line| !line.contains("FATAL: "));
        own.map(str::to_owned).collect()
    };
    let ours = heard(Tool::Waggle);
    assert_eq!(ours.last().map(String::as_str), Some("cumulative 1 1 1"));
    assert!(ours.contains(&"before 1146 1".to_owned()), "{ours:?}");
    if both().is_some() {
        assert_eq!(ours, heard(Tool::Sysbench));
    }
}
