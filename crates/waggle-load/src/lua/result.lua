-- The prelude: results of statements, sql_result.
--
-- A statement without a result set gives a null pointer, as in sysbench: `rs == nil` is true, and
-- it prints as <sql_result>. Its fields are functions here, so reading them is safe: no rows.
-- Rows stay with the connection until its next text statement; a result knows the number of its
-- statement, and fetching from one that is gone is an error, never another statement's rows.

local api, context, prelude = ...
local ffi = require("ffi")

local outcome = ffi.new("waggle_outcome")
prelude.outcome = outcome

-- By the engine's numbers; a statement is forgotten with the script's last reference to it.
local statements = setmetatable({}, { __mode = "v" })
local last_statement = 0

local methods, fields = {}, {}

function methods.fetch_row(rs)
  if rs == nil then
    return nil
  end
  if rs.statement_ ~= 0 then
    error("rows of prepared statements are not kept; use connection:query()", 2)
  end
  local count = api.fetch(context, rs.connection_, rs.serial_, rs.set_, rs.fetched_)
  if count >= 0 then
    rs.fetched_ = rs.fetched_ + 1
    return prelude.fetched_row(count)
  elseif count == -1 then
    return nil
  end
  error("the rows of this result are gone: its connection ran another statement, "
    .. "was closed or free() was called", 2)
end

function methods.free(rs)
  if rs ~= nil then
    rs.serial_ = 0 -- the number of no statement
  end
end

function fields.nrows(rs)
  return rs == nil and 0 or rs.rows_
end

function fields.nfields(rs)
  return rs == nil and 0 or rs.fields_
end

function fields.counter(rs)
  if rs ~= nil then
    return ffi.C.SB_CNT_READ
  end
  return outcome.affected > 0 and ffi.C.SB_CNT_WRITE or ffi.C.SB_CNT_OTHER
end

function fields.statement(rs)
  return rs ~= nil and statements[rs.statement_] or nil
end

-- Of the state's last statement: a null pointer carries nothing of its own.
function fields.affected()
  return tonumber(outcome.affected)
end

function fields.last_insert_id()
  return tonumber(outcome.last_insert_id)
end

local sql_result = ffi.metatype("sql_result", {
  __index = function(rs, key)
    local method = methods[key]
    if method then
      return method
    end
    local field = fields[key]
    return field and field(rs)
  end,
  __newindex = function(_, key)
    error("a result has no field '" .. tostring(key) .. "' to set", 2)
  end,
  __tostring = function() return "<sql_result>" end,
})

local NOTHING = ffi.cast("sql_result *", nil)

-- Of the text statement whose outcome was just filled in.
function prelude.new_result(connection)
  if outcome.result_sets == 0 then
    return NOTHING
  end
  local rs = sql_result()
  rs.connection_, rs.serial_ = connection, outcome.serial
  rs.rows_, rs.fields_ = outcome.rows, outcome.columns
  return rs
end

-- A further result set of the same text.
function prelude.further_result(connection, set)
  local rs = sql_result()
  rs.connection_, rs.serial_, rs.set_ = connection, outcome.serial, set
  rs.rows_, rs.fields_ = outcome.rows, outcome.columns
  return rs
end

function prelude.remember_statement(statement)
  last_statement = last_statement + 1
  statements[last_statement] = statement
  statement.id = last_statement
  -- Filled in again by each execution: a loop that ignores it allocates nothing.
  statement.result = sql_result()
  statement.result.statement_ = last_statement
  return statement
end

-- Of the prepared statement whose outcome was just filled in.
function prelude.executed(statement)
  if outcome.result_sets == 0 then
    return NOTHING
  end
  local rs = statement.result
  rs.rows_ = outcome.rows
  return rs
end
