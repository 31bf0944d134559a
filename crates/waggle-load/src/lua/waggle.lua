-- The prelude: the waggle table, what scripts may ask of this engine beyond sysbench's API.

local api, context, prelude = ...
local ffi = require("ffi")

waggle = {}

-- Numbers this state has asked for: others are a script's mistake.
local operations, counters = {}, {}

-- The number of a kind of event, to be asked for once (at top level or in thread_init).
function waggle.operation(name)
  name = tostring(name)
  local number = api.operation(context, name, #name)
  operations[number] = true
  return number
end

-- The event at hand is of this kind: its latency is also recorded under that name.
function waggle.label(operation)
  if not operations[operation] then
    error("waggle.label() takes what waggle.operation() returned", 2)
  end
  api.label(context, operation)
end

-- The number of a counter of the script's own.
function waggle.counter(name)
  name = tostring(name)
  local number = api.counter(context, name, #name)
  counters[number] = true
  return number
end

function waggle.add(counter, amount)
  if not counters[counter] then
    error("waggle.add() takes what waggle.counter() returned", 2)
  end
  api.add(context, counter, amount or 1)
end

-- False when the run ended before the time was over.
function waggle.sleep(seconds)
  return api.sleep(context, seconds) ~= 0
end

-- The latency of the event at hand counts from now.
function waggle.begin_event()
  if api.begin_event(context) == 0 then
    error("waggle.begin_event() is for closed loops: in an open loop the latency of an event "
      .. "counts from the time it was due", 2)
  end
end

-- In a parallel command: waits until all threads of the command that have not ended are here.
function waggle.barrier()
  local status = api.barrier(context)
  if status == 2 then
    error("waggle.barrier() is for commands", 2)
  elseif status ~= 0 then
    prelude.raise(status)
  end
end

-- Numbers of api.rs.
local kinds = { sequence = 0, integer = 1, string = 2 }

local function describe(out, column)
  local name, kind, first, second = column[1], kinds[column[2]], column[3], column[4]
  if type(name) ~= "string" or kind == nil then
    error("a column is { name, 'sequence', 'integer' or 'string', ... }", 3)
  end
  out.name, out.name_length, out.kind = name, #name, kind
  if kind == kinds.string then
    if type(first) ~= "string" then
      error("column " .. name .. ": a string wants its format", 3)
    end
    out.format, out.format_length = first, #first
  elseif kind == kinds.integer then
    if not (type(first) == "number" and type(second) == "number" and first <= second) then
      error("column " .. name .. ": an integer wants its least and its greatest value", 3)
    end
    out.low, out.high = first, second
  else
    out.low = first or 1
  end
end

-- Adds rows to a table, as fast as its server takes them. Columns are { name, "sequence", first },
-- { name, "integer", low, high } (by sysbench.rand.default) and { name, "string", format } (by
-- sysbench.rand.string); values are drawn row by row in the columns' order.
function waggle.load(connection, table_name, rows, columns)
  local described = ffi.new("waggle_column[?]", #columns)
  for i, column in ipairs(columns) do
    describe(described[i - 1], column)
  end
  local status = api.load(context, connection.number, table_name, #table_name, described,
    #columns, rows)
  if status ~= 0 then
    prelude.raise(status, connection)
  end
end
