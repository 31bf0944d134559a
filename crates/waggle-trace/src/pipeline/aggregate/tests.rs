use proptest::prelude::*;

use super::*;
use crate::pipeline::Part;

fn wait(start_ns: u64, parts: &[u64]) -> Wait {
    let part = |ns: &u64| Part {
        ns: *ns,
        doing: Doing::unknown(*ns),
        ..Part::default()
    };
    Wait {
        waiter: Thread {
            tid: 1 + start_ns as u32 % 3,
            began_ns: 1,
        },
        key: 0,
        second: 0,
        start_ns,
        end_ns: start_ns + parts.iter().sum::<u64>(),
        stack: None,
        spurious: 0,
        parts: parts.iter().map(part).collect(),
    }
}

#[test]
fn quantiles_of_a_group_are_those_of_its_waits() {
    let mut group = Group::new(1);
    (1..=100).for_each(|ms| group.add(&wait(0, &[ms * 1_000_000])));
    let mut both = Group::new(1);
    both.merge(&group);
    for (quantile, ns) in [(0.5, 50_000_000), (0.95, 95_000_000), (1.0, 100_000_000)] {
        let found = both.quantile_ns(quantile);
        assert!(found.abs_diff(ns) <= ns / 50, "{quantile}: {found}");
    }
}

#[test]
fn threads_beyond_the_limit_are_one_group() {
    let settings = AggregateSettings {
        slowest: 1,
        groups: 2,
    };
    let mut all = Aggregate::new(1, settings);
    for start in 0..9 {
        all.add(&wait(start, &[1, 2]), |_| RoleId(0));
    }
    assert_eq!(all.by_thread.len(), 3);
    assert_eq!(all.by_thread[&None].waits, 3);
}

proptest! {
    #[test]
    fn a_bucket_holds_its_values(ns in 0_u64..u64::MAX / 2) {
        let low = bucket_low(bucket(ns));
        prop_assert!(low <= ns && ns - low <= ns >> STEPS_BITS, "{low} {ns}");
        prop_assert_eq!(bucket(low), bucket(ns));
    }

    #[test]
    fn every_sum_adds_up_and_the_slowest_are_the_slowest(
        waits in prop::collection::vec((0_u64..5_000_000, 0_u64..5_000, 0_u64..900), 1..300),
        slowest in 0_usize..8,
    ) {
        let mut all = Aggregate::new(2, AggregateSettings { slowest, groups: 2 });
        let waits: Vec<Wait> = waits
            .iter()
            .enumerate()
            .map(|(i, (a, b, c))| wait(i as u64, &[*a, *b, *c]))
            .collect();
        waits.iter().for_each(|wait| all.add(wait, |thread| RoleId(thread.tid as u16)));
        let total: u64 = waits.iter().map(Wait::ns).sum();
        prop_assert_eq!(all.sum_ns, total);
        prop_assert_eq!(all.stages.iter().map(|stage| stage.sum_ns).sum::<u64>(), total);
        for groups in [
            all.by_role.values().collect::<Vec<_>>(),
            all.by_thread.values().collect(),
            all.by_stack.values().collect(),
        ] {
            let sum: u64 = groups.iter().map(|group| group.sum_ns).sum();
            let parts: u64 = groups.iter().flat_map(|group| &group.parts_ns).sum();
            let count: u64 = groups.iter().map(|group| group.waits).sum();
            prop_assert_eq!((sum, parts, count), (total, total, waits.len() as u64));
        }
        let mut times: Vec<u64> = waits.iter().map(Wait::ns).collect();
        times.sort_unstable_by_key(|ns| Reverse(*ns));
        let kept: Vec<u64> = all.slowest().iter().map(|wait| wait.ns()).collect();
        prop_assert_eq!(&kept[..], &times[..slowest.min(times.len())]);
        let slice = all.slowest_share(0.01);
        prop_assert!(slice.waits >= (waits.len() as u64).div_ceil(100));
        prop_assert_eq!(slice.sum_ns, times[..slice.waits as usize].iter().sum::<u64>());
        prop_assert_eq!(slice.sum_ns, slice.parts_ns.iter().sum::<u64>());
        prop_assert!(times[..slice.waits as usize].iter().all(|ns| *ns >= slice.at_least_ns));
    }
}
