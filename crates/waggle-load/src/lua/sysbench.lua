-- The prelude, first part: the sysbench table, errors, and the loops that run a worker.
--
-- Called with the functions of api.rs (typed function pointers) and the context they take.
-- Scripts for sysbench find its names and shapes here; the code is waggle's own.

local api, context = ...
local ffi = require("ffi")

local DONE, IGNORABLE, STOPPED = 0, 1, 3

sysbench = {
  version = "1.1.0",
  version_string = "waggle (sysbench API 1.1.0)",
  opt = {},
  hooks = {},
  error = { NONE = 0, RESTART_EVENT = 1 },
  cmdline = {
    argv = {},
    commands = {},
    PARALLEL_COMMAND = true,
  },
}

-- Errors of statements are tables, so that a script can look at them; printed, they are text.
local sql_error = {}
sql_error.__tostring = function(err)
  return err.sql_errmsg
end
sql_error.__index = sql_error

local STOP = setmetatable({}, { __tostring = function() return "stopped" end })

-- File and line of the script that asked for the statement: the first frame outside the prelude.
local function script_position()
  for level = 3, 20 do
    local info = debug.getinfo(level, "Sl")
    if info == nil then
      return nil
    end
    if info.what ~= "C" and info.source:sub(1, 8) ~= "=prelude" and info.currentline > 0 then
      return info.short_src .. ":" .. info.currentline
    end
  end
end

local details = ffi.new("waggle_error")

-- Turns a status that is not DONE into a Lua error. Never inlined into a hot path.
local function raise(status, connection, is_connect)
  if status == STOPPED then
    error(STOP, 0)
  end
  api.last_error(context, details)
  local err = setmetatable({
    connection = connection,
    query = ffi.string(details.statement, details.statement_len),
    sql_errno = tonumber(details.errno_),
    sql_state = ffi.string(details.sqlstate, details.sqlstate_len),
    sql_errmsg = ffi.string(details.message, details.message_len),
    position = script_position(),
    connecting = is_connect,
  }, sql_error)
  if connection then
    connection.sql_errno = err.sql_errno
    connection.sql_state = err.sql_state
    connection.sql_errmsg = err.sql_errmsg
  end
  if status == IGNORABLE and not is_connect then
    err.errcode = sysbench.error.RESTART_EVENT
  elseif not is_connect then
    local ignorable = sysbench.hooks.sql_error_ignorable
    if ignorable and ignorable(err) then
      err.errcode = sysbench.error.RESTART_EVENT
    end
  end
  error(err, 0)
end

local function is_restart(err)
  return type(err) == "table" and rawget(err, "errcode") == sysbench.error.RESTART_EVENT
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
  raise(status, err.connection)
end

-- One worker: events until the run ends. A script may replace it.
function thread_run(tid)
  local event = event
  while api.may_run(context) ~= 0 do
    api.event_begin(context)
    local ok, result
    repeat
      ok, result = pcall(event, tid)
      if not ok and not may_retry(result) then
        return
      end
    until ok
    if result then
      return
    end
    api.event_end(context)
  end
end

-- For the engine: calls a function and describes its failure in one flat table.
local function guarded(func, ...)
  local ok, err = pcall(func, ...)
  if ok then
    return nil, err
  elseif err == STOP then
    return { stopped = true }
  elseif type(err) == "table" and getmetatable(err) == sql_error then
    return {
      message = err.sql_errmsg,
      errno = err.sql_errno,
      query = err.query,
      position = err.position,
      connecting = err.connecting or false,
    }
  end
  return { message = tostring(err) }
end

return { raise = raise, guarded = guarded }
