//! What does a receiver's refusal do: is it sent again, or counted?

use std::time::Duration;

use prost::Message;
use waggle_agent::sink::Sink;
use waggle_export::otlp::Otlp;
use waggle_export::otlp::proto::{Data, PartialSuccess, Response, Status};

use super::PATIENCE;
use super::receiver::Receiver;
use crate::views::{Simulated, view, wait_until};

fn one_view(receiver: &Receiver) -> Otlp {
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mysql");
    a.work(50, 3);
    sink.view(&view(0, &[&a]));
    sink
}

fn delivered(sink: &Otlp) -> bool {
    sink.status().waiting == 0 && sink.status().delivered > 0
}

#[test]
fn what_may_be_retried_is_retried_and_not_before_its_time() {
    let answers = vec![
        (503, "", b"busy".to_vec()),
        (429, "Retry-After: 1\r\n", Vec::new()),
        (502, "", Vec::new()),
        (504, "", Vec::new()),
    ];
    let receiver = Receiver::start(answers);
    let mut sink = one_view(&receiver);
    wait_until("it is delivered", || delivered(&sink));
    sink.close(PATIENCE);
    let got = receiver.got();
    assert_eq!(got.len(), 5);
    assert!(got.iter().all(|request| request.body == got[0].body));
    assert!(
        got[2].at - got[1].at >= Duration::from_secs(1),
        "the receiver asked for 1 s"
    );
    assert_eq!(
        (sink.status().dropped, sink.status().last_error),
        (Vec::new(), None)
    );
}

#[test]
fn other_refusals_are_final_and_counted() {
    for status in [400, 401, 404, 413, 500, 501] {
        let why = Status {
            message: "no such tenant".into(),
        };
        let receiver = Receiver::start(vec![(status, "", why.encode_to_vec())]);
        let mut sink = one_view(&receiver);
        wait_until("it is counted", || !sink.status().dropped.is_empty());
        let found = sink.status();
        assert_eq!((found.delivered, found.waiting), (0, 0));
        assert_eq!(found.dropped[0].0, "rejected");
        assert!(found.dropped[0].1 > 10, "records, not requests");
        let error = found.last_error.expect("an error");
        assert!(
            error.contains("no such tenant") && error.contains(&status.to_string()),
            "{error}"
        );
        assert!(!format!("{error}{sink:?}").contains("planted"));
        sink.close(PATIENCE);
        assert_eq!(receiver.got().len(), 1);
    }
}

#[test]
fn a_partial_success_is_counted_and_not_repeated() {
    let partial = Response {
        partial_success: Some(PartialSuccess {
            rejected: 4,
            message: "too many series".into(),
        }),
    };
    let receiver = Receiver::start(vec![(200, "", partial.encode_to_vec())]);
    let mut sink = one_view(&receiver);
    wait_until("it is delivered", || delivered(&sink));
    sink.close(PATIENCE);
    let status = sink.status();
    assert_eq!(status.dropped, [("partly_rejected", 4)]);
    let request = &receiver.metrics()[0];
    let points: usize = request.resources[0].scopes[0]
        .metrics
        .iter()
        .map(|metric| match &metric.data {
            Some(Data::Sum(sum)) => sum.points.len(),
            Some(Data::Gauge(gauge)) => gauge.points.len(),
            Some(Data::Histogram(histogram)) => histogram.points.len(),
            Some(Data::Exponential(histogram)) => histogram.points.len(),
            None => 0,
        })
        .sum();
    assert_eq!(status.delivered + 4, points as u64);
    assert_eq!(receiver.got().len(), 1);
}
