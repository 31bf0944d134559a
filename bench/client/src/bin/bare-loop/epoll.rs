//! Several connections a thread, through one epoll descriptor.
//!
//! Invariant: every connection has one statement in flight until the run is over.

use anyhow::{bail, ensure};

use crate::threads::send;
use crate::{Calls, Client, Run};

const EVENTS: usize = 64;

pub(crate) fn run(clients: &mut [Client], run: &Run) -> anyhow::Result<Calls> {
    // SAFETY: takes no pointers; the descriptor is closed with the process.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    ensure!(epoll >= 0, "epoll_create1 failed");
    for (number, client) in clients.iter().enumerate() {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number as u64,
        };
        // SAFETY: the event is read during the call alone.
        let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, client.fd(), &mut event) };
        ensure!(added == 0, "epoll_ctl failed");
    }
    let mut calls = Calls::default();
    run.barrier.wait();
    for client in clients.iter_mut() {
        start(client, &mut calls)?;
    }
    let mut in_flight = clients.len();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    while in_flight > 0 {
        calls.waits += 1;
        // SAFETY: room for EVENTS events is given.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), EVENTS as i32, -1) };
        for event in &events[..count.max(0) as usize] {
            let client = &mut clients[event.u64 as usize];
            if !receive(client, &mut calls)? {
                continue;
            }
            if run.is_over() {
                in_flight -= 1;
            } else {
                start(client, &mut calls)?;
            }
        }
    }
    Ok(calls)
}

fn start(client: &mut Client, calls: &mut Calls) -> anyhow::Result<()> {
    calls.sends += 1;
    let fd = client.fd();
    send(fd, client.session.command())
}

/// True when the answer is complete.
fn receive(client: &mut Client, calls: &mut Calls) -> anyhow::Result<bool> {
    calls.receives += 1;
    let fd = client.fd();
    let room = client.session.room();
    // SAFETY: pointer and length are those of one slice.
    match unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) } {
        0 => bail!("the server closed the connection"),
        length if length > 0 => Ok(client.session.received(length as usize)),
        _ => {
            let error = std::io::Error::last_os_error();
            ensure!(
                error.kind() == std::io::ErrorKind::WouldBlock,
                "receiving: {error}"
            );
            calls.receives_empty += 1;
            Ok(false)
        }
    }
}
