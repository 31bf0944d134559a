//! What an OTLP receiver gets: values, kinds, units, temporality, and what its refusals do.

mod logs;
mod metrics;
mod receiver;
mod refusals;

use std::time::Duration;

use waggle_export::otlp::proto::{
    AnyValue, CUMULATIVE, Data, KeyValue, Metric, MetricsRequest, Number, Value,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn shown(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Truth(truth)) => truth.to_string(),
        Some(Value::Whole(whole)) => whole.to_string(),
        Some(Value::Real(real)) => real.to_string(),
        Some(Value::List(list)) => {
            let each = list.values.iter().map(|value| shown(&Some(value.clone())));
            each.collect::<Vec<_>>().join("|")
        }
        None => "nothing".to_owned(),
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == key);
    let value = found.next().map(|attribute| shown(&attribute.value));
    assert!(found.next().is_none(), "{key} is there twice");
    value
}

fn metric(request: &MetricsRequest, name: &str) -> Metric {
    let metrics = &request.resources[0].scopes[0].metrics;
    let found = metrics.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).clone()
}

/// Value and attribute `key` of each point of a cumulative, growing sum.
fn sums(request: &MetricsRequest, name: &str, unit: &str, key: &str) -> Vec<(String, f64)> {
    let metric = metric(request, name);
    assert_eq!(metric.unit, unit, "{name}");
    let Some(Data::Sum(sum)) = metric.data else {
        panic!("{name} is no sum")
    };
    assert_eq!(
        (sum.temporality, sum.is_monotonic),
        (CUMULATIVE, true),
        "{name}"
    );
    let value = |value: Option<Number>| match value {
        Some(Number::Real(real)) => real,
        Some(Number::Whole(whole)) => whole as f64,
        None => panic!("{name} has no value"),
    };
    let points = sum.points.iter();
    points
        .map(|p| {
            (
                attribute(&p.attributes, key).unwrap_or_default(),
                value(p.value),
            )
        })
        .collect()
}
