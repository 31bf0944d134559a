//! The structures that the prelude and the functions pass each other, and what is in them.
//!
//! Invariant: a structure here and its declaration in [`STRUCTURES`] have the same fields in the
//! same order.

use std::ffi::{c_char, c_void};
use std::slice;

use crate::context::Status;
use crate::described::{Column, Values};
use crate::driver::{Outcome, Value};

/// C declarations of the structures below, for `ffi.cdef`.
pub(crate) const STRUCTURES: &str = "
typedef struct {
  uint64_t rows; uint64_t affected; uint64_t last_insert_id; uint32_t result_sets;
  uint32_t serial; uint32_t columns;
} waggle_outcome;
typedef struct { const char *data; size_t length; } waggle_field;
typedef struct {
  int32_t type; int32_t reserved;
  const void *buffer; const uint64_t *data_len; const char *is_null;
} waggle_bind;
typedef struct {
  const char *name; size_t name_length; const char *format; size_t format_length;
  double low; double high; int32_t kind; int32_t reserved;
} waggle_column;
typedef struct {
  uint32_t errno_; uint32_t sqlstate_len; uint64_t message_len; uint64_t statement_len;
  uint64_t words_len;
  const char *sqlstate; const char *message; const char *statement; const char *words;
} waggle_error;
";

/// What a statement did, filled in place.
#[repr(C)]
pub(super) struct OutcomeOut {
    pub(super) rows: u64,
    pub(super) affected: u64,
    pub(super) last_insert_id: u64,
    pub(super) result_sets: u32,
    /// Names the rows that were kept, see [`Context::fetch`](crate::context::Context::fetch).
    pub(super) serial: u32,
    /// Columns of the first result set of a text statement.
    pub(super) columns: u32,
}

/// One bound parameter; the buffers belong to the script and live as long as its statement.
#[repr(C)]
pub(super) struct Bind {
    /// A number of `sysbench.sql.type`.
    pub(super) kind: i32,
    pub(super) reserved: i32,
    pub(super) buffer: *const c_void,
    pub(super) data_len: *const u64,
    pub(super) is_null: *const c_char,
}

/// A column of a table to be loaded.
#[repr(C)]
pub(super) struct ColumnIn {
    pub(super) name: *const c_char,
    pub(super) name_length: usize,
    pub(super) format: *const c_char,
    pub(super) format_length: usize,
    pub(super) low: f64,
    pub(super) high: f64,
    /// One of the `VALUES_` numbers.
    pub(super) kind: i32,
    pub(super) reserved: i32,
}

#[repr(C)]
pub(super) struct ErrorOut {
    pub(super) errno: u32,
    pub(super) sqlstate_len: u32,
    pub(super) message_len: u64,
    pub(super) statement_len: u64,
    pub(super) words_len: u64,
    pub(super) sqlstate: *const c_char,
    pub(super) message: *const c_char,
    pub(super) statement: *const c_char,
    pub(super) words: *const c_char,
}

/// What a column's values are; the numbers are those of `waggle.lua`.
const VALUES_SEQUENCE: i32 = 0;
const VALUES_INTEGER: i32 = 1;

// Numbers of `sysbench.sql.type`, as sysbench's documentation gives them.
const TYPE_FLOAT: i32 = 5;
const TYPE_DOUBLE: i32 = 6;
const TYPE_CHAR: i32 = 11;
const TYPE_VARCHAR: i32 = 12;

/// Bytes of a Lua string or buffer.
///
/// # Safety
/// `data` points to `length` readable bytes that stay put during the call.
pub(super) unsafe fn bytes<'a>(data: *const c_char, length: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: as above.
    unsafe { slice::from_raw_parts(data.cast(), length) }
}

pub(super) fn store(out: &mut OutcomeOut, result: Result<Outcome, Status>) -> i32 {
    match result {
        Ok(Outcome {
            statements: _,
            result_sets,
            rows,
            affected,
            last_insert_id,
        }) => {
            *out = OutcomeOut {
                rows,
                affected,
                last_insert_id,
                result_sets,
                serial: 0,
                columns: 0,
            };
            Status::Done as i32
        }
        Err(status) => status as i32,
    }
}

/// # Safety
/// The format of `column` is a live Lua string, or null.
pub(super) unsafe fn described<'a>(column: &'a ColumnIn, name: &'a str) -> Column<'a> {
    let (low, high) = (column.low as i64, column.high as i64);
    let values = match column.kind {
        VALUES_SEQUENCE => Values::Sequence { first: low },
        VALUES_INTEGER => Values::Integer { low, high },
        _ => Values::Text {
            // SAFETY: as above.
            format: unsafe { bytes(column.format, column.format_length) },
        },
    };
    Column { name, values }
}

/// # Safety
/// The pointers of `bind` are those of a live parameter of the prelude: a null flag, a length, and
/// a buffer of the type's size.
pub(super) unsafe fn value_of<'a>(bind: &Bind) -> Value<'a> {
    // SAFETY: as above.
    unsafe {
        if *bind.is_null != 0 {
            return Value::Null;
        }
        match bind.kind {
            TYPE_FLOAT | TYPE_DOUBLE => Value::Double(*bind.buffer.cast()),
            TYPE_CHAR | TYPE_VARCHAR => {
                Value::Bytes(bytes(bind.buffer.cast(), *bind.data_len as usize))
            }
            _ => Value::Int(*bind.buffer.cast()),
        }
    }
}
