//! The known cost that the lab is calibrated with, on a real server: the probe counts the
//! statements, and the kernel counts the same runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use super::stage::{connect, flavours, run, server, settle, turn, waggle};

const STATEMENTS: u64 = 500;

/// `waggle watch --control` of one server.
struct Control {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Control {
    fn start(pid: u32) -> Self {
        let pid = pid.to_string();
        let mut child = waggle(&["watch", "--control", "--pid", &pid])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let orders = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            orders,
            answers,
        }
    }

    fn order(&mut self, order: &str) -> Value {
        writeln!(self.orders, "{order}").expect("it reads orders");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{order}: {error}: {line:?}"))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = writeln!(self.orders, "quit");
        let _ = self.child.wait();
    }
}

#[test]
fn the_kernel_counts_the_runs_that_the_probe_counts() {
    let _turn = turn();
    for flavour in flavours() {
        let server = server(flavour);
        let mut connection = connect(&server);
        let mut control = Control::start(server.pid());
        let mut select = || {
            let statements: Vec<&str> = (0..STATEMENTS).map(|_| "SELECT 1").collect();
            run(&mut connection, &statements);
            // The ping is no statement, but ends like one.
            settle(&mut connection);
        };
        for order in ["runs on", "burn 2000"] {
            let answer = control.order(order);
            assert_eq!(answer["ok"], true, "{flavour}: {order}: {answer}");
        }
        select();
        let seen = control.order("detach");
        select();
        let later = control.order("runs off");
        let burn = &seen["burn"];
        let hits = burn["hits"].as_u64().expect("a count");
        assert!(
            (STATEMENTS..=STATEMENTS + 1).contains(&hits),
            "{flavour}: {hits} hits of {STATEMENTS} statements and a ping"
        );
        assert_eq!(burn["kernel"]["runs"], hits, "{flavour}: {seen}");
        assert_eq!(burn["unfinished"], 0, "{flavour}: {seen}");
        let burned = burn["burned_ns"].as_u64().expect("a sum");
        assert!(burned >= hits * 2_000, "{flavour}: {seen}");
        // Detached, it burns nothing any more.
        assert_eq!(later["burn"]["hits"], hits, "{flavour}: {later}");
        let refused = control.order("burn 100001");
        assert_eq!(refused["ok"], false, "{flavour}: {refused}");
    }
}
