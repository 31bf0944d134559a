//! What do a server's clients and it say to each other on the network?
//!
//! ```text
//! ring (kernel) ─► frame ─► flows ─► stream ─► session ─► answer ─► Observation
//!   filter          IP, TCP  which     in order   packets    one per command
//! ```
//!
//! The agent's third eye after the probe and the server's own tables: it needs nothing of the
//! server, sees latency as it is on the wire, and is blind to TLS and to Unix sockets, which it
//! says. No thread is needed: the ring holds what comes between two looks. Invariants: a statement
//! is yielded only if its command and its whole answer were seen; all others that can be known of
//! are counted by cause; memory is bounded whatever comes.

mod answer;
mod client;
mod command;
mod filter;
mod flows;
mod frame;
mod framer;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hidden;
mod losses;
mod outcome;
mod parts;
mod place;
mod resync;
mod ring;
mod session;
mod step;
mod stream;
mod texts;
mod tls;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::time::{ClockId, clock_gettime};

use super::{Abilities, Observation, Source, SourceKind};
use flows::Flows;
use hidden::Dropped;
use place::Place;
use ring::{Frame, Ring, RingPlan};

pub use place::{Listener, listeners};

/// Memory of the ring unless told otherwise, bytes.
pub const RING_BYTES: usize = 8 << 20;
/// Longest text unless told otherwise, bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// How long the end waits for packets that the kernel has and did not hand over yet: two ticks of
/// its timer are 40 ms, on a machine that is busy they come late.
const LAST_BLOCK: Duration = Duration::from_millis(500);
/// Times at which packets were dropped that are remembered.
const DROPS_MAX: usize = 64;
/// Packets that were dropped so long before the end had others behind them, ns.
const LAST_DROP_NS: u64 = 2_000_000_000;
/// A clock that moved by more between two looks was set, not slewed, ns.
const CLOCK_STEP_NS: i64 = 1_000_000;

/// What to listen to.
#[derive(Debug, Clone)]
pub struct PacketPlan {
    /// Process id of the server; its network namespace is where packets are taken.
    pub pid: u32,
    /// Where it listens; empty: all TCP sockets on which it does.
    pub listeners: Vec<Listener>,
    /// Memory of the ring, bytes.
    pub ring_bytes: usize,
    /// Longer texts are cut, bytes.
    pub text_bytes_max: usize,
}

impl PacketPlan {
    /// All that a server says and hears, with default sizes.
    pub fn of(pid: u32) -> PacketPlan {
        PacketPlan {
            pid,
            listeners: Vec::new(),
            ring_bytes: RING_BYTES,
            text_bytes_max: TEXT_BYTES_MAX,
        }
    }
}

/// What the source itself counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PacketCounters {
    /// Packets read.
    pub packets: u64,
    /// Packets for which the ring had no room. What statements these were is estimated from the
    /// bytes that are missing, and told as lost.
    pub dropped: u64,
    /// Statements and other commands whose exchange was seen whole.
    pub commands: u64,
    /// Connections known now.
    pub connections: u64,
}

/// One server's network traffic.
pub struct PacketSource {
    ring: Ring,
    place: Place,
    flows: Flows,
    counters: PacketCounters,
    /// Between 1970 and the monotonic clock's zero, ns, at the last look.
    clock_offset_ns: i64,
    where_it_looks: String,
    /// What was dropped lately.
    drops: Vec<Dropped>,
    /// When the ring was last read, monotonic clock, ns.
    looked_ns: u64,
}

impl PacketSource {
    /// Opens a packet socket in the server's network namespace; needs `CAP_NET_RAW` there.
    ///
    /// # Errors
    /// The server listens on no TCP port, or the socket is refused.
    pub fn open(plan: &PacketPlan) -> anyhow::Result<PacketSource> {
        let pid = plan.pid;
        let listeners = match plan.listeners.as_slice() {
            [] => listeners(pid)
                .with_context(|| format!("finding where process {pid} listens; run as root"))?,
            given => given.to_vec(),
        };
        let mut ports: Vec<u16> = listeners.iter().map(|listener| listener.port).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports.is_empty() || ports.len() > filter::PORTS_MAX {
            bail!(
                "process {pid} listens on {} TCP ports; packets can be watched on 1 to {}",
                ports.len(),
                filter::PORTS_MAX
            );
        }
        let loopback_only = listeners.iter().all(|l| ring::is_loopback(l.address));
        let ring = Ring::open(&RingPlan {
            pid,
            ports: ports.clone(),
            loopback_only,
            bytes: plan.ring_bytes,
        })
        .with_context(|| {
            format!(
                "opening a packet socket in the network of process {pid}; it needs root, or \
                 CAP_NET_RAW and CAP_SYS_ADMIN"
            )
        })?;
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        let interfaces = match loopback_only {
            true => "the loopback interface",
            false => "all interfaces",
        };
        Ok(PacketSource {
            ring,
            place: Place::new(pid, listeners),
            flows: Flows::new(plan.text_bytes_max),
            counters: PacketCounters::default(),
            clock_offset_ns: clock_offset_ns(),
            where_it_looks: format!("packets of TCP port {} on {interfaces}", ports.join(", ")),
            drops: Vec::new(),
            looked_ns: now_ns(),
        })
    }

    /// Takes note of what found no room in the ring between two moments.
    fn note_drops(&mut self, after_ns: u64, before_ns: u64) -> anyhow::Result<()> {
        let counts = self.ring.counts().context("reading the ring's counters")?;
        let packets = counts.dropped;
        if packets == 0 {
            return Ok(());
        }
        self.counters.dropped += packets;
        // An older one would have shown by now.
        if self.drops.len() >= DROPS_MAX {
            self.drops.remove(0);
        }
        self.drops.push(Dropped {
            after_ns,
            before_ns,
            packets,
        });
        Ok(())
    }

    /// Readable when packets wait; who polls in between loses nothing unless the ring fills.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// What was counted so far.
    pub fn counters(&self) -> PacketCounters {
        PacketCounters {
            commands: self.flows.shared.statements,
            connections: self.flows.count() as u64,
            ..self.counters
        }
    }
}

fn read_clock(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Of the monotonic clock.
fn now_ns() -> u64 {
    read_clock(ClockId::Monotonic).unsigned_abs()
}

/// Between 1970 and the monotonic clock's zero, ns.
fn clock_offset_ns() -> i64 {
    read_clock(ClockId::Realtime) - read_clock(ClockId::Monotonic)
}

impl Source for PacketSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Packets
    }

    fn abilities(&self) -> Abilities {
        let missing = [
            (
                "unix_sockets",
                "connections over the Unix socket send no packets",
            ),
            (
                "tls",
                "encrypted connections are not read; each exchange on them is counted as lost \
                 (an estimate: a login may count as one)",
            ),
            (
                "latency",
                "it is the time on the wire, from the command's last packet to the answer's last \
                 packet; a client that reads slowly lengthens it",
            ),
            (
                "lost",
                "what a gap in the packets hides is estimated from its bytes, the connection's \
                 usual statement and what the server said meanwhile; what was dropped last of all \
                 from its packets; a first statement on a connection that was open before is not \
                 counted if it is not seen whole; user and database are then those last seen",
            ),
            (
                "user",
                "unknown on connections that were open before, and so is the connection id",
            ),
            ("rows_examined", "it is not on the wire"),
            ("lock_time", "it is not on the wire"),
            ("cpu, waits, switches, storage", "they are not on the wire"),
            ("tmp_tables, full_scans", "they are not on the wire"),
            (
                "other_origins",
                "only clients are on the wire: no events, replication or routines",
            ),
        ];
        let owned = |(name, why): (&str, &str)| (name.to_owned(), why.to_owned());
        Abilities {
            missing: missing.into_iter().map(owned).collect(),
            place: self.where_it_looks.clone(),
            ..Abilities::default()
        }
    }

    fn poll(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let offset_ns = clock_offset_ns();
        let step = (offset_ns - self.clock_offset_ns).abs();
        self.flows.shared.is_clock_doubtful = step > CLOCK_STEP_NS;
        self.clock_offset_ns = offset_ns;
        // A full ring takes nothing more until it is read: what was dropped came before this.
        let begun_ns = now_ns();
        self.note_drops(self.looked_ns, begun_ns)?;
        self.place.may_read = true;
        let mut count = 0;
        let mut counted = |observation: Observation<'_>| {
            count += 1;
            each(observation);
        };
        let Self {
            ring, place, flows, ..
        } = self;
        let packets = ring.read(
            |Frame {
                 packet,
                 realtime_ns,
             }| {
                let time_ns = realtime_ns.wrapping_add_signed(-offset_ns);
                let Some(segment) = frame::parse(packet, time_ns) else {
                    return;
                };
                let to_server = place.is_server(segment.to);
                if to_server || place.is_server(segment.from) {
                    flows.segment(&segment, to_server, &mut counted);
                }
            },
        );
        flows.shared.losses.tell(&mut counted);
        self.counters.packets += packets as u64;
        self.note_drops(begun_ns, begun_ns)?;
        self.looked_ns = begun_ns;
        Ok(count)
    }

    /// Takes the block that the kernel still fills: it hands over only what is full or has waited.
    fn finish(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let ends_ns = now_ns();
        let mut count = self.poll(each)?;
        // What comes later belongs to statements that had not ended.
        let due = self.ring.put();
        let mut deadline = Instant::now() + LAST_BLOCK;
        let mut read = self.ring.packets_read();
        while read < due {
            if Instant::now() >= deadline {
                each(Observation::Degraded {
                    cause: "last_packets_missing",
                    count: 1,
                });
                break;
            }
            self.ring.wait();
            count += self.poll(each)?;
            // Blocks that are there and only wait to be read take what they take.
            if self.ring.packets_read() > read {
                read = self.ring.packets_read();
                deadline = Instant::now() + LAST_BLOCK;
            }
        }
        // Connections that went on after an older one have counted it; the others were idle.
        let mut last = std::mem::take(&mut self.drops);
        last.retain(|dropped| dropped.before_ns.saturating_add(LAST_DROP_NS) >= ends_ns);
        for dropped in last {
            self.flows.end_with(dropped, self.counters.packets);
        }
        self.flows.shared.losses.tell(&mut |observation| {
            count += 1;
            each(observation);
        });
        Ok(count)
    }
}
