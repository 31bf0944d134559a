//! Which flags make which plan, and which are refused with which words.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn plan(line: &str) -> anyhow::Result<Plan> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    Plan::from_args(Cli::try_parse_from(words)?.args)
}

fn refusal(line: &str) -> String {
    format!("{:#}", plan(line).unwrap_err())
}

const DSN: &str = "--dsn mysql://root@127.0.0.1:3306/";

#[test]
fn defaults_run_against_the_database_of_sysbench() {
    let plan = plan(&format!("oltp_read_only {DSN}")).unwrap();
    assert_eq!(plan.action, Action::Run);
    assert_eq!(plan.time, Some(Duration::from_secs(10)));
    let Target::Named(dsn) = &plan.target else {
        panic!("{:?}", plan.target)
    };
    assert_eq!(dsn.database.as_deref(), Some("sbtest"));
    assert!(plan.seed > 0);
}

#[test]
fn a_sandbox_is_prepared_and_run() {
    let plan = plan("oltp_read_only --sandbox mariadb --tables 2 --rand-seed 7").unwrap();
    assert_eq!(plan.action, Action::All);
    assert_eq!(plan.seed, 7);
    assert_eq!(plan.options["tables"], "2");
    let refused = refusal("oltp_read_only run --sandbox mariadb");
    assert!(
        refused.contains("takes the command all (or none), not run"),
        "{refused}"
    );
}

#[test]
fn workload_options_come_in_three_ways_and_the_last_wins() {
    let line = format!(
        "oltp_read_only {DSN} --table-size 5 -o range-size=7 -o skip_trx=on \
         -- --table-size=9 --secondary"
    );
    let options = plan(&line).unwrap().options;
    let wanted = [
        ("range_size", "7"),
        ("secondary", "on"),
        ("skip_trx", "on"),
        ("table_size", "9"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(options, wanted.into());
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let sandbox = "--sandbox mariadb";
    let cases = [
        ("oltp_all --sandbox mariadb", "no workload 'oltp_all'"),
        (
            &format!("oltp_read_only {sandbox} -o tabels=2"),
            "has no option 'tabels'",
        ),
        (
            &format!("oltp_read_only {sandbox} -o tables=two"),
            "wants a number, not 'two'",
        ),
        (
            &format!("oltp_read_only {sandbox} -o tables"),
            "'tables' is no NAME=VALUE",
        ),
        (
            &format!("oltp_read_only {sandbox} --threads 0"),
            "0 is not in 1..=10000",
        ),
        ("oltp_read_only --dsn postgres://x", "--dsn names no server"),
        (
            "oltp_read_only --sandbox oracle",
            "it is `mysql` or `mariadb`",
        ),
        (
            &format!("oltp_read_only {DSN} {sandbox}"),
            "cannot be used with",
        ),
        (
            &format!("oltp_read_only {sandbox} --overflow drop:3"),
            "--overflow is for an open loop",
        ),
        (
            &format!("oltp_read_only {sandbox} --rate 0"),
            "events a second above 0",
        ),
        (
            &format!("oltp_read_only {sandbox} --rate 5 --rate-steps 5:3s"),
            "cannot be used with",
        ),
        (
            &format!("oltp_read_only {sandbox} --rate-search p99<5ms --events 3"),
            "cannot be used with",
        ),
        (
            &format!("oltp_read_only {sandbox} --rate 5 --at-end drain --warmup 2"),
            "exclude each other",
        ),
        (
            &format!("oltp_read_only {sandbox} --report-interval 0.01"),
            "0.1 s or more",
        ),
        (
            &format!("oltp_read_only {sandbox} --report-interval 0 --csv x.csv"),
            "--report-interval 0 has none",
        ),
        (
            &format!("oltp_read_only {sandbox} --percentiles 50,101"),
            "'101' is no percentile",
        ),
    ];
    for (line, wanted) in cases {
        let refused = refusal(line);
        assert!(refused.contains(wanted), "{line}: {refused}");
    }
}

#[test]
fn an_open_loop_offers_what_was_asked_for() {
    let line = format!("oltp_read_only {DSN} --rate-steps 10:2s,0..50:3s --arrivals uniform");
    let stepped = plan(&line).unwrap();
    assert_eq!(stepped.time, Some(Duration::from_secs(5)));
    let nowhere: Dsn = "mysql://root@localhost/".parse().unwrap();
    let arrivals = stepped.load_spec(nowhere.clone()).arrivals.unwrap();
    assert_eq!(arrivals.spacing, Spacing::Uniform);
    assert_eq!(arrivals.stages.len(), 2);

    let line = format!("oltp_read_only {DSN} --rate 40.5 --time 2.5 --at-end drain");
    let drained = plan(&line).unwrap().load_spec(nowhere).arrivals.unwrap();
    let stage = |duration_s, rate| Stage {
        duration_s,
        from: rate,
        to: rate,
    };
    assert_eq!(drained.stages, [stage(2.5, 40.5), stage(0.0, 0.0)]);
}

#[test]
fn a_number_of_events_has_no_limit_of_time() {
    let line = format!("oltp_read_only {DSN} --events 5 --percentiles 99.9,50,50");
    let plan = plan(&line).unwrap();
    assert_eq!((plan.time, plan.events), (None, Some(5)));
    assert_eq!(plan.percentiles, [50.0, 99.9]);
}
