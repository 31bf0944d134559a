//! The functions that the Lua prelude calls through LuaJIT's FFI.
//!
//! They are handed to Lua as addresses and cast to their C types there (`TYPES` is the contract),
//! because calls through typed function pointers are compiled into the traces of a script, while
//! calls of registered Lua functions end them. No symbol has to be exported from the program.
//!
//! Invariant: no function here calls Lua, raises a Lua error or unwinds; errors are statuses, and
//! their text waits in the context.

mod structures;

pub(crate) use structures::STRUCTURES;

use std::ffi::{c_char, c_void};
use std::slice;

use crate::context::{Context, Field, NoRow, Status};
use crate::driver::Value;
use crate::rand::Distribution;
use structures::{Bind, ColumnIn, ErrorOut, OutcomeOut, bytes, described, store, value_of};

/// Answers of `fetch` that are no number of fields.
const NO_MORE_ROWS: i32 = -1;
const RESULT_GONE: i32 = -2;

/// Name, C type and address of every function.
pub(crate) fn functions() -> Vec<(&'static str, &'static str, *mut c_void)> {
    macro_rules! table {
        ($($name:ident: $c_type:literal,)*) => {
            vec![$((stringify!($name), $c_type, $name as *mut c_void)),*]
        };
    }
    table! {
        may_run: "int (*)(void *)",
        may_retry: "int (*)(void *)",
        event_begin: "void (*)(void *)",
        event_end: "void (*)(void *)",
        connect: "int (*)(void *, uint32_t *)",
        disconnect: "void (*)(void *, uint32_t)",
        query: "int (*)(void *, uint32_t, const char *, size_t, waggle_outcome *)",
        reconnect: "int (*)(void *, uint32_t)",
        result_set: "int (*)(void *, uint32_t, uint32_t, waggle_outcome *)",
        fetch: "int (*)(void *, uint32_t, uint32_t, uint32_t, double)",
        fields: "const waggle_field *(*)(void *)",
        prepare: "int (*)(void *, uint32_t, const char *, size_t, uint32_t *)",
        execute: "int (*)(void *, uint32_t, uint32_t, const waggle_bind *, uint32_t, \
                  waggle_outcome *)",
        close_statement: "int (*)(void *, uint32_t, uint32_t)",
        bulk_begin: "int (*)(void *, uint32_t, const char *, size_t)",
        bulk_add: "int (*)(void *, uint32_t, const char *, size_t)",
        bulk_flush: "int (*)(void *, uint32_t)",
        load: "int (*)(void *, uint32_t, const char *, size_t, const waggle_column *, uint32_t, \
               double)",
        last_error: "void (*)(void *, waggle_error *)",
        count: "void (*)(void *, uint32_t, double)",
        counted: "double (*)(void *, uint32_t)",
        operation: "uint32_t (*)(void *, const char *, size_t)",
        label: "void (*)(void *, uint32_t)",
        counter: "uint32_t (*)(void *, const char *, size_t)",
        add: "void (*)(void *, uint32_t, double)",
        sleep: "int (*)(void *, double)",
        begin_event: "int (*)(void *)",
        barrier: "int (*)(void *)",
        rand_uniform_uint64: "uint64_t (*)(void *)",
        rand_unit: "double (*)(void *)",
        rand_unique: "double (*)(void *)",
        rand_default: "double (*)(void *, double, double)",
        rand_uniform: "double (*)(void *, double, double)",
        rand_gaussian: "double (*)(void *, double, double)",
        rand_special: "double (*)(void *, double, double)",
        rand_pareto: "double (*)(void *, double, double)",
        rand_zipfian: "double (*)(void *, double, double)",
        rand_string: "void (*)(void *, const char *, size_t, char *)",
        rand_varstring: "size_t (*)(void *, size_t, size_t, char *)",
    }
}

/// The context behind the pointer that the prelude passes on.
///
/// # Safety
/// `context` is the pointer the state gave to its prelude; the state keeps the context alive and
/// unmoved, one thread runs the state, and no function here re-enters Lua, so this is the only
/// reference.
unsafe fn the<'a>(context: *mut Context) -> &'a mut Context {
    // SAFETY: as above.
    unsafe { &mut *context }
}

fn code<T>(result: Result<T, Status>) -> i32 {
    match result {
        Ok(_) => Status::Done as i32,
        Err(status) => status as i32,
    }
}

/// Declares the exported functions: each gets its context from the first argument, and its body
/// runs under the promises of [`the`] and [`bytes`].
macro_rules! api {
    ($(
        fn $name:ident($context:ident $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?
        $body:block
    )*) => {
        $(unsafe extern "C" fn $name($context: *mut Context $(, $argument: $kind)*) $(-> $result)? {
            // SAFETY: called by the prelude only, with the context and live buffers of its state.
            let $context = unsafe { the($context) };
            $body
        })*
    };
}

api! {
    fn may_run(context) -> i32 { i32::from(context.may_run()) }

    fn may_retry(context) -> i32 { context.may_retry() as i32 }

    fn event_begin(context) { context.event_begin() }

    fn event_end(context) { context.event_end() }

    fn connect(context, connection: *mut u32) -> i32 {
        code(context.connect().map(|number| {
            // SAFETY: the prelude passes a cell of its own.
            unsafe { *connection = number }
        }))
    }

    fn disconnect(context, connection: u32) { context.disconnect(connection) }

    fn query(
        context, connection: u32, sql: *const c_char, length: usize, out: *mut OutcomeOut
    ) -> i32 {
        // SAFETY: a Lua string with its length, and a structure of the prelude.
        let (sql, out) = unsafe { (bytes(sql, length), &mut *out) };
        let result = context.query(connection, sql);
        let kept = context.result_set(connection, 0);
        let serial = context.result_serial(connection);
        let status = store(out, result);
        if let (Some((rows, columns)), 0) = (kept, status) {
            // The first set's alone: scripts read the sets one after the other.
            (out.rows, out.columns, out.serial) = (rows, columns, serial);
        }
        status
    }

    fn reconnect(context, connection: u32) -> i32 { code(context.reconnect(connection)) }

    fn result_set(context, connection: u32, set: u32, out: *mut OutcomeOut) -> i32 {
        let Some((rows, columns)) = context.result_set(connection, set) else {
            return 0;
        };
        // SAFETY: a structure of the prelude.
        unsafe {
            (*out).rows = rows;
            (*out).columns = columns;
            (*out).serial = context.result_serial(connection);
        }
        1
    }

    fn fetch(context, connection: u32, serial: u32, set: u32, row: f64) -> i32 {
        match context.fetch(connection, serial, set, row as u64) {
            Ok(()) => context.row.len() as i32,
            Err(NoRow::End) => NO_MORE_ROWS,
            Err(NoRow::Gone) => RESULT_GONE,
        }
    }

    fn fields(context) -> *const Field { context.row.as_ptr() }

    fn count(context, kind: u32, amount: f64) { context.count(kind, amount) }

    fn counted(context, kind: u32) -> f64 { context.counted(kind) }

    fn operation(context, name: *const c_char, length: usize) -> u32 {
        // SAFETY: a Lua string with its length.
        let name = unsafe { bytes(name, length) };
        context.operation(&String::from_utf8_lossy(name))
    }

    fn label(context, operation: u32) { context.label(operation) }

    fn counter(context, name: *const c_char, length: usize) -> u32 {
        // SAFETY: a Lua string with its length.
        let name = unsafe { bytes(name, length) };
        context.counter(&String::from_utf8_lossy(name))
    }

    fn add(context, counter: u32, amount: f64) { context.add(counter, amount) }

    fn sleep(context, seconds: f64) -> i32 { i32::from(context.sleep(seconds)) }

    fn begin_event(context) -> i32 { i32::from(context.begin_event()) }

    fn barrier(context) -> i32 { context.barrier() as i32 }

    fn prepare(
        context, connection: u32, sql: *const c_char, length: usize, statement: *mut u32
    ) -> i32 {
        // SAFETY: a Lua string with its length.
        let sql = unsafe { bytes(sql, length) };
        code(context.prepare(connection, sql).map(|handle| {
            // SAFETY: the prelude passes a cell of its own.
            unsafe { *statement = handle }
        }))
    }

    fn execute(
        context, connection: u32, statement: u32, binds: *const Bind, count: u32,
        out: *mut OutcomeOut
    ) -> i32 {
        // SAFETY: an array of `count` binds and a structure, both of the prelude.
        let (binds, out) = unsafe {
            let binds = match count {
                0 => &[],
                count => slice::from_raw_parts(binds, count as usize),
            };
            (binds, &mut *out)
        };
        const INLINE: usize = 16;
        if let Some(values) = [Value::Null; INLINE].get_mut(..binds.len()) {
            for (value, bind) in values.iter_mut().zip(binds) {
                // SAFETY: the prelude keeps the buffers of a bound parameter alive.
                *value = unsafe { value_of(bind) };
            }
            return store(out, context.execute(connection, statement, values));
        }
        // SAFETY: as above.
        let values: Vec<Value<'_>> = binds.iter().map(|bind| unsafe { value_of(bind) }).collect();
        store(out, context.execute(connection, statement, &values))
    }

    fn close_statement(context, connection: u32, statement: u32) -> i32 {
        context.close_statement(connection, statement) as i32
    }

    fn bulk_begin(context, connection: u32, head: *const c_char, length: usize) -> i32 {
        // SAFETY: a Lua string with its length.
        let head = unsafe { bytes(head, length) };
        context.bulk_begin(connection, head) as i32
    }

    fn bulk_add(context, connection: u32, values: *const c_char, length: usize) -> i32 {
        // SAFETY: a Lua string with its length.
        let values = unsafe { bytes(values, length) };
        code(context.bulk_add(connection, values))
    }

    fn bulk_flush(context, connection: u32) -> i32 { code(context.bulk_flush(connection)) }

    fn load(
        context, connection: u32, table: *const c_char, length: usize, columns: *const ColumnIn,
        count: u32, rows: f64
    ) -> i32 {
        // SAFETY: a Lua string with its length, and an array of `count` columns of the prelude.
        let (table, columns) = unsafe {
            (bytes(table, length), slice::from_raw_parts(columns, count as usize))
        };
        let names: Vec<_> = columns
            .iter()
            // SAFETY: the prelude keeps the strings of the columns alive.
            .map(|column| unsafe { bytes(column.name, column.name_length) })
            .map(String::from_utf8_lossy)
            .collect();
        let described: Vec<_> = columns
            .iter()
            .zip(&names)
            // SAFETY: as above.
            .map(|(column, name)| unsafe { described(column, name) })
            .collect();
        let table = String::from_utf8_lossy(table);
        code(context.load(connection, &table, &described, rows as u64))
    }

    fn last_error(context, out: *mut ErrorOut) {
        let error = &context.last_error;
        let filled = ErrorOut {
            errno: u32::from(error.errno),
            sqlstate_len: error.sqlstate.len() as u32,
            message_len: error.message.len() as u64,
            statement_len: error.statement.len() as u64,
            words_len: error.words.len() as u64,
            sqlstate: error.sqlstate.as_ptr().cast(),
            message: error.message.as_ptr().cast(),
            statement: error.statement.as_ptr().cast(),
            words: error.words.as_ptr().cast(),
        };
        // SAFETY: the prelude passes a structure of its own and copies the texts at once.
        unsafe { *out = filled };
    }

    fn rand_uniform_uint64(context) -> u64 { context.rand.next_u64() }

    fn rand_unit(context) -> f64 { context.rand.unit() }

    fn rand_unique(context) -> f64 { f64::from(context.rand.unique()) }

    fn rand_default(context, low: f64, high: f64) -> f64 {
        context.rand.default_value(low as i64, high as i64) as f64
    }

    fn rand_uniform(context, low: f64, high: f64) -> f64 {
        context.rand.uniform(low as i64, high as i64) as f64
    }

    fn rand_gaussian(context, low: f64, high: f64) -> f64 {
        context.rand.drawn(Distribution::Gaussian, low as i64, high as i64) as f64
    }

    fn rand_special(context, low: f64, high: f64) -> f64 {
        context.rand.drawn(Distribution::Special, low as i64, high as i64) as f64
    }

    fn rand_pareto(context, low: f64, high: f64) -> f64 {
        context.rand.drawn(Distribution::Pareto, low as i64, high as i64) as f64
    }

    fn rand_zipfian(context, low: f64, high: f64) -> f64 {
        context.rand.drawn(Distribution::Zipfian, low as i64, high as i64) as f64
    }

    fn rand_string(context, format: *const c_char, length: usize, out: *mut c_char) {
        // SAFETY: a Lua string with its length, and a buffer that the prelude made as long.
        let (format, out) = unsafe {
            (bytes(format, length), slice::from_raw_parts_mut(out.cast::<u8>(), length))
        };
        context.rand.fill(format, out);
    }

    fn rand_varstring(context, min: usize, max: usize, out: *mut c_char) -> usize {
        // SAFETY: a buffer that the prelude made at least `max` bytes long.
        let out = unsafe { slice::from_raw_parts_mut(out.cast::<u8>(), max) };
        context.rand.fill_varied(min, max, out)
    }
}
