//! Packets from the kernel, read in place from memory that both share.
//!
//! One socket with a TPACKET_V3 ring: the kernel fills blocks, hands each over when it is full or
//! has waited, and takes it back when it was read. Invariants: the socket is opened in the
//! server's network namespace by a thread that ends there; nothing is received before the filter
//! is in place; the kernel's counts of what came and of what found no room are read at every look.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::filter;

/// A frame larger than a block is cut, so it holds the largest that the kernel merges by default
/// several times over.
const BLOCK_BYTES: usize = 256 << 10;
/// Frames vary in size; the kernel only wants a plausible one.
const FRAME_BYTES: usize = 2048;
/// The kernel's timer hands a block over that is not full, ms: one that it finds with packets at a
/// second tick, so within two. A ring of small blocks outlives a pause of the reader of half a
/// second.
const RETIRE_MS: u32 = 20;
const PACKET_VERSION_3: c_int = 2;
const PACKET_IGNORE_OUTGOING: c_int = 23;

/// What a ring needs to know.
#[derive(Debug, Clone)]
pub(super) struct RingPlan {
    /// Network namespace of this process.
    pub(super) pid: u32,
    pub(super) ports: Vec<u16>,
    pub(super) loopback_only: bool,
    pub(super) bytes: usize,
}

/// One packet.
pub(super) struct Frame<'a> {
    /// From its IP header on.
    pub(super) packet: &'a [u8],
    /// When the kernel saw it, ns since 1970.
    pub(super) realtime_ns: u64,
}

/// The kernel's counters since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RingCounts {
    pub(super) dropped: u64,
}

pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    bytes: usize,
    next_block: usize,
    /// Packets that the kernel put into the ring by the last [`Self::counts`], and those read.
    put: u64,
    read: u64,
}

// SAFETY: the memory belongs to this ring alone, and the kernel does not care which thread reads.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn open(plan: &RingPlan) -> io::Result<Ring> {
        let plan = plan.clone();
        // The namespace is the thread's, and goes with it.
        let opening = std::thread::Builder::new()
            .name("packet socket".to_owned())
            .spawn(move || {
                enter_namespace(plan.pid)?;
                open_here(&plan)
            })?;
        opening
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the opening thread panicked")))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn blocks(&self) -> usize {
        self.bytes / BLOCK_BYTES
    }

    /// Gives every packet that came, and takes at most one turn around the ring.
    pub(super) fn read(&mut self, mut each: impl FnMut(Frame<'_>)) -> usize {
        let mut count = 0;
        for _ in 0..self.blocks() {
            // SAFETY: the block lies within the mapping, which lives as long as `self`.
            let block = unsafe { self.memory.add(self.next_block * BLOCK_BYTES) };
            // SAFETY: a block begins with this descriptor; its status is the one field that the
            // kernel writes while user space reads, and it is aligned for an AtomicU32.
            let status = unsafe {
                let descriptor = block.cast::<libc::tpacket_block_desc>().as_ptr();
                AtomicU32::from_ptr(&raw mut (*descriptor).hdr.bh1.block_status)
            };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the block is handed over: until its status is set back, the kernel does not
            // write to it.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK_BYTES) };
            count += read_block(bytes, &mut each);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next_block = (self.next_block + 1) % self.blocks();
        }
        self.read += count as u64;
        count
    }

    /// Packets that the kernel put into the ring by the last [`Self::counts`].
    pub(super) fn put(&self) -> u64 {
        self.put
    }

    /// Packets that were read.
    pub(super) fn packets_read(&self) -> u64 {
        self.read
    }

    /// Waits for a block, no longer than two ticks of the kernel's timer.
    pub(super) fn wait(&self) {
        let span = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(2 * RETIRE_MS) * 1_000_000,
        };
        // Whatever ends the wait, the ring is looked at next.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&span));
    }

    /// What the kernel counted since the last call.
    pub(super) fn counts(&mut self) -> io::Result<RingCounts> {
        let mut stats = [0_u32; 3]; // packets, drops, freezes
        let mut length = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: pointer and length describe `stats`.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast::<c_void>(),
                &raw mut length,
            )
        })?;
        // Those that found no room are among the packets.
        let [packets, dropped, _] = stats.map(u64::from);
        self.put += packets.saturating_sub(dropped);
        Ok(RingCounts { dropped })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

fn field(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word) as usize)
}

/// Gives a block's packets. Offsets are the kernel's; they are checked all the same.
fn read_block(block: &[u8], each: &mut impl FnMut(Frame<'_>)) -> usize {
    use std::mem::offset_of;
    let in_block = offset_of!(libc::tpacket_block_desc, hdr);
    let packets = field(block, in_block + offset_of!(libc::tpacket_hdr_v1, num_pkts));
    let first = field(
        block,
        in_block + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt),
    );
    let (Some(packets), Some(mut at)) = (packets, first) else {
        return 0;
    };
    for done in 0..packets {
        let Some(header) = block.get(at..) else {
            return done;
        };
        let read = |offset| field(header, offset).unwrap_or_default();
        let seconds = read(offset_of!(libc::tpacket3_hdr, tp_sec)) as u64;
        let nanoseconds = read(offset_of!(libc::tpacket3_hdr, tp_nsec)) as u64;
        let length = read(offset_of!(libc::tpacket3_hdr, tp_snaplen));
        let net = header
            .get(offset_of!(libc::tpacket3_hdr, tp_net)..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| usize::from(u16::from_ne_bytes(*bytes)));
        if let Some(packet) = header.get(net..).and_then(|packet| packet.get(..length)) {
            each(Frame {
                packet,
                realtime_ns: seconds * 1_000_000_000 + nanoseconds,
            });
        }
        at += read(offset_of!(libc::tpacket3_hdr, tp_next_offset));
    }
    packets
}

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn enter_namespace(pid: u32) -> io::Result<()> {
    let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    let theirs = of(&pid.to_string())?;
    if of("thread-self").is_ok_and(|ours| ours == theirs) {
        return Ok(());
    }
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
    // SAFETY: setns takes a descriptor that is open; it changes this thread only.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

fn open_here(plan: &RingPlan) -> io::Result<Ring> {
    // Protocol 0: nothing is received before it is bound.
    // SAFETY: no pointers.
    let socket =
        check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: it was just opened, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    set(
        &socket,
        libc::SOL_PACKET,
        libc::PACKET_VERSION,
        &PACKET_VERSION_3,
    )?;
    let mut program = filter::program(&plan.ports, !plan.loopback_only);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    if plan.loopback_only {
        // Spares the kernel a copy of what comes in again at once. Older kernels lack it, and the
        // streams put up with the copies.
        let _ = set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1);
    }
    let blocks = (plan.bytes / BLOCK_BYTES).max(4);
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: (blocks * BLOCK_BYTES / FRAME_BYTES) as u32,
        tp_retire_blk_tov: RETIRE_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let bytes = blocks * BLOCK_BYTES;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let memory = NonNull::new(memory.cast::<u8>()).ok_or_else(|| io::Error::other("no memory"))?;
    let ring = Ring {
        socket,
        memory,
        bytes,
        next_block: 0,
        put: 0,
        read: 0,
    };
    bind(&ring.socket, plan.loopback_only)?;
    Ok(ring)
}

fn bind(socket: &OwnedFd, loopback_only: bool) -> io::Result<()> {
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = if loopback_only {
        filter::LOOPBACK as c_int
    } else {
        0
    };
    // SAFETY: pointer and length describe `address`.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast::<libc::sockaddr>(),
            size_of_val(&address) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Whether only the loopback interface leads to this address.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
