//! Remote write into real stores: every sample once, at its own time, whatever dies in between.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use waggle_agent::sink::{Sink, SinkStatus};
use waggle_agent::view::View;
use waggle_export::prometheus::{Bounds, Exposition};
use waggle_export::remote_write::{RemoteWrite, Settings};
use waggle_export::spool::Limits;
use waggle_need::{is_root, need};

use crate::fixture::{digest, hostile, server, view};
use crate::store::{self, Answer, Brand, Labels, Samples, Store, until};

const CONSTANT: [(&str, &str); 2] = [("instance", "db1"), ("job", "waggle")];
const ALL: &str = "{__name__=~\"waggle_.*\"}";

const LIMITS: Limits = Limits {
    max_bytes: 64 << 20,
    min_free_bytes: 0,
};

pub(crate) fn start(url: String, spool: &Path) -> RemoteWrite {
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let settings = Settings {
        url,
        authorization: None,
        // The other one, `instance`, is the host's name.
        labels: vec![own(CONSTANT[1])],
        interval: Duration::ZERO,
        bounds: Bounds::default(),
        spool: spool.to_owned(),
        limits: LIMITS,
    };
    RemoteWrite::start(settings).unwrap()
}

/// Views of one agent that began some minutes ago, and what a store should have of them.
pub(crate) struct Agent {
    started_us: u64,
    exposition: Exposition,
    expected: Samples,
    times_ms: Vec<i64>,
}

impl Agent {
    pub(crate) fn new(ago_s: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self {
            started_us: (now.as_secs() - ago_s) * 1_000_000,
            exposition: Exposition::new(Bounds::default()),
            expected: Samples::new(),
            times_ms: Vec::new(),
        }
    }

    /// The view of second `second`: counters grow, a digest appears, a server restarts.
    pub(crate) fn view(&mut self, second: u64) -> Arc<View> {
        let mut digests = vec![digest("0xA", 100 + second), digest("0xB", 10 * second)];
        digests[1].fingerprint = hostile();
        if second >= 5 {
            digests.push(digest("0xC", second));
        }
        let server = if second < 12 {
            server(0, "3306", digests)
        } else {
            server(1, "3306", digests.split_off(2))
        };
        let mut view = view(second, vec![server]);
        view.started_us = self.started_us;
        // Not a whole ms: time stamps are cut, not rounded.
        view.time_us = self.started_us + second * 1_000_000 + 999;
        let time_ms = i64::try_from(view.time_us / 1000).unwrap();
        let page: Answer = store::expected(&self.exposition.text(&view), &CONSTANT);
        for (labels, value) in page {
            self.expected
                .entry(labels)
                .or_default()
                .push((time_ms, value));
        }
        self.times_ms.push(time_ms);
        Arc::new(view)
    }

    pub(crate) fn until_s(&self) -> f64 {
        self.times_ms.last().map_or(0.0, |ms| *ms as f64 / 1000.0)
    }

    /// Every sample is in the store once, and nothing else but the zeros that counters begin with.
    fn assert_all_in(&self, store: &Store) {
        let mut found = store.samples(ALL, 3000, self.until_s());
        let mut zeros: Vec<(Labels, i64)> = Vec::new();
        let mut expected = self.expected.clone();
        let all = found.values_mut().chain(expected.values_mut());
        all.flatten().for_each(|one| one.1 = store.kept(one.1));
        for (labels, samples) in &mut found {
            samples.retain(|(time_ms, value)| {
                let is_own = self.times_ms.contains(time_ms);
                if !is_own {
                    assert_eq!(*value, 0.0, "{labels:?} at {time_ms}");
                    zeros.push((labels.clone(), *time_ms));
                }
                is_own
            });
        }
        let differ = |a: &Samples, b: &Samples| -> Vec<String> {
            let only = a
                .iter()
                .filter(|(labels, samples)| b.get(*labels) != Some(samples));
            only.take(2)
                .map(|one| format!("{one:?}"))
                .map(|one| one.chars().take(900).collect())
                .collect()
        };
        assert!(
            found == expected,
            "{} series, {} expected; in the store alone {:#?}; expected alone {:#?}",
            found.len(),
            expected.len(),
            differ(&found, &expected),
            differ(&expected, &found)
        );
        self.assert_zeros(&zeros);
    }

    /// A digest that appears in second 5 was 0 after second 4; a server that restarts in second 12
    /// was 0 after second 11.
    fn assert_zeros(&self, zeros: &[(Labels, i64)]) {
        let begin = i64::try_from(self.started_us / 1000).unwrap();
        let of = |name: &str, digest: &str| -> Vec<i64> {
            let is = |labels: &Labels, label: &str, value: &str| {
                labels.get(label).is_some_and(|theirs| theirs == value)
            };
            zeros
                .iter()
                .filter(|(labels, _)| is(labels, "__name__", name))
                .filter(|(labels, _)| digest.is_empty() || is(labels, "digest", digest))
                .map(|(_, time_ms)| time_ms - begin)
                .collect()
        };
        let count = "waggle_statement_duration_seconds_count";
        assert_eq!(of(count, "0xC"), [4001, 11_001]);
        assert_eq!(of(count, "0xA"), [0]);
        assert_eq!(of("waggle_statements_captured_total", ""), [0, 11_001]);
        assert_eq!(of("waggle_host_disk_reads_total", ""), [] as [i64; 0]);
        assert_eq!(of("waggle_server_threads", ""), [] as [i64; 0]);
    }
}

pub(crate) fn push(write: &mut RemoteWrite, view: &Arc<View>) {
    let before = settled(&write.status());
    write.view(view);
    // One at a time: more than the queue takes would be dropped, and counted.
    until("room in the queue", || {
        (settled(&write.status()) > before).then_some(())
    });
}

/// Samples that were handed to the spool.
fn settled(status: &SinkStatus) -> u64 {
    status.delivered + status.waiting + dropped(status)
}

fn dropped(status: &SinkStatus) -> u64 {
    status.dropped.iter().map(|(_, records)| records).sum()
}

pub(crate) fn delivered(write: &RemoteWrite) {
    until("delivery of everything", || {
        (write.status().waiting == 0).then_some(())
    });
}

/// The store dies in second 7 and is back in second 14; the agent is restarted in between.
fn every_sample_once(brand: Brand) {
    let Some(mut store) = Store::start(brand) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::new(600);
    let mut write = start(store.write_url(), folder.path());
    for second in 1..=16 {
        match second {
            7 if brand == Brand::Prometheus => store.kill(),
            // A kill makes it forget what it acknowledged some seconds before, flushed or not.
            7 => store.stop(),
            14 => store.run(),
            _ => {}
        }
        push(&mut write, &agent.view(second));
    }
    delivered(&write);
    store.flush();
    let status = write.status();
    assert_eq!((dropped(&status), status.last_error), (0, None));
    agent.assert_all_in(&store);
    write.close(Duration::ZERO);
}

#[test]
fn prometheus_has_every_sample_once() {
    every_sample_once(Brand::Prometheus);
}

#[test]
fn victoria_metrics_has_every_sample_once() {
    every_sample_once(Brand::VictoriaMetrics);
}

/// What an agent left on disk, the next one delivers before its own.
#[test]
fn a_restarted_agent_delivers_what_waits() {
    let Some(mut store) = Store::start(Brand::Prometheus) else {
        return;
    };
    store.kill();
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::new(600);
    let mut write = start(store.write_url(), folder.path());
    for second in 1..=12 {
        push(&mut write, &agent.view(second));
    }
    let waiting = write.status().waiting;
    assert!(waiting > 0 && write.status().last_error.is_some());
    // The thread may still be in a call that is refused: it lets go of the spool soon after.
    write.close(Duration::from_secs(20));
    drop(write);
    store.run();
    let mut write = start(store.write_url(), folder.path());
    delivered(&write);
    let status = write.status();
    assert_eq!((status.delivered, dropped(&status)), (waiting, 0));
    agent.assert_all_in(&store);
    write.close(Duration::ZERO);
}

/// A store that refuses for good costs the samples, counted, and nothing else.
#[test]
fn what_is_refused_is_counted_and_left() {
    let Some(store) = Store::start(Brand::Prometheus) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::new(600);
    let mut write = start(format!("http://{}/nowhere", store.address), folder.path());
    push(&mut write, &agent.view(1));
    delivered(&write);
    let status = write.status();
    assert_eq!(status.delivered, 0);
    assert!(matches!(status.dropped[..], [("rejected", records)] if records > 100));
    let error = status.last_error.unwrap();
    assert!(error.contains("404") || error.contains("405"), "{error}");
    write.close(Duration::ZERO);
}

/// A clock that is put back makes no sample out of order.
#[test]
fn a_clock_that_steps_back_costs_views_not_order() {
    let Some(store) = Store::start(Brand::Prometheus) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::new(600);
    let mut write = start(store.write_url(), folder.path());
    for second in 1..=6 {
        push(&mut write, &agent.view(second));
    }
    let mut early = View::clone(&Agent::new(900).view(7));
    early.time_ns += 1;
    push(&mut write, &Arc::new(early));
    for second in 12..=13 {
        push(&mut write, &agent.view(second));
    }
    delivered(&write);
    let status = write.status();
    assert!(matches!(status.dropped[..], [("clock_went_back", records)] if records > 100));
    let found = store.samples("waggle_statements_captured_total", 3000, agent.until_s());
    let times: Vec<i64> = found.values().next().unwrap().iter().map(|s| s.0).collect();
    // Eight of views, two zeros.
    assert!(times.is_sorted() && times.len() == 10, "{times:?}");
    write.close(Duration::ZERO);
}

/// On a file system of 300 KiB: what it cannot hold is counted, what it holds arrives.
#[test]
fn a_full_disk_costs_samples_that_are_counted() {
    if !need("root", is_root(), "mounting a small file system takes root") {
        return;
    }
    let Some(mut store) = Store::start(Brand::Prometheus) else {
        return;
    };
    store.kill();
    // A thread of its own, for its mounts are its own: they go when it ends.
    let full = std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        mount_small(folder.path());
        let mut agent = Agent::new(1200);
        let mut write = start(store.write_url(), &folder.path().join("spool"));
        let mut second = 0;
        while dropped(&write.status()) == 0 {
            second += 1;
            assert!(second < 1000, "the disk never fills");
            push(&mut write, &agent.view(second));
        }
        for _ in 0..3 {
            second += 1;
            push(&mut write, &agent.view(second));
        }
        let status = write.status();
        assert!(
            status
                .dropped
                .iter()
                .all(|(cause, _)| *cause == "disk_full")
        );
        store.run();
        delivered(&write);
        // There is room again.
        second += 1;
        let last = agent.view(second);
        push(&mut write, &last);
        delivered(&write);
        let after = write.status();
        assert_eq!(after.dropped, status.dropped);
        let found = store.samples(ALL, 3000, agent.until_s());
        let in_store: usize = found.values().map(Vec::len).sum();
        assert_eq!(in_store as u64, after.delivered);
        let stamp = store.query("waggle_view_timestamp_seconds", agent.until_s());
        let newest = last.time_us as f64 / 1e6;
        assert_eq!(stamp.into_values().collect::<Vec<_>>(), [newest]);
        write.close(Duration::ZERO);
    });
    full.join().unwrap();
}

/// Mounts 300 KiB of memory at a folder, for this thread and those it starts.
fn mount_small(folder: &Path) {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: a new mount namespace and working directory for this thread; no memory or
    // descriptor is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    let size = c"size=300k";
    mount("tmpfs", folder, "tmpfs", MountFlags::empty(), size).unwrap();
}
