//! How are a statement's facts read with the fewest reads?
//!
//! Each read of the server's memory costs the server some 25 ns, nearly whatever its length, so
//! numbers that stand close together in the session object are read together. A number more is a
//! row in [`numbers`]. Neighbours: `waggle_symbols` says where the numbers stand, the kernel half
//! carries the plan out, [`super::event`] takes the numbers from the event.

use std::mem::offset_of;

use waggle_symbols::hook::{Hook, HookSite};
use waggle_symbols::{FieldName, Location, Site, StatementLayout};

use super::skeleton::types::{self, statement_event as event};
use super::{Options, TEXT_BYTES_MAX};

/// As in the kernel half.
const SPAN_BYTES_MAX: u32 = 432;
const SPANS: usize = 10;
const AREA_SPANS: usize = 2;
const NUMBERS: usize = 20;

/// Which numbers an event has room for: the place in it, and the bytes there.
fn numbers() -> [(FieldName, usize, u8); 18] {
    [
        (FieldName::StartTime, offset_of!(event, start_us), 8),
        (FieldName::ConnectionId, offset_of!(event, connection_id), 8),
        (FieldName::RowsSent, offset_of!(event, rows_sent), 8),
        (FieldName::RowsExamined, offset_of!(event, rows_examined), 8),
        (FieldName::RowsAffected, offset_of!(event, rows_affected), 8),
        (FieldName::LockTime, offset_of!(event, lock_time), 8),
        (FieldName::Routine, offset_of!(event, routine), 8),
        (
            FieldName::BytesReceived,
            offset_of!(event, bytes_received),
            8,
        ),
        (FieldName::BytesSent, offset_of!(event, bytes_sent), 8),
        (FieldName::TmpTables, offset_of!(event, tmp_tables), 4),
        (
            FieldName::TmpDiskTables,
            offset_of!(event, tmp_disk_tables),
            4,
        ),
        (FieldName::SelectScan, offset_of!(event, select_scan), 4),
        (
            FieldName::SelectFullJoin,
            offset_of!(event, select_full_join),
            4,
        ),
        (FieldName::ErrorNumber, offset_of!(event, error_number), 4),
        (FieldName::Command, offset_of!(event, command), 4),
        (FieldName::Warnings, offset_of!(event, warnings), 4),
        (FieldName::ServerStatus, offset_of!(event, server_status), 4),
        (FieldName::SystemThread, offset_of!(event, system_thread), 4),
    ]
}

/// Which bit of an event's `unread` tells that a field could not be read; by [`FieldName::ALL`].
/// `None`: its place is not known, or it was left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places([Option<u8>; FieldName::ALL.len()]);

impl Places {
    pub(super) fn bit(&self, field: FieldName) -> Option<u8> {
        self.0[index(field)]
    }
}

fn index(field: FieldName) -> usize {
    FieldName::ALL.iter().position(|f| *f == field).unwrap_or(0)
}

/// One number in a span.
#[derive(Debug, Clone, Copy)]
struct Number {
    field: FieldName,
    offset: u32,
    width: u8,
    to: usize,
}

/// The reads of one build.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) places: Places,
    spans: Vec<Vec<Number>>,
    area_spans: Vec<Vec<Number>>,
    area: Option<u32>,
}

impl Plan {
    /// Groups the numbers of `layout`. What finds no room is left out, as if it were not known.
    pub(super) fn of(layout: &StatementLayout) -> Self {
        let area = layout
            .location(FieldName::ErrorNumber)
            .or(layout.location(FieldName::RowsAffected))
            .and_then(|at| at.derefs.first().copied());
        let (mut direct, mut behind) = (Vec::new(), Vec::new());
        for (field, to, room) in numbers() {
            let Some(location) = layout.location(field) else {
                continue;
            };
            let number = Number {
                field,
                offset: location.offset,
                width: location.width.min(room),
                to,
            };
            match location.derefs.as_slice() {
                [] => direct.push(number),
                [pointer] if Some(*pointer) == area => behind.push(number),
                _ => {}
            }
        }
        let mut plan = Self {
            places: Places([None; FieldName::ALL.len()]),
            spans: group(direct, SPANS),
            area_spans: group(behind, AREA_SPANS),
            area,
        };
        plan.note_places(layout);
        plan
    }

    fn note_places(&mut self, layout: &StatementLayout) {
        let texts = [
            (FieldName::Query, types::statement_text::TEXT_QUERY),
            (FieldName::Database, types::statement_text::TEXT_DATABASE),
            (FieldName::User, types::statement_text::TEXT_USER),
            (FieldName::ClientHost, types::statement_text::TEXT_HOST),
        ];
        let byte = |bit: u32| u8::try_from(bit).unwrap_or(31);
        for (field, bit) in texts {
            if layout.location(field).is_some() {
                self.places.0[index(field)] = Some(byte(bit.0));
            }
        }
        let first = types::statement_text::SPAN_FIRST.0;
        let area_first = types::statement_text::AREA_SPAN_FIRST.0;
        let direct = self.spans.iter().zip(first..);
        for (span, bit) in direct.chain(self.area_spans.iter().zip(area_first..)) {
            for number in span {
                self.places.0[index(number.field)] = Some(byte(bit));
            }
        }
    }

    /// Where it shows that a statement is within a routine, if it is among the numbers.
    fn routine<'a>(&self, layout: &'a StatementLayout) -> Option<&'a Location> {
        self.places.bit(FieldName::Routine)?;
        layout.location(FieldName::Routine)
    }

    /// The kernel half's settings.
    pub(super) fn config(
        &self,
        layout: &StatementLayout,
        site: &Site,
        hooks: &[HookSite],
        options: &Options,
    ) -> types::statement_config {
        let offset = |at: Option<&Location>| at.map_or(-1, |at| at.offset.cast_signed());
        let place = |name| layout.location(name);
        let user = place(FieldName::User);
        let context = user.and_then(|at| at.derefs.first());
        let host = place(FieldName::ClientHost).filter(|at| at.derefs.first() == context);
        let wait = hooks.iter().find(|hook| hook.hook == Hook::MetadataWait);
        let mut config = types::statement_config {
            thd_register: u32::from(site.register.0),
            stage_register: wait
                .and_then(|hook| hook.arguments.get(2))
                .map_or(8, |register| u32::from(register.0)),
            query: offset(place(FieldName::Query)),
            database: offset(place(FieldName::Database)),
            start_time: offset(place(FieldName::StartTime)),
            area: self.area.map_or(-1, u32::cast_signed),
            context: context.map_or(-1, |at| at.cast_signed()),
            user: offset(user),
            host: offset(host),
            length_follows: user.is_some_and(|at| at.length_follows).into(),
            routine: offset(self.routine(layout)),
            routine_width: self.routine(layout).map_or(0, |at| at.width.into()),
            text_max: options.text_bytes_max.clamp(64, TEXT_BYTES_MAX),
            ..Default::default()
        };
        let mut next = 0;
        let all = self.spans.iter().zip(&mut config.spans);
        for (numbers, span) in all.chain(self.area_spans.iter().zip(&mut config.area_spans)) {
            next = write_span(numbers, span, &mut config.numbers, next);
        }
        config
    }
}

/// Writes one span and its numbers, the first of which is the `next` of all; returns the one
/// after the last.
fn write_span(
    numbers: &[Number],
    span: &mut types::statement_span,
    all: &mut [types::statement_number; NUMBERS],
    next: u32,
) -> u32 {
    let from = start_of(numbers);
    span.from = from.cast_signed();
    span.bytes = (end_of(numbers) - from).next_multiple_of(8);
    span.first = next;
    span.end = next + u32::try_from(numbers.len()).unwrap_or(0);
    for (number, place) in numbers.iter().zip(&mut all[next as usize..]) {
        place.at = u16::try_from(number.offset - from).unwrap_or(0);
        place.to = u16::try_from(number.to).unwrap_or(0);
        place.width = u32::from(number.width);
    }
    span.end
}

fn start_of(numbers: &[Number]) -> u32 {
    numbers.first().map_or(0, |first| first.offset & !7)
}

fn end_of(numbers: &[Number]) -> u32 {
    numbers
        .iter()
        .map(|number| number.offset + u32::from(number.width))
        .max()
        .unwrap_or(0)
}

/// Puts numbers that stand close together into one group each; at most `limit` groups.
fn group(mut numbers: Vec<Number>, limit: usize) -> Vec<Vec<Number>> {
    // The kernel half reads them from its stack, where they have to be aligned.
    numbers.retain(|number| number.offset % u32::from(number.width) == 0);
    numbers.sort_by_key(|number| number.offset);
    let mut groups: Vec<Vec<Number>> = Vec::new();
    for number in numbers {
        let end = number.offset + u32::from(number.width);
        match groups.last_mut() {
            Some(group) if end - start_of(group) <= SPAN_BYTES_MAX - 8 => group.push(number),
            _ => groups.push(vec![number]),
        }
    }
    groups.truncate(limit);
    groups
}
