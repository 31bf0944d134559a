//! Spaces that can be tried, and what is refused.

use super::*;

fn list(name: &str, values: &[&str]) -> Variable {
    Variable {
        name: name.to_owned(),
        values: Values::List(values.iter().map(|v| (*v).to_owned()).collect()),
    }
}

fn range(from: f64, to: f64, steps: usize, scale: Scale) -> Result<Vec<String>, SpaceError> {
    let values = Values::Range {
        from,
        to,
        steps,
        scale,
    };
    let name = "x".to_owned();
    Variable { name, values }.list()
}

fn shown(space: &Space) -> Vec<String> {
    let all = space.configurations().expect("a sound space");
    let words = |config: Configuration| {
        let pairs = config.into_iter().map(|(name, value)| name + "=" + &value);
        pairs.collect::<Vec<_>>().join(" ")
    };
    all.into_iter().map(words).collect()
}

#[test]
fn ranges_hold_both_ends() {
    assert_eq!(
        range(1.0, 64.0, 7, Scale::Log).unwrap().join(" "),
        "1 2 4 8 16 32 64"
    );
    assert_eq!(range(0.0, 10.0, 3, Scale::Lin).unwrap().join(" "), "0 5 10");
    // Numbers that round to the same are one.
    assert_eq!(range(1.0, 3.0, 9, Scale::Lin).unwrap().join(" "), "1 2 3");
    for (from, to, steps, scale) in [
        (0.0, 8.0, 3, Scale::Log),
        (2.0, 1.0, 3, Scale::Lin),
        (1.0, f64::NAN, 3, Scale::Lin),
        (1.0, 2.0, 1, Scale::Lin),
        (1.0, 1e30, 3, Scale::Lin),
        (1.0, 1e6, 1000, Scale::Lin),
    ] {
        assert!(
            range(from, to, steps, scale).is_err(),
            "{from} {to} {steps}"
        );
    }
}

#[test]
fn constraints_are_comparisons_of_amounts_or_words() {
    let space = |constraints: &[&str]| Space {
        variables: vec![list("a", &["1K", "4096"]), list("b-c", &["2048", "OFF"])],
        constraints: constraints
            .iter()
            .map(|text| Constraint::parse(text).expect(text))
            .collect(),
    };
    assert_eq!(shown(&space(&[])).len(), 4);
    assert_eq!(shown(&space(&["a <= b_c"])), ["a=1K b-c=2048"]);
    assert_eq!(shown(&space(&["a * 2 == b_c"])), ["a=1K b-c=2048"]);
    assert_eq!(
        shown(&space(&["b-c != \"off\"", "a > 1K"])),
        ["a=4096 b-c=2048"]
    );
    assert_eq!(space(&["a < 1"]).configurations(), Err(SpaceError::Nothing));
    let foreign = space(&["a < d"]).configurations();
    assert!(
        matches!(foreign, Err(SpaceError::Constraint { .. })),
        "{foreign:?}"
    );
    for text in [
        "",
        "a",
        "a < ",
        "a = b",
        "a ! b",
        "a * b < 1",
        "a < \"x",
        "1 < 2 < 3",
    ] {
        assert!(Constraint::parse(text).is_err(), "{text}");
    }
}

#[test]
fn what_cannot_be_tried_is_refused() {
    assert_eq!(Space::default().configurations(), Err(SpaceError::Empty));
    let of = |variables: Vec<Variable>| {
        let constraints = Vec::new();
        Space {
            variables,
            constraints,
        }
        .configurations()
    };
    assert!(matches!(
        of(vec![list("a b", &["1"])]),
        Err(SpaceError::Name { .. })
    ));
    assert!(matches!(
        of(vec![list("a", &[])]),
        Err(SpaceError::Values { .. })
    ));
    let twice = vec![list("a_b", &["1"]), list("A-B", &["2"])];
    assert!(matches!(of(twice), Err(SpaceError::Twice { .. })));
    let many: Vec<String> = (0..60).map(|i| i.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let wide = ["a", "b", "c", "d", "e"]
        .map(|name| list(name, &many))
        .to_vec();
    assert_eq!(of(wide), Err(SpaceError::TooMany));
}
