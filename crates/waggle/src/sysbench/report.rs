//! The report's text, to the byte what scripts that wrap sysbench parse.
//!
//! Pure: numbers in, text out. Neighbours: [`super::stat`] makes the numbers from a load's
//! snapshots; [`super::run()`] says when. Invariant: what waggle adds stands where no such script
//! looks, behind the last field of a line or in lines of its own.

use std::fmt::Write as _;

use waggle_load::Dialect;

use super::stat::{Stat, Statements};

/// The line of an interval, and that of the queue with `--rate`.
pub(super) fn interval_lines(stat: &Stat) -> String {
    let per_s = |count: u64| rate(count, stat.seconds);
    let at = stat.total_s;
    let mut lines = format!("[ {at:.0}s ] thds: {} ", stat.threads);
    let (first, rest) = match stat.percentiles.split_first() {
        Some((first, rest)) => (*first, rest),
        None => ((0.0, 0.0), &[][..]),
    };
    let latency = |(percent, ms): (f64, f64)| format!("lat (ms,{percent}%): {ms:.2}");
    match &stat.statements {
        Some(sql) => {
            let _ = write!(
                lines,
                "tps: {:.2} qps: {:.2} (r/w/o: {:.2}/{:.2}/{:.2}) {} err/s: {:.2} reconn/s: {:.2}",
                per_s(stat.events),
                per_s(sql.total()),
                per_s(sql.reads),
                per_s(sql.writes),
                per_s(sql.other),
                latency(first),
                per_s(sql.errors),
                per_s(sql.reconnects),
            );
        }
        None => {
            let _ = write!(lines, "eps: {:.2} {}", per_s(stat.events), latency(first));
        }
    }
    for percentile in rest {
        let _ = write!(lines, " {}", latency(*percentile));
    }
    lines.push('\n');
    if let Some(queue) = &stat.queue {
        let comma = if stat.statements.is_some() { "," } else { "" };
        let _ = writeln!(
            lines,
            "[ {at:.0}s ] queue length: {}{comma} concurrency: {}",
            queue.length, queue.concurrency
        );
    }
    lines
}

/// The report of a whole run, or since the last checkpoint.
/// `unfinished` has how many events a forced shutdown gave up.
pub(super) fn report(
    stat: &Stat,
    dialect: Dialect,
    with_histogram: bool,
    unfinished: Option<u32>,
) -> String {
    let mut text = String::new();
    if with_histogram {
        text += &super::histogram::text(&stat.buckets);
    }
    if let Some(sql) = &stat.statements {
        text += &statements(sql, stat);
    }
    if let Some(unfinished) = unfinished {
        let _ = writeln!(
            text,
            "\nNumber of unfinished transactions on forced shutdown: {unfinished}"
        );
    }
    let events = stat.events;
    let _ = match dialect {
        Dialect::V1_0 => writeln!(
            text,
            "\nGeneral statistics:\n    total time:                          {:.4}s\n    \
             total number of events:              {events}",
            stat.total_s
        ),
        Dialect::V1_1 => writeln!(
            text,
            "\nThroughput:\n    events/s (eps):                      {:.4}\n    \
             time elapsed:                        {:.4}s\n    \
             total number of events:              {events}",
            rate(events, stat.seconds),
            stat.total_s
        ),
    };
    text += &latencies(stat);
    let events: Vec<f64> = stat.fairness.iter().map(|one| one.events as f64).collect();
    let times: Vec<f64> = stat.fairness.iter().map(|one| one.busy_s).collect();
    let ((events, events_dev), (time, time_dev)) = (spread(&events), spread(&times));
    let _ = writeln!(
        text,
        "\nThreads fairness:\n    events (avg/stddev):           {events:.4}/{events_dev:3.2}\n    \
         execution time (avg/stddev):   {time:.4}/{time_dev:3.2}\n"
    );
    text
}

fn statements(sql: &Statements, stat: &Stat) -> String {
    let counted = |count: u64| format!("{count:<6} ({:.2} per sec.)", rate(count, stat.seconds));
    format!(
        "SQL statistics:\n    queries performed:\n        \
         read:                            {}\n        \
         write:                           {}\n        \
         other:                           {}\n        \
         total:                           {}\n    \
         transactions:                        {}\n    \
         queries:                             {}\n    \
         ignored errors:                      {}\n    \
         reconnects:                          {}\n",
        sql.reads,
        sql.writes,
        sql.other,
        sql.total(),
        counted(stat.events),
        counted(sql.total()),
        counted(sql.errors),
        counted(sql.reconnects),
    )
}

fn latencies(stat: &Stat) -> String {
    let mut text = "\nLatency (ms):\n".to_owned();
    for (name, ms) in [
        ("min", stat.min_ms),
        ("avg", stat.avg_ms),
        ("max", stat.max_ms),
    ] {
        let _ = writeln!(text, "         {name}: {ms:39.2}");
    }
    for (percent, ms) in &stat.percentiles {
        // sysbench's `%3dth percentile: %27.2f`; a fraction takes its room from the blanks.
        let name = format!("        {percent:3}th percentile:");
        let width = 53 - name.len();
        let _ = writeln!(text, "{name}{ms:width$.2}");
    }
    if stat.percentiles.is_empty() {
        text += "         percentile stats:               disabled\n";
    }
    let _ = writeln!(text, "         sum: {:39.2}", stat.sum_ms);
    text
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Mean and standard deviation of the values, as of a whole population.
fn spread(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::stat::{Queue, ThreadShare};
    use super::*;

    fn stat() -> Stat {
        let share = |events, busy_s| ThreadShare { events, busy_s };
        Stat {
            threads: 2,
            seconds: 2.0,
            total_s: 2.0002,
            events: 4482,
            statements: Some(Statements {
                reads: 62_774,
                writes: 0,
                other: 8_966,
                errors: 0,
                reconnects: 0,
            }),
            queue: None,
            percentiles: vec![(95.0, 3.25)],
            min_ms: 0.37,
            avg_ms: 0.89,
            max_ms: 9.08,
            sum_ms: 3997.35,
            buckets: Vec::new(),
            fairness: vec![share(2619, 2.0), share(1867, 1.9974)],
        }
    }

    #[test]
    fn the_report_is_that_of_1_0_to_the_byte() {
        let wanted = "\
SQL statistics:
    queries performed:
        read:                            62774
        write:                           0
        other:                           8966
        total:                           71740
    transactions:                        4482   (2241.00 per sec.)
    queries:                             71740  (35870.00 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0002s
    total number of events:              4482

Latency (ms):
         min:                                    0.37
         avg:                                    0.89
         max:                                    9.08
         95th percentile:                        3.25
         sum:                                 3997.35

Threads fairness:
    events (avg/stddev):           2243.0000/376.00
    execution time (avg/stddev):   1.9987/0.00

";
        assert_eq!(report(&stat(), Dialect::V1_0, false, None), wanted);
    }

    #[test]
    fn dialect_1_1_has_the_throughput_block() {
        let text = report(&stat(), Dialect::V1_1, false, None);
        let block = "\nThroughput:\n    events/s (eps):                      2241.0000\n    \
                     time elapsed:                        2.0002s\n    \
                     total number of events:              4482\n\nLatency (ms):\n";
        assert!(text.contains(block), "{text}");
    }

    #[test]
    fn percentiles_are_none_one_or_many() {
        let mut stat = stat();
        stat.percentiles.clear();
        assert!(latencies(&stat).contains("         percentile stats:               disabled\n"));
        stat.percentiles = vec![(50.0, 1.0), (99.9, 123.456)];
        let text = latencies(&stat);
        assert!(text.contains("         50th percentile:                        1.00\n"));
        assert!(text.contains("        99.9th percentile:                     123.46\n"));
        let widths: Vec<usize> = text.lines().skip(2).map(str::len).collect();
        assert!(widths.iter().all(|width| *width == 53), "{text}");
    }

    #[test]
    fn an_interval_is_one_line_and_the_queue_another() {
        let mut stat = stat();
        stat.total_s = 1.9999;
        assert_eq!(
            interval_lines(&stat),
            "[ 2s ] thds: 2 tps: 2241.00 qps: 35870.00 (r/w/o: 31387.00/0.00/4483.00) \
             lat (ms,95%): 3.25 err/s: 0.00 reconn/s: 0.00\n"
        );
        stat.queue = Some(Queue {
            length: 3,
            concurrency: 2,
        });
        let lines = interval_lines(&stat);
        assert!(lines.ends_with("\n[ 2s ] queue length: 3, concurrency: 2\n"));
        stat.statements = None;
        stat.percentiles.push((99.9, 7.0));
        assert_eq!(
            interval_lines(&stat),
            "[ 2s ] thds: 2 eps: 2241.00 lat (ms,95%): 3.25 lat (ms,99.9%): 7.00\n\
             [ 2s ] queue length: 3 concurrency: 2\n"
        );
    }
}
