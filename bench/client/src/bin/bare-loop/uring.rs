//! io_uring: a statement and its answer for one system call, or less with several connections.
//!
//! Invariant: the kernel holds pointers into a session only while that session has an operation in
//! flight, and no session is touched or moved meanwhile.

use anyhow::{Context, bail, ensure};
use io_uring::{IoUring, opcode, squeue, types};

use crate::threads::send;
use crate::{Calls, Client, Run};

const SENT: u64 = 1 << 32;

fn ring(entries: usize) -> anyhow::Result<IoUring> {
    let entries = entries.next_power_of_two() as u32;
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .context("io_uring cannot be used here")
}

/// `IORING_RECVSEND_POLL_FIRST` of linux/io_uring.h.
const POLL_FIRST: u16 = 1;

/// Send and receive handed over together, for each connection of the thread.
pub(crate) fn run(clients: &mut [Client], run: &Run) -> anyhow::Result<Calls> {
    let mut ring = ring(2 * clients.len())?;
    let mut calls = Calls::default();
    run.barrier.wait();
    for (number, client) in clients.iter_mut().enumerate() {
        push_exchange(&mut ring, client, number)?;
        calls.sends += 1;
    }
    let mut in_flight = clients.len();
    while in_flight > 0 {
        calls.waits += 1;
        ring.submit_and_wait(1)?;
        loop {
            // Bound first: the queue may not be borrowed while its answer pushes the next.
            let entry = ring.completion().next();
            let Some(entry) = entry else { break };
            let result = entry.result();
            ensure!(
                result >= 0,
                "through the ring: {}",
                std::io::Error::from_raw_os_error(-result)
            );
            if entry.user_data() & SENT != 0 {
                bail!("the socket took {result} bytes of a request");
            }
            let number = entry.user_data() as usize;
            calls.receives += 1;
            if result == 0 {
                bail!("the server closed the connection");
            }
            let client = &mut clients[number];
            if !client.session.received(result as usize) {
                push_receive(&mut ring, client, number)?;
            } else if run.is_over() {
                in_flight -= 1;
            } else {
                push_exchange(&mut ring, client, number)?;
                calls.sends += 1;
            }
        }
    }
    Ok(calls)
}

/// Send by a call of its own, the receive through the ring: two calls a statement.
pub(crate) fn run_receiving(client: &mut Client, run: &Run) -> anyhow::Result<Calls> {
    let mut ring = ring(1)?;
    let mut calls = Calls::default();
    run.barrier.wait();
    while !run.is_over() {
        let fd = client.fd();
        send(fd, client.session.command())?;
        calls.sends += 1;
        loop {
            push_receive(&mut ring, client, 0)?;
            calls.waits += 1;
            ring.submit_and_wait(1)?;
            let entry = ring.completion().next().context("no completion")?;
            ensure!(entry.result() > 0, "receiving failed: {}", entry.result());
            calls.receives += 1;
            if client.session.received(entry.result() as usize) {
                break;
            }
        }
    }
    Ok(calls)
}

fn push_exchange(ring: &mut IoUring, client: &mut Client, number: usize) -> anyhow::Result<()> {
    let fd = types::Fd(client.fd());
    let packet = client.session.command();
    // What the socket does not take at once is not sent, so the send is over before the session
    // makes its next packet. A completion of one that went right is of no interest.
    let entry = opcode::Send::new(fd, packet.as_ptr(), packet.len() as u32)
        .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(SENT | number as u64);
    push(ring, &entry)?;
    receive(ring, client, number, POLL_FIRST)
}

fn push_receive(ring: &mut IoUring, client: &mut Client, number: usize) -> anyhow::Result<()> {
    receive(ring, client, number, 0)
}

fn receive(ring: &mut IoUring, client: &mut Client, number: usize, how: u16) -> anyhow::Result<()> {
    let fd = types::Fd(client.fd());
    let room = client.session.room();
    let entry = opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32)
        .ioprio(how)
        .build()
        .user_data(number as u64);
    push(ring, &entry)
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> anyhow::Result<()> {
    // SAFETY: the buffers belong to a session that outlives the ring's use of it: `run` and
    // `run_receiving` touch it again only after the completion.
    unsafe { ring.submission().push(entry) }.context("the submission queue is full")
}
