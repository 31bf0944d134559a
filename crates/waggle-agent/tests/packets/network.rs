//! Other namespaces, interfaces, VLANs and IPv6: whatever lies below TCP, each statement is seen
//! once.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

use waggle_agent::source::packets::{Listener, PacketPlan};
use waggle_need::need;

use crate::stage::{Ear, is_root};

const PORT: u16 = 3306;
const STATEMENTS: usize = 50;

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend(payload);
    out
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).expect("a header");
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).expect("a packet");
    payload
}

/// As a server of the protocol 4.1 without any option, and every statement is done.
fn serve(mut stream: TcpStream) {
    let mut greeting = b"\x0a9.7.4\0\x07\0\0\0abcdefgh\0".to_vec();
    greeting.extend([9, 0xa2, 45, 2, 0, 7, 0, 21]);
    greeting.extend([0; 10]);
    greeting.extend(b"ijklmnopqrst\0");
    stream.write_all(&packet(0, &greeting)).expect("it is sent");
    receive(&mut stream);
    stream
        .write_all(&packet(2, b"\0\0\0\x02\0\0\0"))
        .expect("it is sent");
    // Up to COM_QUIT.
    while receive(&mut stream) != b"\x01" {
        stream
            .write_all(&packet(1, b"\0\x07\0\x02\0\0\0"))
            .expect("it is sent");
    }
}

fn ask(address: IpAddr) {
    let mut stream = TcpStream::connect((address, PORT)).expect("a connection");
    receive(&mut stream);
    let mut login = vec![9, 0xa2, 3, 0, 0, 0, 0, 1, 45];
    login.extend([0; 23]);
    login.extend(b"me\0\0db\0");
    stream.write_all(&packet(1, &login)).expect("it is sent");
    receive(&mut stream);
    for number in 0..STATEMENTS {
        let sql = format!("\x03UPDATE {} {number}", "t".repeat(number * 500));
        stream
            .write_all(&packet(0, sql.as_bytes()))
            .expect("it is sent");
        receive(&mut stream);
    }
    stream.write_all(&packet(0, b"\x01")).expect("it is sent");
    // The server closes first or last; either is fine.
    let _ = stream.read(&mut [0]);
}

fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("ip starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
}

/// Whether this kernel has VLANs.
fn has_vlans() -> bool {
    let tried = in_new_network(|_| {
        let add = "link add link lo name lo7 type vlan id 7".split(' ');
        Command::new("ip")
            .args(add)
            .output()
            .is_ok_and(|output| output.status.success())
    });
    tried.join().unwrap_or_default()
}

/// A thread with a network of its own, which ends with it.
fn in_new_network<T: Send + 'static>(
    work: impl FnOnce(u32) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(|| {
        // SAFETY: it changes the network of this thread only, and no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        ip("link set lo up");
        // SAFETY: it has no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        work(thread.cast_unsigned())
    })
}

/// Gives one end of the pair its addresses, in a VLAN too.
fn set_up(interface: &str, host: u8, has_vlans: bool) {
    ip(&format!("link set dev {interface} up"));
    ip(&format!("addr add 10.77.0.{host}/24 dev {interface}"));
    ip(&format!("addr add fd77::{host}/64 dev {interface} nodad"));
    if has_vlans {
        ip(&format!(
            "link add link {interface} name {interface}7 type vlan id 7"
        ));
        ip(&format!("link set dev {interface}7 up"));
        ip(&format!("addr add 10.78.0.{host}/24 dev {interface}7"));
    }
}

/// A server in its network; it serves so many connections.
fn server(connections: usize, has_vlans: bool, ready: Sender<u32>, go: Receiver<u32>) {
    in_new_network(move |thread| {
        ready.send(thread).expect("somebody waits");
        let client = go.recv().expect("the client's network");
        ip(&format!(
            "link add name a type veth peer name b netns {client}"
        ));
        set_up("a", 1, has_vlans);
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("a listener");
        ready.send(thread).expect("somebody waits");
        // The source is in place.
        go.recv().expect("the word to go on");
        ready.send(thread).expect("somebody waits");
        for _ in 0..connections {
            serve(listener.accept().expect("a connection").0);
        }
        ask_own(&listener);
    });
}

/// A client on the server's own host: its packets show on the loopback interface, twice.
fn ask_own(listener: &TcpListener) {
    let address = listener.local_addr().expect("its address").port();
    assert_eq!(address, PORT);
    let listener = listener.try_clone().expect("a listener");
    let serving = std::thread::spawn(move || serve(listener.accept().expect("a connection").0));
    ask("10.77.0.1".parse().expect("an address"));
    serving.join().expect("it served");
}

#[test]
fn each_statement_is_seen_once_whatever_lies_below_tcp() {
    if !need("root", is_root(), "network namespaces need it") {
        return;
    }
    let has_vlans = need("vlan", has_vlans(), "the kernel has none");
    let mut addresses = vec!["10.77.0.1", "fd77::1"];
    let mut hosts = vec!["10.77.0.2", "fd77::2", "10.77.0.1"];
    if has_vlans {
        addresses.push("10.78.0.1");
        hosts.push("10.78.0.2");
    }
    let asked = addresses.clone();
    let (ready, is_ready) = channel();
    let (go, may_go) = channel();
    server(addresses.len(), has_vlans, ready, may_go);
    let server_thread = is_ready.recv().expect("the server's network");
    let (client_ready, client_is_ready) = channel();
    let (client_go, client_may_go) = channel::<()>();
    let client = in_new_network(move |thread| {
        client_ready.send(thread).expect("somebody waits");
        client_may_go.recv().expect("the word to go on");
        set_up("b", 2, has_vlans);
        for address in asked {
            ask(address.parse().expect("an address"));
        }
    });
    go.send(client_is_ready.recv().expect("the client's network"))
        .expect("it waits");
    is_ready.recv().expect("the server listens");
    let mut plan = PacketPlan::of(server_thread);
    plan.listeners.push(Listener {
        address: Ipv6Addr::UNSPECIFIED.into(),
        port: PORT,
    });
    let mut ear = Ear::with(&plan);
    go.send(0).expect("it waits");
    is_ready.recv().expect("the server goes on");
    client_go.send(()).expect("it waits");
    let all = STATEMENTS * (addresses.len() + 1);
    ear.until("all is seen", |ear| ear.statements.len() >= all);
    client.join().expect("the client is content");
    ear.listen();
    assert_eq!(
        (ear.statements.len(), ear.lost.len()),
        (all, 0),
        "{:?}",
        ear.lost
    );
    for host in hosts {
        let own = ear.statements.iter().filter(|seen| seen.host == host);
        let lengths: Vec<_> = own.map(|seen| seen.length).collect();
        let expected: Vec<_> = (0..STATEMENTS)
            .map(|number| format!("UPDATE {} {number}", "t".repeat(number * 500)).len())
            .collect();
        assert_eq!(lengths, expected, "{host}");
    }
    let seen = &ear.statements[0];
    assert_eq!(
        (seen.user.as_str(), seen.affected, seen.connection),
        ("me", Some(7), Some(7))
    );
}
