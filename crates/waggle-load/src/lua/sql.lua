-- The prelude: sysbench.sql. Drivers, connections, statements, parameters.
--
-- A connection and a statement are small tables with the numbers the engine knows them by. A
-- parameter holds its value in memory that the engine reads in place when the statement runs.

local api, context, prelude = ...
local ffi = require("ffi")
local raise, new_result, executed = prelude.raise, prelude.new_result, prelude.executed

local type_numbers = {
  NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6,
  TIME = 7, DATE = 8, DATETIME = 9, TIMESTAMP = 10, CHAR = 11, VARCHAR = 12,
}

sysbench.sql = {
  type = type_numbers,
  error = { NONE = 0, IGNORABLE = 1, FATAL = 2 },
}

local is_integer = {
  [type_numbers.TINYINT] = true, [type_numbers.SMALLINT] = true,
  [type_numbers.INT] = true, [type_numbers.BIGINT] = true,
}
local is_float = { [type_numbers.FLOAT] = true, [type_numbers.DOUBLE] = true }
local is_text = { [type_numbers.CHAR] = true, [type_numbers.VARCHAR] = true }

local outcome = prelude.outcome
local number_out = ffi.new("uint32_t[1]")

-- A value of the row that api.fetch has found; nil for NULL.
local function value_of(fields, index)
  local field = fields[index]
  if field.data ~= nil then
    return ffi.string(field.data, field.length)
  end
end

-- All of them, in column order; NULL is a hole.
local function fetched_row(count)
  local fields = api.fields(context)
  local row = {}
  for i = 1, count do
    row[i] = value_of(fields, i - 1)
  end
  return row
end
prelude.fetched_row = fetched_row

-- The same as separate values. The usual numbers of columns need neither a table nor unpack(),
-- which ends a trace.
local function fetched_values(count)
  local fields = api.fields(context)
  if count == 1 then
    return value_of(fields, 0)
  elseif count == 2 then
    return value_of(fields, 0), value_of(fields, 1)
  elseif count == 3 then
    return value_of(fields, 0), value_of(fields, 1), value_of(fields, 2)
  elseif count == 4 then
    return value_of(fields, 0), value_of(fields, 1), value_of(fields, 2), value_of(fields, 3)
  elseif count == 5 then
    return value_of(fields, 0), value_of(fields, 1), value_of(fields, 2), value_of(fields, 3),
      value_of(fields, 4)
  end
  return unpack(fetched_row(count), 1, count)
end

-- Parameters.
local param = {}
param.__index = param
param.__tostring = function() return "<sql_param>" end

function param:set(value)
  if value == nil then
    self.is_null[0] = 1
    return
  end
  self.is_null[0] = 0
  if self.text then
    local text = type(value) == "string" and value or tostring(value)
    local length = #text
    if length > self.max_len then
      length = self.max_len
    end
    ffi.copy(self.buffer, text, length)
    self.data_len[0] = length
  else
    self.buffer[0] = value
  end
end

function param:set_rand_str(format)
  if not self.text then
    error("set_rand_str is for text parameters", 2)
  end
  local length = #format
  if length > self.max_len then
    length = self.max_len
  end
  api.rand_string(context, format, length, self.buffer)
  self.is_null[0] = 0
  self.data_len[0] = length
end

-- Statements.
local statement = {}
statement.__index = statement
statement.__tostring = function() return "<sql_statement>" end

function statement:bind_create(kind, max_len)
  local created = { type = kind, is_null = ffi.new("char[1]"), data_len = ffi.new("uint64_t[1]") }
  if is_integer[kind] then
    created.buffer, created.max_len = ffi.new("int64_t[1]"), 8
    created.type = type_numbers.BIGINT
  elseif is_float[kind] then
    created.buffer, created.max_len = ffi.new("double[1]"), 8
    created.type = type_numbers.DOUBLE
  elseif is_text[kind] then
    if type(max_len) ~= "number" or max_len < 1 then
      error("bind_create needs the largest length of a text parameter", 2)
    end
    -- One byte more: ffi.copy of a Lua string may write a closing zero.
    created.buffer, created.max_len, created.text = ffi.new("char[?]", max_len + 1), max_len, true
  else
    error("Unsupported argument type: " .. tostring(kind), 2)
  end
  created.is_null[0] = 1
  return setmetatable(created, param)
end

function statement:bind_param(...)
  local count = select("#", ...)
  local binds = ffi.new("waggle_bind[?]", count)
  for i = 1, count do
    local bound = select(i, ...)
    if getmetatable(bound) ~= param then
      error("bind_param takes what bind_create returned", 2)
    end
    binds[i - 1].type = bound.type
    binds[i - 1].buffer = bound.buffer
    binds[i - 1].data_len = bound.data_len
    binds[i - 1].is_null = bound.is_null
  end
  self.binds, self.bind_count = binds, count
  -- The structures point into the parameters' memory; this keeps it from being collected.
  self.params = { ... }
end

function statement:execute()
  local connection = self.connection
  local status = api.execute(
    context, connection.number, self.number, self.binds, self.bind_count, outcome)
  if status ~= 0 then
    raise(status, connection)
  end
  if connection.error ~= 0 then
    prelude.clear_error(connection)
  end
  return executed(self)
end

-- Rows of prepared statements are not kept, so there is never a further result set to read.
function statement:next_result()
  return nil
end

function statement:close()
  local status = api.close_statement(context, self.connection.number, self.number)
  if status ~= 0 then
    raise(status, self.connection)
  end
end

-- Connections.
local connection = {}
connection.__index = connection
connection.__tostring = function() return "<sql_connection>" end

local function done(self, status)
  if status ~= 0 then
    raise(status, self)
  end
  if self.error ~= 0 then
    prelude.clear_error(self)
  end
end

local function text_of(sql)
  if type(sql) == "string" then
    return sql
  end
  if type(sql) == "number" then
    return tostring(sql)
  end
  error("a statement is text, not " .. type(sql), 3)
end

function connection:query(sql)
  sql = text_of(sql)
  done(self, api.query(context, self.number, sql, #sql, outcome))
  self.set = 0
  return new_result(self.number)
end

function connection:query_row(sql)
  sql = text_of(sql)
  done(self, api.query(context, self.number, sql, #sql, outcome))
  self.set = 0
  local count = api.fetch(context, self.number, outcome.serial, 0, 0)
  if count < 0 then
    return nil
  end
  return fetched_values(count)
end

function connection:prepare(sql)
  sql = text_of(sql)
  done(self, api.prepare(context, self.number, sql, #sql, number_out))
  return prelude.remember_statement(setmetatable(
    { connection = self, number = number_out[0], binds = nil, bind_count = 0 }, statement))
end

function connection:bulk_insert_init(head)
  done(self, api.bulk_begin(context, self.number, head, #head))
end

function connection:bulk_insert_next(values)
  done(self, api.bulk_add(context, self.number, values, #values))
end

function connection:bulk_insert_done()
  done(self, api.bulk_flush(context, self.number))
end

function connection:more_results()
  return api.result_set(context, self.number, (self.set or 0) + 1, outcome) ~= 0
end

-- The next result set with rows of a text of several statements.
function connection:next_result()
  local set = (self.set or 0) + 1
  if api.result_set(context, self.number, set, outcome) == 0 then
    return nil
  end
  self.set = set
  return prelude.further_result(self.number, set)
end

function connection:check_error(rs, query)
  if self.error == 0 then
    return rs
  end
  prelude.raise_again(self, query)
end

function connection:disconnect()
  api.disconnect(context, self.number)
end

function connection:reconnect()
  local status = api.reconnect(context, self.number)
  if status ~= 0 then
    raise(status, self, true)
  end
end

-- Drivers.
local driver = {}
driver.__index = driver
driver.__tostring = function() return "<sql_driver>" end

function driver:name()
  return self.driver_name
end

function driver:connect()
  local status = api.connect(context, number_out)
  if status ~= 0 then
    raise(status, nil, true)
  end
  local created = { driver = self, number = number_out[0], set = 0 }
  prelude.clear_error(created)
  return setmetatable(created, connection)
end

function sysbench.sql.driver(name)
  local known = prelude.driver_name
  if name ~= nil and name ~= "" and name ~= known then
    error("failed to initialize the DB driver: no '" .. tostring(name) .. "'; there is "
      .. known, 2)
  end
  return setmetatable({ driver_name = known }, driver)
end
