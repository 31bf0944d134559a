//! Builds whose layout was decoded, checked against a live server, and written down.
//!
//! The table only saves the decoding; a test holds each row against what decoding finds where the
//! build is installed, and another against what the server itself says.

use crate::elf::BuildId;
use crate::layout::{FieldName, Location};

/// Offsets of one build, in the order of [`FieldName::ALL`].
struct Known {
    build_id: &'static str,
    query: u32,
    database: u32,
    /// Pointer to the security context in `THD`; behind it, user and host; and whether a length
    /// follows the pointers there.
    context: u32,
    user: u32,
    client_host: u32,
    length_follows: bool,
    /// Offset and width, bytes.
    connection_id: (u32, u8),
    start_time: u32,
    rows_sent: u32,
    rows_examined: u32,
    /// Pointer to the diagnostics area in `THD`; the next three stand behind it.
    area: u32,
    error_number: u32,
    rows_affected: u32,
    warnings: u32,
    command: u32,
    lock_time: u32,
    server_status: u32,
    system_thread: u32,
    routine: u32,
    tmp_tables: u32,
    tmp_disk_tables: u32,
    select_scan: u32,
    select_full_join: u32,
    bytes_received: u32,
    bytes_sent: u32,
}

const KNOWN: [Known; 2] = [
    // Debian mysql-server-core 9.7.4-2, amd64
    Known {
        build_id: "cc8a18826385d7182761a4a8f41044748267244d",
        query: 0x510,
        database: 0x558,
        context: 0x1800,
        user: 0,
        client_host: 0x60,
        length_follows: true,
        connection_id: (0x25d0, 4),
        start_time: 0x19f0,
        rows_sent: 0x22a0,
        rows_examined: 0x22a8,
        area: 0x33a0,
        error_number: 0x29c,
        rows_affected: 0x2a0,
        warnings: 0x2b0,
        command: 0x19b4,
        lock_time: 0x19f8,
        server_status: 0x25d8,
        system_thread: 0x25e0,
        routine: 0x2670,
        tmp_tables: 0xb00,
        tmp_disk_tables: 0xaf8,
        select_scan: 0xc00,
        select_full_join: 0xbe0,
        bytes_received: 0xc68,
        bytes_sent: 0xc70,
    },
    // Debian mariadb-server-core 1:10.11.19-0+deb12u1, amd64
    Known {
        build_id: "439da8d94412de2c7eb3e2c5554bc0f31f438dc3",
        query: 0x68,
        database: 0xa0,
        context: 0x25f8,
        user: 0x8,
        client_host: 0x6a8,
        length_follows: false,
        connection_id: (0x3f18, 8),
        start_time: 0x2810,
        rows_sent: 0x3b98,
        rows_examined: 0x3ba0,
        area: 0x62e0,
        error_number: 0x8,
        rows_affected: 0x220,
        warnings: 0x230,
        command: 0x27d8,
        lock_time: 0x2818,
        server_status: 0x3f34,
        system_thread: 0x3f3c,
        routine: 0x40b8,
        tmp_tables: 0x1240,
        tmp_disk_tables: 0x1238,
        select_scan: 0x1358,
        select_full_join: 0x1338,
        bytes_received: 0x1470,
        bytes_sent: 0x1478,
    },
];

impl Known {
    fn location(&self, name: FieldName) -> Location {
        let quad = |offset| Location::direct(offset, 8);
        let double = |offset| Location::direct(offset, 4);
        let name_of = |offset| Location {
            length_follows: self.length_follows,
            ..Location::behind(self.context, offset, 8)
        };
        match name {
            FieldName::Query => Location::text(self.query),
            FieldName::Database => Location::text(self.database),
            FieldName::User => name_of(self.user),
            FieldName::ConnectionId => Location::direct(self.connection_id.0, self.connection_id.1),
            FieldName::StartTime => quad(self.start_time),
            FieldName::RowsSent => quad(self.rows_sent),
            FieldName::RowsExamined => quad(self.rows_examined),
            FieldName::ErrorNumber => Location::behind(self.area, self.error_number, 4),
            FieldName::Command => double(self.command),
            FieldName::LockTime => quad(self.lock_time),
            FieldName::RowsAffected => Location::behind(self.area, self.rows_affected, 8),
            FieldName::Warnings => Location::behind(self.area, self.warnings, 4),
            FieldName::ServerStatus => double(self.server_status),
            FieldName::SystemThread => double(self.system_thread),
            FieldName::Routine => quad(self.routine),
            FieldName::ClientHost => name_of(self.client_host),
            FieldName::TmpTables => quad(self.tmp_tables),
            FieldName::TmpDiskTables => quad(self.tmp_disk_tables),
            FieldName::SelectScan => quad(self.select_scan),
            FieldName::SelectFullJoin => quad(self.select_full_join),
            FieldName::BytesReceived => quad(self.bytes_received),
            FieldName::BytesSent => quad(self.bytes_sent),
        }
    }
}

/// The layout of a known build.
pub fn lookup(build_id: &BuildId) -> Option<Vec<(FieldName, Location)>> {
    let wanted = build_id.to_string();
    let known = KNOWN.iter().find(|known| known.build_id == wanted)?;
    Some(
        FieldName::ALL
            .into_iter()
            .map(|name| (name, known.location(name)))
            .collect(),
    )
}
