//! Does any name break a format? Names of every kind, and those that formats have a meaning for.

use proptest::prelude::*;

use super::made::{Made, frame, who};
use super::read_firefox::{check_firefox, firefox_of};
use super::read_pprof::pprof_of;
use crate::model::{Frame, Kind, Profile};
use crate::out::{Root, View, diff, flame, folded};

/// Names as no compiler makes them.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z;<>&\"' \n\t\r0-9#_\\[\\]\u{0}\u{202e}\u{fffd}\u{ffff}]{0,40}",
        Just("f 42".to_owned()),
        Just("# f".to_owned()),
        Just("</script><img src=x onerror=alert(1)>".to_owned()),
        Just(String::from_utf8_lossy(b"a\xff\xfe;b").into_owned()),
        "[a-z]{1,3}".prop_map(|part| format!("std::vector<{}>", part.repeat(4_000))),
    ]
}

fn hostile_profile() -> impl Strategy<Value = Profile> {
    let stack = proptest::collection::vec((hostile(), any::<bool>(), any::<bool>()), 0..6);
    let kinds = prop_oneof![Just(Kind::OnCpu), Just(Kind::OffCpu), Just(Kind::Runnable)];
    let one = (
        hostile(),
        proptest::option::of(hostile()),
        kinds,
        stack,
        1u64..1 << 40,
    );
    proptest::collection::vec(one, 1..6).prop_map(|all| {
        let mut made = Made::new();
        for (role, digest, kind, stack, ns) in all {
            let calls = stack.iter().map(|(name, inlined, kernel)| Frame {
                inlined: *inlined,
                kernel: *kernel,
                file: kernel.then(|| name.as_str().into()),
                line: inlined.then_some(7),
                module: name.as_str().into(),
                ..frame(name)
            });
            made.add(who(&role, digest.as_deref()), kind, calls.collect(), ns);
        }
        made.0.profile.threads.insert(8, "<t>;\n 9".to_owned());
        made.profile()
    })
}

/// Whether it is well-formed as far as a drawing's names could break it.
fn check_xml(svg: &[u8]) {
    let text = std::str::from_utf8(svg).expect("UTF-8");
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    assert!(
        text.chars()
            .all(|c| allowed(c) && !matches!(c, '\u{fffe}' | '\u{ffff}'))
    );
    // The drawing's own script stands in CDATA; what follows it is made of elements only.
    let body = text.rsplit_once("]]>").map_or(text, |(_, body)| body);
    let mut open = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, content) = tag.split_once('>').expect("an element ends");
        assert!(!content.contains('>'), "{content}");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) if open.is_empty() => {
                assert!(["script", "style"].contains(&name) || name == "svg")
            }
            (Some(name), _) => assert_eq!(open.pop().as_deref(), Some(name)),
            (None, true) => {}
            (None, false) => open.push(tag.split_whitespace().next().unwrap_or("").to_owned()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_breaks_folded_lines(profile in hostile_profile()) {
        for root in [Root::All, Root::Role, Root::Digest, Root::Process, Root::Thread] {
            let view = View::default().by(root);
            let text = folded::text(&profile, &view);
            let mut sum = 0;
            for line in text.lines() {
                let (stack, weight) = line.rsplit_once(' ').expect("a weight");
                sum += weight.parse::<u64>().expect("a number");
                let last = stack.rsplit_once(' ').map(|(_, last)| last);
                prop_assert!(last.is_none_or(|last| last.parse::<f64>().is_err()), "{}", line);
                prop_assert!(!stack.is_empty() && stack.split(';').all(|call| !call.is_empty()));
                prop_assert!(!line.starts_with("# "));
            }
            prop_assert_eq!(sum, profile.entries.iter().map(|entry| entry.ns).sum::<u64>());
        }
    }

    #[test]
    fn no_name_breaks_a_drawing(profile in hostile_profile()) {
        let view = View::default().by(Root::Digest);
        check_xml(&flame::svg(&profile, &view, "a <title> & \u{1b}[31m").expect("a graph"));
        check_xml(&diff::svg(&profile, &profile, &view, "x").expect("a graph"));
    }

    #[test]
    fn no_name_breaks_pprof(profile in hostile_profile()) {
        let read = pprof_of(&profile);
        let strings = read.string_table.len() as i64;
        prop_assert_eq!(read.string_table[0].as_str(), "");
        prop_assert_eq!(read.sample.len(), profile.entries.len());
        let total: i64 = read.sample.iter().flat_map(|sample| &sample.value[1..]).sum();
        prop_assert_eq!(total as u64, profile.entries.iter().map(|entry| entry.ns).sum::<u64>());
        for sample in &read.sample {
            for id in &sample.location_id {
                prop_assert!((1..=read.location.len() as u64).contains(id));
            }
            for label in &sample.label {
                prop_assert!((0..strings).contains(&label.key) && label.str < strings);
            }
        }
        for location in &read.location {
            prop_assert!((1..=read.mapping.len() as u64).contains(&location.mapping_id));
            for line in &location.line {
                prop_assert!((1..=read.function.len() as u64).contains(&line.function_id));
            }
        }
    }

    #[test]
    fn no_name_breaks_the_firefox_profiler(profile in hostile_profile()) {
        check_firefox(&firefox_of(&profile));
        let without = Profile { timeline: Vec::new(), ..profile };
        check_firefox(&firefox_of(&without));
    }
}
