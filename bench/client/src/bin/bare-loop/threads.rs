//! A thread a connection: the ways that a blocking client has.
//!
//! Invariant: every way sends with one call; they differ in the calls between that and the answer.

use std::os::fd::RawFd;

use anyhow::{bail, ensure};

use crate::{Calls, Client, Run, Wait};

pub(crate) fn run(
    client: &mut Client,
    wait: Wait,
    attempts: u32,
    run: &Run,
) -> anyhow::Result<Calls> {
    let fd = client.fd();
    let epoll = if wait == Wait::TryEpoll {
        watch(fd)?
    } else {
        -1
    };
    let mut calls = Calls::default();
    run.barrier.wait();
    while !run.is_over() {
        send(fd, client.session.command())?;
        calls.sends += 1;
        loop {
            if wait == Wait::Poll {
                wait_readable(fd, &mut calls);
            }
            let length = receive(client, wait == Wait::Block, &mut calls)?;
            match length {
                Some(length) if client.session.received(length) => break,
                Some(_) => continue,
                None => {}
            }
            let mut found = None;
            if matches!(wait, Wait::Spin | Wait::Yield) {
                for _ in 0..attempts {
                    if wait == Wait::Yield {
                        calls.waits += 1;
                        // SAFETY: sched_yield takes nothing and touches no memory.
                        unsafe { libc::sched_yield() };
                    }
                    found = receive(client, false, &mut calls)?;
                    if found.is_some() {
                        break;
                    }
                }
            }
            match found {
                Some(length) if client.session.received(length) => break,
                Some(_) => {}
                None if wait == Wait::TryEpoll => {
                    calls.waits += 1;
                    let mut event = libc::epoll_event { events: 0, u64: 0 };
                    // SAFETY: room for one event is given.
                    unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) };
                }
                None => wait_readable(fd, &mut calls),
            }
        }
    }
    Ok(calls)
}

fn watch(fd: RawFd) -> anyhow::Result<RawFd> {
    // SAFETY: the event is read during the call alone; the descriptors are owned by this process
    // and closed with it.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        ensure!(epoll >= 0, "epoll_create1 failed");
        let added = libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event);
        ensure!(added == 0, "epoll_ctl failed");
        Ok(epoll)
    }
}

pub(crate) fn send(fd: RawFd, packet: &[u8]) -> anyhow::Result<()> {
    // SAFETY: pointer and length are those of one slice.
    let sent = unsafe { libc::send(fd, packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL) };
    ensure!(
        sent == packet.len() as isize,
        "sending: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// `None` when nothing was there.
fn receive(client: &mut Client, blocks: bool, calls: &mut Calls) -> anyhow::Result<Option<usize>> {
    let fd = client.fd();
    let room = client.session.room();
    let flags = if blocks { 0 } else { libc::MSG_DONTWAIT };
    calls.receives += 1;
    // SAFETY: pointer and length are those of one slice.
    match unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), flags) } {
        0 => bail!("the server closed the connection"),
        length if length > 0 => Ok(Some(length as usize)),
        _ => {
            let error = std::io::Error::last_os_error();
            ensure!(
                error.kind() == std::io::ErrorKind::WouldBlock,
                "receiving: {error}"
            );
            calls.receives_empty += 1;
            Ok(None)
        }
    }
}

fn wait_readable(fd: RawFd, calls: &mut Calls) {
    calls.waits += 1;
    let mut watched = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure is given and counted. An error is met again by the receive after it.
    unsafe { libc::poll(&mut watched, 1, -1) };
}
