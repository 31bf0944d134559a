//! What scripts see of results and of errors.

use crate::Dialect::V1_1;

use super::rows::run;

#[test]
fn rows_are_arrays_of_strings_with_holes_and_end_with_nil() {
    run(
        V1_1,
        "local rs = con:query('sets 2x3')
         assert(rs ~= nil and rs.nrows == 2 and rs.nfields == 3, 'size')
         assert(tostring(rs) == '<sql_result>')
         assert(rs.counter == ffi.C.SB_CNT_READ and rs.statement == nil)
         local row = rs:fetch_row()
         assert(row[1] == '0.0.0' and row[2] == '0.0.1' and row[3] == nil)
         assert(rs:fetch_row()[1] == '0.1.0')
         assert(rs:fetch_row() == nil and rs:fetch_row() == nil)
         rs:free()
         local a, b, c = con:query_row('sets 1x3')
         assert(a == '0.0.0' and b == '0.0.1' and c == nil)
         assert(con:query_row('sets 1x1') == '0.0.0')
         for columns = 2, 8 do
           local row = { con:query_row('sets 1x' .. columns) }
           assert(#row >= columns - 1 and row[columns] == nil)
           for i = 1, columns - 1 do assert(row[i] == '0.0.' .. (i - 1)) end
         end
         assert(con:query_row('sets 0x3') == nil and con:query_row('affects 1') == nil)",
    );
}

#[test]
fn a_statement_without_rows_gives_a_null_pointer_that_is_safe() {
    run(
        V1_1,
        "local rs = con:query('affects 3')
         assert(rs == nil and tostring(rs) == '<sql_result>')
         if not rs then error('it is true in a condition, as in sysbench') end
         assert(rs.nrows == 0 and rs.nfields == 0 and rs:fetch_row() == nil)
         assert(rs.counter == ffi.C.SB_CNT_WRITE and rs.row == nil and rs.ptr == nil)
         assert(rs.affected == 3)
         rs:free()
         local st = con:prepare('affects 2')
         assert(st:execute() == nil and st:execute().nrows == 0)",
    );
}

#[test]
fn a_result_that_is_gone_is_an_error_and_never_other_rows() {
    run(
        V1_1,
        "local old = con:query('sets 2x2')
         old:fetch_row()
         local other = sysbench.sql.driver():connect()
         other:query('sets 1x1')
         assert(old:fetch_row()[1] == '0.1.0', 'connections do not disturb each other')
         local again = con:query('sets 2x2')
         fails_with('the rows of this result are gone', old.fetch_row, old)
         again:free()
         fails_with('the rows of this result are gone', again.fetch_row, again)
         local last = con:query('sets 2x2')
         con:disconnect()
         fails_with('the rows of this result are gone', last.fetch_row, last)
         fails_with('the connection is closed', con.query, con, 'sets 1x1')
         con:reconnect()
         fails_with('the rows of this result are gone', last.fetch_row, last)
         assert(con:query('sets 1x1').nrows == 1)",
    );
}

#[test]
fn result_sets_of_one_text_follow_each_other() {
    run(
        V1_1,
        "local first = con:query('sets 1x1 3x2 2x1')
         assert(first.nrows == 1 and con:more_results())
         local second = con:next_result()
         assert(second.nrows == 3 and second.nfields == 2)
         assert(second:fetch_row()[1] == '1.0.0')
         assert(con:next_result():fetch_row()[1] == '2.0.0')
         assert(not con:more_results() and con:next_result() == nil)
         assert(first:fetch_row()[1] == '0.0.0', 'all sets of a text are kept')",
    );
}

#[test]
fn prepared_statements_count_rows_and_reuse_their_result() {
    run(
        V1_1,
        "local st = con:prepare('sets 4x1 ?')
         assert(tostring(st) == '<sql_statement>' and st.connection == con)
         local id = st:bind_create(sysbench.sql.type.INT)
         assert(tostring(id) == '<sql_param>' and id.type == sysbench.sql.type.BIGINT)
         st:bind_param(id)
         id:set(1)
         local rs = st:execute()
         assert(rs.nrows == 4 and rs == st:execute() and rs.statement == st)
         fails_with('rows of prepared statements are not kept', rs.fetch_row, rs)
         fails_with('Unsupported argument type: 8', st.bind_create, st, sysbench.sql.type.DATE)
         fails_with('set_rand_str is for text', id.set_rand_str, id, '###')
         local text = st:bind_create(sysbench.sql.type.CHAR, 3)
         text:set_rand_str('a##b')
         assert(ffi.string(text.buffer, text.data_len[0]):match('^a%d%d$') and text.max_len == 3)
         st:close()",
    );
}

#[test]
fn errors_are_text_but_for_those_that_restart_an_event() {
    run(
        V1_1,
        "assert(con.error == 0 and con.sql_errno == 0 and con.sql_errmsg == '')
         local wanted = \"SQL error, errno = 1064, state = 'HY000': as asked\"
         local err = fails_with(wanted, con.query, con, 'fails 1064')
         assert(type(err) == 'string' and err:match('^mine.lua:%d+: SQL error'))
         assert(con.sql_errno == 1064 and con.sql_state == 'HY000' and con.sql_errmsg == 'as asked')
         assert(con.error == sysbench.sql.error.FATAL)
         fails_with(wanted, con.check_error, con, nil, 'mine')
         err = fails_with('errno = 1213', con.query, con, 'fails 1213')
         assert(err.errcode == sysbench.error.RESTART_EVENT)
         assert(err.sql_errno == 1213 and err.sql_state == 'HY000' and err.connection == con)
         assert(err.query == 'fails 1213' and ('x' .. err):find('errno = 1213', 1, true))
         assert(con.error == sysbench.sql.error.IGNORABLE)
         local rs = con:query('sets 1x1')
         assert(con.error == 0 and con.sql_errno == 0 and con:check_error(rs, 'q') == rs)
         err = fails_with('not to be prepared', con.prepare, con, 'unpreparable')
         assert(type(err) == 'string', 'a failed prepare is fatal')
         sysbench.hooks.sql_error_ignorable = function(e) return e.sql_errno == 1064 end
         err = fails_with('errno = 1064', con.query, con, 'fails 1064')
         assert(err.errcode == sysbench.error.RESTART_EVENT)
         fails_with('a statement is text, not nil', con.query, con, nil)
         fails_with('failed to initialize the DB driver', sysbench.sql.driver, 'other')",
    );
}
