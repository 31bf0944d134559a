//! Does waggle's own probe load here, and what does one hit cost?
//!
//! The probe is loaded as for a server whose every field is known, so that the verifier sees all
//! of it, and then put on a function of this very program.

use waggle_symbols::layout::{Field, Location, Source, StartClock};
use waggle_symbols::site::Register;
use waggle_symbols::{FieldName, Site, StatementLayout, TrapCost};

use super::{Fact, Rights};
use crate::statement::{Options, StatementProbe, trap_ns};

const NAME: &str = "statement_probe";

/// Measurements of which the least counts; each takes some 30 ms.
const MEASUREMENTS: usize = 5;

/// The answer, and the cost of a breakpoint in ns if it could be measured.
pub(super) fn measure(rights: &Rights) -> (Fact, Option<f64>) {
    if !rights.can_load {
        let fact = rights.not_tried(NAME).needed();
        return (fact, None);
    }
    let options = Options {
        ring_bytes: 64 << 10,
        ..Options::default()
    };
    let mut probe = match StatementProbe::load(&layout(), &site(), &options) {
        Ok(probe) => probe,
        Err(error) => {
            let remedy = "the refused program types and helpers below say more; uprobes need Linux \
                          5.8 with CONFIG_UPROBE_EVENTS=y and CONFIG_BPF_EVENTS=y";
            return (
                Fact::no(NAME, one_line(&error.to_string()), remedy).needed(),
                None,
            );
        }
    };
    // On a busy machine every round of one measurement may have been disturbed.
    let costs: Result<Vec<f64>, _> = (0..MEASUREMENTS).map(|_| trap_ns(&mut probe)).collect();
    match costs.map(|costs| costs.into_iter().fold(f64::INFINITY, f64::min)) {
        Ok(cost) => {
            let cost_us = cost / 1e3;
            let value =
                format!("loads; a bare hit (empty program, warm caches) takes {cost_us:.2} us");
            (Fact::yes(NAME, value).needed(), Some(cost))
        }
        Err(error) => {
            let reason = format!("loads, but: {}", one_line(&error.to_string()));
            let remedy = "uprobes need CONFIG_UPROBE_EVENTS=y, and rights to perf events";
            (Fact::no(NAME, reason, remedy).needed(), None)
        }
    }
}

/// The verifier's log has many lines; the first and last say what and why.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    match lines.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, .., last] => format!("{first}: {last}"),
    }
}

/// Every field somewhere, at the distances common builds have.
fn layout() -> StatementLayout {
    let place = |name| match name {
        FieldName::Query => Location::text(0x510),
        FieldName::Database => Location::text(0x558),
        FieldName::User => Location {
            length_follows: true,
            ..Location::behind(0x1800, 0, 8)
        },
        FieldName::ConnectionId => Location::direct(0x25d0, 8),
        FieldName::StartTime => Location::direct(0x19f0, 8),
        FieldName::RowsSent => Location::direct(0x22a0, 8),
        FieldName::RowsExamined => Location::direct(0x22a8, 8),
        FieldName::ErrorNumber => Location::behind(0x33a0, 0x29c, 4),
        FieldName::Command => Location::direct(0x19b4, 4),
        FieldName::LockTime => Location::direct(0x19f8, 8),
        FieldName::RowsAffected => Location::behind(0x33a0, 0x2a0, 8),
        FieldName::Warnings => Location::behind(0x33a0, 0x2b0, 4),
        FieldName::ServerStatus => Location::direct(0x25d8, 4),
        FieldName::SystemThread => Location::direct(0x25e0, 4),
        FieldName::Routine => Location::direct(0x2670, 8),
        FieldName::ClientHost => Location {
            length_follows: true,
            ..Location::behind(0x1800, 0x60, 8)
        },
        FieldName::TmpTables => Location::direct(0xb00, 8),
        FieldName::TmpDiskTables => Location::direct(0xaf8, 8),
        FieldName::SelectScan => Location::direct(0xc00, 8),
        FieldName::SelectFullJoin => Location::direct(0xbe0, 8),
        FieldName::BytesReceived => Location::direct(0xc68, 8),
        FieldName::BytesSent => Location::direct(0xc70, 8),
    };
    let field = |name| Field {
        name,
        found: Ok((place(name), Source::Table)),
    };
    StatementLayout {
        fields: FieldName::ALL.into_iter().map(field).collect(),
        start_clock: StartClock::Realtime,
    }
}

/// Where a first argument is; only its register matters to the load.
fn site() -> Site {
    Site {
        function: String::new(),
        file_offset: 0,
        function_offset: 0,
        bytes: vec![0x55],
        instruction: "push".into(),
        register: Register(7),
        trap: TrapCost::Emulated,
    }
}
