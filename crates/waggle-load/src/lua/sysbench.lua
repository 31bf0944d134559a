-- The prelude: the sysbench table, errors, and the loop that runs a worker.
--
-- Every part of the prelude is called with the functions of api.rs (typed function pointers), the
-- context they take, and the table through which the parts know each other. Scripts for sysbench
-- find its names and shapes here; the code is waggle's own.

local api, context, prelude = ...
local ffi = require("ffi")
-- A legacy script has a global `debug` that is an option.
local getinfo = debug.getinfo

-- What a script writes through io comes in the order of what this program prints.
io.stdout:setvbuf("line")

local DONE, IGNORABLE, STOPPED = 0, 1, 3

sysbench = {
  version = prelude.version,
  version_string = prelude.version_string,
  opt = {},
  hooks = {},
  error = { NONE = 0, RESTART_EVENT = 1 },
}

-- Errors of statements are tables for hooks and for what restarts an event. All others reach a
-- script as sysbench has them, as text; the table is kept for the report of the failure.
local sql_error = {}
sql_error.__index = sql_error

function sql_error.__tostring(err)
  local where = err.position and (err.position .. ": ") or ""
  if err.connecting then
    return where .. "connection creation failed: " .. err.sql_errmsg
  elseif err.sql_errno == 0 then
    return where .. "SQL API error: " .. err.sql_errmsg
  end
  return string.format("%sSQL error, errno = %d, state = '%s': %s",
    where, err.sql_errno, err.sql_state, err.sql_errmsg)
end

function sql_error.__concat(left, right)
  return tostring(left) .. tostring(right)
end

-- The text of the last error that was raised as one, and its table.
local told, told_of

local STOP = setmetatable({}, { __tostring = function() return "stopped" end })

-- File and line of the script that asked for the statement: the first frame outside the prelude.
local function script_position()
  for level = 3, 20 do
    local info = getinfo(level, "Sl")
    if info == nil then
      return nil
    end
    if info.what ~= "C" and info.source:sub(1, 8) ~= "=prelude" and info.currentline > 0 then
      return info.short_src .. ":" .. info.currentline
    end
  end
end

local details = ffi.new("waggle_error")

function prelude.clear_error(connection)
  connection.error = 0
  connection.sql_errno = 0
  connection.sql_state = ""
  connection.sql_errmsg = ""
  connection.failure = nil
end

local function throw(err)
  if err.errcode == nil and not err.connecting then
    local ignorable = sysbench.hooks.sql_error_ignorable
    if ignorable and ignorable(err) then
      err.errcode = sysbench.error.RESTART_EVENT
    end
  end
  if err.errcode ~= nil then
    error(err, 0)
  end
  told, told_of = tostring(err), err
  error(told, 0)
end

-- Turns a status that is not DONE into a Lua error. Never inlined into a hot path.
function prelude.raise(status, connection, is_connect)
  if status == STOPPED then
    error(STOP, 0)
  end
  api.last_error(context, details)
  local err = setmetatable({
    connection = connection,
    query = ffi.string(details.statement, details.statement_len),
    sql_errno = tonumber(details.errno_),
    sql_state = ffi.string(details.sqlstate, details.sqlstate_len),
    sql_errmsg = ffi.string(details.words, details.words_len),
    described = ffi.string(details.message, details.message_len),
    position = script_position(),
    connecting = is_connect,
  }, sql_error)
  if status == IGNORABLE and not is_connect then
    err.errcode = sysbench.error.RESTART_EVENT
  end
  if connection then
    connection.error = err.errcode and 1 or 2
    connection.sql_errno = err.sql_errno
    connection.sql_state = err.sql_state
    connection.sql_errmsg = err.sql_errmsg
    connection.failure = err
  end
  throw(err)
end

local raise = prelude.raise

-- For connection:check_error(): the connection's last error once more.
function prelude.raise_again(connection, query)
  local err = connection.failure
  if err == nil then
    error("SQL API error", 3)
  end
  err.query = query or err.query
  throw(err)
end

local function is_restart(err)
  if type(err) == "table" then
    return rawget(err, "errcode") == sysbench.error.RESTART_EVENT
  end
  return prelude.restart_number ~= nil and err == prelude.restart_number
end

-- After a failed attempt: true to try again, false when the run is over; other errors go on up.
local function may_retry(err)
  if not is_restart(err) then
    error(err, 0)
  end
  local before = sysbench.hooks.before_restart_event
  if before then
    before(err)
  end
  local status = api.may_retry(context)
  if status == DONE then
    return true
  elseif status == STOPPED then
    return false
  end
  raise(status, type(err) == "table" and err.connection or nil)
end

-- Tries an event that failed again until it succeeds: its result, or false when the run is over.
local function tried_again(event, tid, err)
  local ok, result = false, err
  while not ok do
    if not may_retry(result) then
      return false
    end
    ok, result = pcall(event, tid)
  end
  return true, result
end

-- One worker: events until the run ends. A script may replace it. There is no loop in the loop, so
-- that an event that succeeds becomes one trace with all it calls.
function thread_run(tid)
  local event = event
  while api.may_run(context) ~= 0 do
    api.event_begin(context)
    local ok, result = pcall(event, tid)
    if not ok then
      ok, result = tried_again(event, tid, result)
      if not ok then
        return
      end
    end
    if result then
      return
    end
    api.event_end(context)
  end
end

-- For the engine: calls a function and describes its failure in one flat table.
function prelude.guarded(func, ...)
  local ok, err = pcall(func, ...)
  if ok then
    return nil, err
  elseif err == STOP then
    return { stopped = true }
  end
  if type(err) == "string" and told ~= nil and err:find(told, 1, true) then
    err = told_of
  end
  if type(err) == "table" and getmetatable(err) == sql_error then
    return {
      message = err.described,
      state = err.sql_state,
      words = err.sql_errmsg,
      errno = err.sql_errno,
      query = err.query,
      position = err.position,
      connecting = err.connecting or false,
    }
  end
  return { message = tostring(err) }
end
