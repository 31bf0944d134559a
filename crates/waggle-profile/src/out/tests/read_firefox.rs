//! What does the Firefox Profiler find? All that it takes for granted is checked.

use serde_json::Value;

use super::made::example;
use crate::model::Profile;
use crate::out::firefox;

pub(super) fn firefox_of(profile: &Profile) -> Value {
    serde_json::from_slice(&firefox::json(profile)).expect("JSON")
}

/// What the Firefox Profiler takes for granted.
pub(super) fn check_firefox(document: &Value) {
    let shared = &document["shared"];
    let length = |table: &Value| table["length"].as_u64().expect("a length") as usize;
    for table in [
        "frameTable",
        "funcTable",
        "stackTable",
        "resourceTable",
        "sources",
    ] {
        let table = &shared[table];
        for (name, column) in table.as_object().expect("a table") {
            if let Value::Array(column) = column {
                assert_eq!(column.len(), length(table), "{name}");
            }
        }
    }
    let strings = shared["stringArray"].as_array().expect("strings").len();
    let within = |column: &Value, below: usize| {
        for value in column.as_array().expect("a column") {
            if let Some(index) = value.as_i64() {
                assert!(index == -1 || (0..below as i64).contains(&index), "{index}");
            }
        }
    };
    within(&shared["funcTable"]["name"], strings);
    within(&shared["funcTable"]["source"], length(&shared["sources"]));
    within(
        &shared["funcTable"]["resource"],
        length(&shared["resourceTable"]),
    );
    within(&shared["resourceTable"]["name"], strings);
    within(&shared["sources"]["filename"], strings);
    within(&shared["frameTable"]["func"], length(&shared["funcTable"]));
    let categories = document["meta"]["categories"]
        .as_array()
        .expect("categories");
    within(&shared["frameTable"]["category"], categories.len());
    within(
        &shared["stackTable"]["frame"],
        length(&shared["frameTable"]),
    );
    let prefixes = shared["stackTable"]["prefix"].as_array().expect("prefixes");
    for (at, prefix) in prefixes.iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| (prefix as usize) < at));
    }
    for thread in document["threads"].as_array().expect("threads") {
        let samples = &thread["samples"];
        within(&samples["stack"], prefixes.len());
        let times = samples["time"].as_array().expect("times");
        let times: Vec<f64> = times.iter().filter_map(Value::as_f64).collect();
        assert_eq!(times.len(), length(samples));
        assert!(times.is_sorted());
        assert!(thread["pid"].is_string() && thread["isMainThread"].is_boolean());
    }
}

#[test]
fn the_firefox_profiler_gets_threads_with_their_times() {
    let document = firefox_of(&example());
    check_firefox(&document);
    assert_eq!(
        document["meta"]["preprocessedProfileVersion"],
        firefox::VERSION
    );
    let threads = document["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 1);
    assert_eq!(threads[0]["name"], "connection (8)");
    assert_eq!(threads[0]["samples"]["weight"][0], 3.0);
    assert_eq!(document["shared"]["frameTable"]["inlineDepth"][2], 1);
    let without = Profile {
        timeline: Vec::new(),
        ..example()
    };
    let document = firefox_of(&without);
    check_firefox(&document);
    let names: Vec<&Value> = document["threads"]
        .as_array()
        .expect("threads")
        .iter()
        .map(|thread| &thread["name"])
        .collect();
    assert_eq!(names, ["log writer", "user thread"]);
}
