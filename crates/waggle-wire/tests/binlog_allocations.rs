//! Does a walk over the rows of a binary log allocate?

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use waggle_wire::binlog::event::kind;
use waggle_wire::binlog::rows::RowsEvent;
use waggle_wire::binlog::table_map::TableMap;

const ROWS: usize = 1000;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// INT, DECIMAL(5,2), DATETIME(3), DOUBLE, VARCHAR(300), all of which may be NULL.
fn table() -> TableMap {
    let mut body = b"\x07\0\0\0\0\0\x01\0\x02db\0\x01t\0\x05\x03\xf6\x12\x05\x0f".to_vec();
    body.extend_from_slice(b"\x06\x05\x02\x03\x08\x2c\x01\x1f");
    TableMap::parse(&body).unwrap()
}

/// Updates: a row with values becomes one with a NULL.
fn updates() -> Vec<u8> {
    let mut body = b"\x07\0\0\0\0\0\x01\0\x02\0\x05\x1f\x1f".to_vec();
    for row in 0..ROWS as u32 {
        for nulls in [0u8, 0b10000] {
            body.push(nulls);
            body.extend_from_slice(&row.to_le_bytes());
            body.extend_from_slice(b"\x80\x7b\x2d\x99\xb8\xa8\0\0\0\x0a");
            body.extend_from_slice(&(-f64::from(row) / 3.0).to_le_bytes());
            if nulls == 0 {
                body.extend_from_slice(b"\x05\0a\tb\\'");
            }
        }
    }
    body
}

/// Writes every value in its three texts; gives how many and how many bytes.
fn pass(table: &TableMap, body: &[u8], out: &mut Vec<u8>) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    let event = RowsEvent::parse(kind::UPDATE_ROWS, body).unwrap().unwrap();
    let mut rows = event.rows(table).unwrap();
    while let Some(change) = rows.next().unwrap() {
        out.clear();
        for image in [change.before, change.after].into_iter().flatten() {
            for value in image.values() {
                let (_, value) = value.unwrap();
                value.text(out).unwrap();
                value.field(out).unwrap();
                value.literal(out).unwrap();
                count += 1;
            }
        }
        bytes += out.len();
    }
    (count, bytes)
}

// One test in this file: the counter is of the whole process.
#[test]
fn rows_and_their_texts_allocate_nothing_once_the_buffer_is_large_enough() {
    let (table, body) = (table(), updates());
    let mut out = Vec::with_capacity(4096);
    let cold = pass(&table, &body, &mut out);
    assert_eq!(cold.0, ROWS * 10);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(pass(&table, &body, &mut out), cold);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}
