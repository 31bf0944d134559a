//! How each field's place follows from the code of exported functions.
//!
//! Every server exports tiny accessors for its plugins, and member functions that touch one
//! field; what they read and write gives the offset. A recipe concludes only from a pattern that
//! is unique in its function, and names the functions it used. Several recipes for one field must
//! agree, or the field is refused.

mod work;

use crate::elf::{Binary, Function};
use crate::hook;
use crate::layout::{FieldName, Location, Source};
use crate::mark;
use crate::trace::{Expression, Trace, trace};

/// Greatest offset that is believed to lie within a session object, bytes.
const OFFSET_MAX: i64 = 1 << 20;

const THD_QUERY_SAFE: &str = "_Z14thd_query_safeP3THDPcm";
const SET_QUERY: &str = "_ZN3THD9set_query";
const SET_DB: &str = "_ZN3THD6set_dbE";
const GET_SECURITY_CONTEXT: &str = "_Z24thd_get_security_contextP3THDPP16Security_context";
const SECURITY_CONTEXT_USER: &str = "_ZNK16Security_context4userEv";
const SET_TIME: &str = "_ZN3THD8set_timeEv";
const UPDATE_SLOW_QUERY_STATUS: &str = "_ZN3THD24update_slow_query_statusEv";
const TIME_OUT_LIMITS: &str = "_Z29time_out_user_resource_limitsP3THDP9user_conn";
const INC_SENT: &str = "_ZN3THD18inc_sent_row_countEy";
const INC_EXAMINED: &str = "_ZN3THD22inc_examined_row_countEy";
const SET_COMMAND: &str = "_ZN3THD11set_commandE19enum_server_command";
const SEND_STATEMENT_STATUS: &str = "_ZN3THD21send_statement_statusEv";
const SET_ERROR_STATUS: &str = "_ZN16Diagnostics_area16set_error_statusEjPKcS1_";

/// True for the functions that recipes and probe sites need from a server binary.
pub fn wanted(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        "thd_query_string",
        "thd_current_db",
        "thd_user_name",
        "thd_get_thread_id",
        "thd_storage_lock_wait",
        "thd_get_error_number",
        THD_QUERY_SAFE,
        SET_QUERY,
        SET_DB,
        GET_SECURITY_CONTEXT,
        SECURITY_CONTEXT_USER,
        SET_TIME,
        UPDATE_SLOW_QUERY_STATUS,
        TIME_OUT_LIMITS,
        INC_SENT,
        INC_EXAMINED,
        SEND_STATEMENT_STATUS,
        SET_COMMAND,
        "thd_current_command",
    ];
    const PREFIXES: [&str; 3] = [
        SET_ERROR_STATUS,
        "_Z18log_slow_statementP3THD",
        "_Z16dispatch_command",
    ];
    NAMES
        .iter()
        .chain(&PREFIXES)
        .chain(&work::NAMES)
        .any(|wanted| name.starts_with(wanted))
        || hook::wanted(name)
        || mark::wanted(name)
}

type Recipe = fn(&Binary) -> Option<Location>;

/// The ways to find `name`, each with the functions it reads.
fn recipes(name: FieldName) -> &'static [(&'static str, Recipe)] {
    match name {
        FieldName::Query => &[
            ("thd_query_string", mariadb_query),
            ("thd_query_safe and THD::set_query", mysql_query),
        ],
        FieldName::Database => &[
            ("thd_current_db", mariadb_database),
            ("THD::set_db", mysql_database),
        ],
        FieldName::User => &[
            ("thd_user_name", mariadb_user),
            (
                "thd_get_security_context and Security_context::user",
                mysql_user,
            ),
        ],
        FieldName::ConnectionId => &[("thd_get_thread_id", connection_id)],
        FieldName::StartTime => &[
            (
                "thd_storage_lock_wait and time_out_user_resource_limits",
                mariadb_start,
            ),
            (
                "THD::set_time and THD::update_slow_query_status",
                mysql_start,
            ),
        ],
        FieldName::RowsSent => &[("THD::inc_sent_row_count", rows_sent)],
        FieldName::RowsExamined => &[("THD::inc_examined_row_count", rows_examined)],
        FieldName::ErrorNumber => &[
            ("thd_get_error_number", mariadb_error),
            (
                "THD::send_statement_status and Diagnostics_area::set_error_status",
                mysql_error,
            ),
        ],
        FieldName::Command => &[
            ("thd_current_command", mariadb_command),
            ("THD::set_command", mysql_command),
        ],
        _ => work::recipes(name),
    }
}

/// Finds `name` by decoding; the error says which functions were missing or unclear.
pub fn decode(binary: &Binary, name: FieldName) -> Result<(Location, Source), String> {
    let recipes = recipes(name);
    let mut found: Option<(Location, &str)> = None;
    for (from, recipe) in recipes {
        let Some(location) = recipe(binary) else {
            continue;
        };
        match &found {
            None => found = Some((location, from)),
            Some((first, _)) if *first == location => {}
            Some((first, other)) => {
                return Err(format!("{other} says {first}, {from} says {location}"));
            }
        }
    }
    found
        .map(|(location, from)| (location, Source::Decoded(from.to_owned())))
        .ok_or_else(|| {
            let tried: Vec<&str> = recipes.iter().map(|(from, _)| *from).collect();
            format!(
                "this build has no usable {}",
                tried.join(", and no usable ")
            )
        })
}

fn offset(value: i64) -> Option<u32> {
    (0..OFFSET_MAX)
        .contains(&value)
        .then(|| u32::try_from(value).ok())?
}

fn traced(binary: &Binary, name: &str) -> Option<Trace> {
    binary.function(name).map(|f| trace(&f))
}

fn traced_prefix(binary: &Binary, prefix: &str) -> Option<Trace> {
    binary
        .function_by_prefix(prefix)
        .map(|f: Function| trace(&f))
}

/// The one value that every element of `values` has.
fn single<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The value returned in `rax`, over the returns that dereference `derefs` times.
fn returned(trace: &Trace, derefs: usize) -> Option<Expression> {
    single(
        trace
            .returns
            .iter()
            .filter_map(|(rax, _)| rax.clone())
            .filter(|rax| rax.argument == 0 && rax.derefs.len() == derefs),
    )
}

/// The one offset `x` for which both `x` and `x + 8` are among `offsets`.
fn adjacent_pair(offsets: &[i64]) -> Option<i64> {
    single(
        offsets
            .iter()
            .copied()
            .filter(|x| offsets.contains(&(x + 8))),
    )
}

/// `lea off(%rdi), %rax; ret`: the address of a pointer and length.
fn returned_text(binary: &Binary, accessor: &str) -> Option<Location> {
    let at = returned(&traced(binary, accessor)?, 0)?;
    Some(Location::text(offset(at.offset)?))
}

fn mariadb_query(binary: &Binary) -> Option<Location> {
    returned_text(binary, "thd_query_string")
}

fn mysql_query(binary: &Binary) -> Option<Location> {
    let safe = traced(binary, THD_QUERY_SAFE)?;
    let read: Vec<i64> = safe
        .direct(0, 8)
        .filter(|a| a.reads)
        .map(|a| a.address.offset)
        .collect();
    let at = adjacent_pair(&read)?;
    let set = traced_prefix(binary, SET_QUERY)?;
    let written = set
        .accesses
        .iter()
        .any(|a| a.writes && a.address.derefs.is_empty() && a.address.offset == at);
    written.then(|| offset(at).map(Location::text))?
}

fn mariadb_database(binary: &Binary) -> Option<Location> {
    returned_text(binary, "thd_current_db")
}

fn mysql_database(binary: &Binary) -> Option<Location> {
    // MariaDB has a THD::set_db too; its own accessor is the surer way there.
    if binary.function("thd_current_db").is_some() {
        return None;
    }
    let set = traced_prefix(binary, SET_DB)?;
    let written: Vec<i64> = set
        .direct(0, 8)
        .filter(|a| a.writes)
        .map(|a| a.address.offset)
        .collect();
    Some(Location::text(offset(adjacent_pair(&written)?)?))
}

fn mariadb_user(binary: &Binary) -> Option<Location> {
    let user = returned(&traced(binary, "thd_user_name")?, 2)?;
    let (context, at) = (offset(user.derefs[0])?, offset(user.derefs[1])?);
    (user.offset == 0).then(|| Location::behind(context, at, 8))
}

/// The offset in `THD` of the pointer to its security context.
fn mysql_context(binary: &Binary) -> Option<u32> {
    let getter = traced(binary, GET_SECURITY_CONTEXT)?;
    let context = single(getter.accesses.iter().filter_map(|a| {
        let stored = a.stored.as_ref()?;
        let plain = a.address.argument == 1 && stored.argument == 0 && stored.derefs.len() == 1;
        plain.then(|| stored.derefs[0])
    }))?;
    offset(context)
}

fn mysql_user(binary: &Binary) -> Option<Location> {
    let context = mysql_context(binary)?;
    let user = traced(binary, SECURITY_CONTEXT_USER)?;
    let (pointer, length) = user.returns.first()?;
    let (pointer, length) = (pointer.as_ref()?, length.as_ref()?);
    let shape = pointer.derefs.len() == 1 && length.derefs == [pointer.derefs[0] + 8];
    let mut location = Location::behind(context, offset(pointer.derefs[0])?, 8);
    location.length_follows = true;
    shape.then_some(location)
}

fn connection_id(binary: &Binary) -> Option<Location> {
    let id = returned(&traced(binary, "thd_get_thread_id")?, 1)?;
    Some(Location::direct(offset(id.derefs[0])?, id.width))
}

fn mariadb_start(binary: &Binary) -> Option<Location> {
    // The members are start_utime, utime_after_lock, utime_after_query, in this order.
    let lock_wait = traced(binary, "thd_storage_lock_wait")?;
    let after_lock = single(
        lock_wait
            .direct(0, 8)
            .filter(|a| a.writes)
            .map(|a| a.address.offset),
    )?;
    let limits = traced(binary, TIME_OUT_LIMITS)?;
    let start = limits.direct(0, 8).find(|a| a.reads)?.address.offset;
    (start == after_lock - 8).then(|| offset(start).map(|at| Location::direct(at, 8)))?
}

fn mysql_start(binary: &Binary) -> Option<Location> {
    let set = traced(binary, SET_TIME)?;
    let slow = traced(binary, UPDATE_SLOW_QUERY_STATUS)?;
    let both = slow
        .direct(0, 8)
        .filter(|a| a.reads)
        .map(|a| a.address.offset)
        .filter(|x| set.direct(0, 8).any(|a| a.writes && a.address.offset == *x));
    Some(Location::direct(offset(single(both)?)?, 8))
}

/// The one 8-byte field of `THD` that a member function adds its argument to.
fn counter(binary: &Binary, function: &str) -> Option<Location> {
    let increment = traced(binary, function)?;
    let written = single(
        increment
            .direct(0, 8)
            .filter(|a| a.writes)
            .map(|a| a.address.offset),
    )?;
    let read = increment
        .direct(0, 8)
        .any(|a| a.reads && a.address.offset == written);
    read.then(|| offset(written).map(|at| Location::direct(at, 8)))?
}

fn rows_sent(binary: &Binary) -> Option<Location> {
    counter(binary, INC_SENT)
}

fn rows_examined(binary: &Binary) -> Option<Location> {
    counter(binary, INC_EXAMINED)
}

fn mariadb_error(binary: &Binary) -> Option<Location> {
    let number = returned(&traced(binary, "thd_get_error_number")?, 2)?;
    let (area, at) = (offset(number.derefs[0])?, offset(number.derefs[1])?);
    (number.width == 4).then(|| Location::behind(area, at, 4))
}

/// The offset in `THD` of the pointer to its diagnostics area, by where its status stands.
fn mysql_area(binary: &Binary) -> Option<i64> {
    let set = traced(binary, SET_ERROR_STATUS)?;
    let status = single(
        set.direct(0, 4)
            .filter(|a| a.writes && a.immediate == Some(3))
            .map(|a| a.address.offset),
    )?;
    let send = traced(binary, SEND_STATEMENT_STATUS)?;
    single(send.accesses.iter().filter_map(|a| {
        let behind = a.address.argument == 0 && a.address.derefs.len() == 1 && a.size == 4;
        (behind && a.address.offset == status).then(|| a.address.derefs[0])
    }))
}

fn mysql_error(binary: &Binary) -> Option<Location> {
    let set = traced(binary, SET_ERROR_STATUS)?;
    let number = single(set.direct(0, 4).filter_map(|a| {
        let stored = a.stored.as_ref()?;
        let argument = stored.argument == 1 && stored.derefs.is_empty() && stored.offset == 0;
        (a.writes && argument).then_some(a.address.offset)
    }))?;
    let area = mysql_area(binary)?;
    Some(Location::behind(offset(area)?, offset(number)?, 4))
}

fn mariadb_command(binary: &Binary) -> Option<Location> {
    let command = returned(&traced(binary, "thd_current_command")?, 1)?;
    (command.width == 4).then(|| offset(command.derefs[0]).map(|at| Location::direct(at, 4)))?
}

fn mysql_command(binary: &Binary) -> Option<Location> {
    let set = traced(binary, SET_COMMAND)?;
    let at = single(set.direct(0, 4).filter_map(|a| {
        let stored = a.stored.as_ref()?;
        let argument = stored.argument == 1 && stored.derefs.is_empty() && stored.offset == 0;
        (a.writes && argument).then_some(a.address.offset)
    }))?;
    offset(at).map(|at| Location::direct(at, 4))
}
