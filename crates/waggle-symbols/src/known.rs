//! Builds whose layout was decoded, checked against a live server, and written down.
//!
//! The table only saves the decoding; a test holds each row against what decoding finds where the
//! build is installed.

use crate::elf::BuildId;
use crate::layout::{FieldName, Location};

/// Offsets of one build, in the order of [`FieldName::ALL`].
struct Known {
    build_id: &'static str,
    query: u32,
    database: u32,
    /// Pointer in `THD`, offset behind it, and whether the length follows the pointer.
    user: (u32, u32, bool),
    /// Offset and width, bytes.
    connection_id: (u32, u8),
    start_time: u32,
    rows_sent: u32,
    rows_examined: u32,
    /// Pointer in `THD`, offset behind it.
    error_number: (u32, u32),
    command: u32,
}

const KNOWN: [Known; 2] = [
    // Debian mysql-server-core 9.7.4-2, amd64
    Known {
        build_id: "cc8a18826385d7182761a4a8f41044748267244d",
        query: 0x510,
        database: 0x558,
        user: (0x1800, 0, true),
        connection_id: (0x25d0, 4),
        start_time: 0x19f0,
        rows_sent: 0x22a0,
        rows_examined: 0x22a8,
        error_number: (0x33a0, 0x29c),
        command: 0x19b4,
    },
    // Debian mariadb-server-core 1:10.11.19-0+deb12u1, amd64
    Known {
        build_id: "439da8d94412de2c7eb3e2c5554bc0f31f438dc3",
        query: 0x68,
        database: 0xa0,
        user: (0x25f8, 0x8, false),
        connection_id: (0x3f18, 8),
        start_time: 0x2810,
        rows_sent: 0x3b98,
        rows_examined: 0x3ba0,
        error_number: (0x62e0, 0x8),
        command: 0x27d8,
    },
];

/// The layout of a known build.
pub fn lookup(build_id: &BuildId) -> Option<Vec<(FieldName, Location)>> {
    let wanted = build_id.to_string();
    let known = KNOWN.iter().find(|known| known.build_id == wanted)?;
    let mut user = Location::behind(known.user.0, known.user.1, 8);
    user.length_follows = known.user.2;
    Some(vec![
        (FieldName::Query, Location::text(known.query)),
        (FieldName::Database, Location::text(known.database)),
        (FieldName::User, user),
        (
            FieldName::ConnectionId,
            Location::direct(known.connection_id.0, known.connection_id.1),
        ),
        (FieldName::StartTime, Location::direct(known.start_time, 8)),
        (FieldName::RowsSent, Location::direct(known.rows_sent, 8)),
        (
            FieldName::RowsExamined,
            Location::direct(known.rows_examined, 8),
        ),
        (
            FieldName::ErrorNumber,
            Location::behind(known.error_number.0, known.error_number.1, 4),
        ),
        (FieldName::Command, Location::direct(known.command, 4)),
    ])
}
