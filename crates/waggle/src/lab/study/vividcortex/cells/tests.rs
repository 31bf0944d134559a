use super::*;

fn plan(agent: Agent) -> CellPlan {
    CellPlan {
        flavour: Flavour::MariaDb,
        agent,
        scale: Scale::quick(8),
        cpus: 1,
        io_bytes_per_s: 8 << 20,
        seed: 1,
    }
}

#[test]
fn arms_are_the_four_combinations_and_neither_again() {
    for (agent, name) in [(Agent::Packets, "watch-packets"), (Agent::Uprobe, "watch")] {
        let cell = plan(agent)
            .cell(Condition::Cpu, Mode::Throughput)
            .expect("a cell");
        let names: Vec<&str> = cell.arms.iter().map(|arm| arm.name.as_str()).collect();
        let both = format!("perfschema+{name}");
        assert_eq!(names, ["none-again", "perfschema", name, &both]);
        assert!(cell.arms.iter().all(|arm| cell.is_in_pairs(arm)));
        let [same, schema, watch, both] = &cell.arms[..] else {
            panic!("{names:?}");
        };
        assert!(same.aa && same.observer.is_none());
        assert!(schema.observer.is_none() && !schema.settings.is_empty());
        assert!(watch.settings.is_empty());
        assert_eq!(
            (&both.settings, &both.observer),
            (&schema.settings, &watch.observer)
        );
        // What is on the loopback device can be seen in packets; the other agent has the same.
        assert!(cell.over_tcp);
    }
}

#[test]
fn few_processors_share_a_server_with_many_and_the_slow_disk_has_its_own() {
    let plan = plan(Agent::Packets);
    let cell = |condition, mode| plan.cell(condition, mode).expect("a cell");
    let cpu = cell(Condition::Cpu, Mode::Throughput);
    let few = cell(Condition::FewCpus, Mode::Throughput);
    assert_eq!((&cpu.settings, &cpu.data), (&few.settings, &few.data));
    assert_eq!((cpu.limits.cpus, few.limits.cpus), (None, Some(1)));
    let io = cell(Condition::Io, Mode::Throughput);
    assert_ne!(io.settings, cpu.settings);
    let data = plan.scale.data_bytes();
    let pool = plan.pool_bytes(Condition::Io);
    assert!(
        pool >= data / 10 && pool < data / 10 + (1 << 20),
        "{pool} of {data}"
    );
    assert!(plan.pool_bytes(Condition::Cpu) > 2 * data);
}

#[test]
fn a_rate_is_judged_by_its_latency_and_a_maximum_by_its_throughput() {
    let plan = plan(Agent::Uprobe);
    let most = plan.cell(Condition::Io, Mode::Throughput).expect("a cell");
    assert_eq!((most.rate, most.primary), (None, Outcome::Qps));
    let rate = plan.cell(Condition::Io, Mode::Rate(75.0)).expect("a cell");
    assert_eq!(
        (rate.rate, rate.primary),
        (Some(75.0), Outcome::LatencyP99Us)
    );
    assert_ne!(most.id, rate.id);
}
