//! A server that is silent because it works is waited for.

use std::time::Duration;

use waggle_copy::session;
use waggle_wire::{Dsn, Timeouts};

use crate::servers::{flavours, server};

#[test]
fn a_server_at_work_may_be_silent_for_longer_than_its_time_out() {
    for flavour in flavours() {
        let server = server(flavour).expect("it is there");
        let dsn = Dsn {
            timeouts: Timeouts {
                read: Some(Duration::from_secs(1)),
                ..Timeouts::default()
            },
            ..server.dsn_socket()
        };
        let mut working = session::source(&dsn).expect("a session");
        let slept = working.query_rows(b"SELECT SLEEP(3)").expect("its answer");
        assert_eq!(slept[0][0].as_deref(), Some(&b"0"[..]), "{flavour}");
    }
}
