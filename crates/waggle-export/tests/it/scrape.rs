//! `/metrics` as a scraper, a stranger and an enemy meet it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use waggle_agent::sink::Sink;
use waggle_agent::view::View;
use waggle_export::prometheus::{Bounds, Exposition, Listen, Prometheus, Settings};
use waggle_need::{is_root, need};

use crate::fixture::{digest, hostile, server, view};
use crate::store::{self, Brand, Store, until};

fn serve(interval: Duration) -> Prometheus {
    let settings = Settings {
        listen: Listen(store::address().parse().unwrap()),
        bounds: Bounds::default(),
        interval,
        needs_server: true,
        token: None,
    };
    Prometheus::start(settings).unwrap()
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs_f64()
}

/// Sends bytes, returns all that comes back.
fn exchange(served: &Prometheus, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // It may answer and close before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn head(served: &Prometheus, request: &str) -> String {
    let answer = exchange(served, request.as_bytes());
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(served: &Prometheus, path: &str) -> String {
    head(served, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

#[test]
fn prometheus_scrapes_what_the_view_says() {
    let Some(mut prometheus) = Store::prepare(Brand::Prometheus) else {
        return;
    };
    let mut served = serve(Duration::from_secs(600));
    prometheus.configure(&format!(
        "scrape_configs:\n- job_name: waggle\n  static_configs:\n  - targets: ['{}']\n",
        served.address()
    ));
    let mut servers = vec![
        server(0, "3306", vec![digest("0xA", 100), digest("0xB", 10)]),
        server(1, "3307", vec![digest("0xA", 7)]),
    ];
    servers[0].digests[1].fingerprint = hostile();
    servers[1].load.users[0].0 = hostile();
    let instance = served.address().to_string();
    let constant = [("job", "waggle"), ("instance", instance.as_str())];
    let mut exposition = Exposition::new(Bounds::default());
    prometheus.run();
    for second in 1..3 {
        servers[0].digests[0] = digest("0xA", 100 * second);
        let view = view(second, servers.clone());
        let expected = store::expected(&exposition.text(&view), &constant);
        served.view(&Arc::new(view));
        let stamp = format!(
            "waggle_view_timestamp_seconds == {}",
            1_700_000_000 + second
        );
        until("scrape", || {
            let found = prometheus.query(&stamp, now_s());
            (!found.is_empty()).then_some(())
        });
        let found = prometheus.query("{__name__=~\"waggle_.*\"}", now_s());
        store::assert_same(&found, &expected, &prometheus.log());
    }
    // Prometheus's own words on the page.
    let samples = prometheus.query("scrape_samples_scraped", now_s());
    let up = prometheus.query("up", now_s());
    assert_eq!((samples.len(), up.values().copied().sum::<f64>()), (1, 1.0));
    served.close(Duration::ZERO);
}

#[test]
fn ready_and_health_say_different_things() {
    let mut served = serve(Duration::from_secs(600));
    assert!(get(&served, "/health").starts_with("HTTP/1.1 200 "));
    assert!(get(&served, "/ready").contains("no view yet"));
    assert!(get(&served, "/metrics").starts_with("HTTP/1.1 503 "));
    let mut ended = server(0, "3306", vec![]);
    ended.ended = Some("the process ended".into());
    served.view(&Arc::new(view(1, vec![ended])));
    assert!(get(&served, "/ready").contains("no server is watched"));
    served.view(&Arc::new(view(2, vec![server(1, "3306", vec![])])));
    assert!(get(&served, "/ready").starts_with("HTTP/1.1 200 "));
    assert_eq!(served.status().delivered, 0);
    assert!(get(&served, "/metrics").contains("waggle_statements_captured_total{"));
    assert_eq!(served.status().delivered, 1);
    served.close(Duration::ZERO);
    assert!(TcpStream::connect(served.address()).is_err());
}

#[test]
fn a_view_older_than_three_intervals_is_not_ready() {
    let mut served = serve(Duration::ZERO);
    served.view(&Arc::new(view(2, vec![server(1, "3306", vec![])])));
    let answer = get(&served, "/ready");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("three intervals"));
}

#[test]
fn requests_that_are_none() {
    let mut served = serve(Duration::from_secs(600));
    served.view(&Arc::new(view(2, vec![server(1, "3306", vec![])])));
    assert!(get(&served, "/elsewhere").starts_with("HTTP/1.1 404 "));
    let post = "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n";
    assert!(head(&served, post).starts_with("HTTP/1.1 405 "));
    let answer = head(&served, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"));
    let mut long = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
    long.resize(100_000, b'a');
    assert!(!exchange(&served, &long).starts_with(b"HTTP/1.1 200"));
    let mut seed = 3u64;
    for _ in 0..20 {
        let noise: Vec<u8> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            })
            .chain(*b"\r\n\r\n")
            .collect();
        assert!(!exchange(&served, &noise).starts_with(b"HTTP/1.1 200"));
    }
    assert!(get(&served, "/metrics").starts_with("HTTP/1.1 200 "));
}

/// Twice as many silent clients as there are places: they lose their places, a scraper gets one.
#[test]
fn silent_clients_are_sent_away() {
    let mut served = serve(Duration::from_secs(600));
    served.view(&Arc::new(view(2, vec![server(1, "3306", vec![])])));
    let mut silent: Vec<TcpStream> = (0..32)
        .map(|_| TcpStream::connect(served.address()).unwrap())
        .collect();
    for stream in &mut silent {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHos");
    }
    until("answer while others are silent", || {
        get(&served, "/metrics")
            .starts_with("HTTP/1.1 200 ")
            .then_some(())
    });
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut rest = Vec::new();
        let closed = stream.read_to_end(&mut rest);
        let reset = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(closed.as_ref().is_ok() || closed.as_ref().is_err_and(reset));
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

#[test]
fn an_address_that_is_taken_is_an_error_that_names_it() {
    let served = serve(Duration::from_secs(1));
    let settings = Settings {
        listen: Listen(served.address()),
        bounds: Bounds::default(),
        interval: Duration::from_secs(1),
        needs_server: true,
        token: None,
    };
    let error = Prometheus::start(settings).unwrap_err().to_string();
    assert!(error.contains(&served.address().to_string()), "{error}");
}

#[test]
fn a_page_is_made_once_a_view() {
    let mut served = serve(Duration::from_secs(600));
    let body = |answer: String| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    served.view(&Arc::new(view(2, vec![server(1, "3306", vec![])])));
    let first = body(get(&served, "/metrics"));
    // Other numbers under the same time: who asks again is given what was made.
    let other = view(2, vec![server(1, "3306", vec![digest("0xA", 5)])]);
    served.view(&Arc::new(other.clone()));
    assert!(first == body(get(&served, "/metrics")));
    let later = View {
        time_ns: other.time_ns + 1,
        ..other
    };
    served.view(&Arc::new(later));
    assert!(first != body(get(&served, "/metrics")));
    assert_eq!(served.status().delivered, 3);
}

/// To a client elsewhere a page goes packed, if the client takes that; through loopback it goes
/// as it is.
#[test]
fn a_page_goes_packed_to_who_is_elsewhere() {
    if !need(
        "root",
        is_root(),
        "a network namespace of its own takes root",
    ) {
        return;
    }
    // A thread of its own, for its network is its own: it goes when the thread ends.
    let elsewhere = std::thread::spawn(|| {
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        // SAFETY: a new network namespace for this thread; no memory or descriptor is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        for arguments in ["link set lo up", "address add 192.0.2.1/32 dev lo"] {
            let ip = Command::new("ip")
                .args(arguments.split(' '))
                .status()
                .unwrap();
            assert!(ip.success());
        }
        let settings = Settings {
            listen: Listen("0.0.0.0:9924".parse().unwrap()),
            bounds: Bounds::default(),
            interval: Duration::from_secs(600),
            needs_server: true,
            token: None,
        };
        let mut served = Prometheus::start(settings).unwrap();
        served.view(&Arc::new(view(
            1,
            vec![server(0, "3306", vec![digest("0xA", 9)])],
        )));
        let ask = |address: &str, coding: &str| {
            let mut stream = TcpStream::connect((address, 9924)).unwrap();
            let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{coding}\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
            let head = String::from_utf8_lossy(&answer[..end]).into_owned();
            (head, answer.split_off(end))
        };
        let (head, plain) = ask("192.0.2.1", "");
        assert!(!head.contains("content-encoding"), "{head}");
        let (head, near) = ask("127.0.0.1", "Accept-Encoding: gzip\r\n");
        assert!(!head.contains("content-encoding") && near == plain);
        let (head, packed) = ask("192.0.2.1", "Accept-Encoding: br, gzip\r\n");
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed[..]);
        reader.read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == plain && packed.len() * 4 < plain.len());
        served.close(Duration::ZERO);
    });
    elsewhere.join().unwrap();
}
