-- The prelude, third part: sysbench.sql. Drivers, connections, statements, parameters, results.
--
-- A connection and a statement are small tables with the numbers the engine knows them by. A
-- parameter holds its value in memory that the engine reads in place when the statement runs.

local api, context, raise = ...
local ffi = require("ffi")

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

local outcome = ffi.new("waggle_outcome")
local number_out = ffi.new("uint32_t[1]")
local fields_out = ffi.new("int32_t[1]")
local length_out = ffi.new("uint64_t[1]")

-- Results: counts only. Rows are read by query_row; nothing keeps them otherwise.
local result = {}
result.__index = result
result.__tostring = function() return "<sql_result>" end

function result:fetch_row()
  error("rows of query() and execute() are not kept; use connection:query_row()", 2)
end

function result:free() end

local function new_result()
  return setmetatable({
    nrows = tonumber(outcome.rows),
    affected = tonumber(outcome.affected),
  }, result)
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
  elseif is_float[kind] then
    created.buffer, created.max_len = ffi.new("double[1]"), 8
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
  local status = api.execute(
    context, self.connection.number, self.number, self.binds, self.bind_count, outcome)
  if status ~= 0 then
    raise(status, self.connection)
  end
  return new_result()
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

function connection:query(sql)
  local status = api.query(context, self.number, sql, #sql, outcome)
  if status ~= 0 then
    raise(status, self)
  end
  return new_result()
end

function connection:query_row(sql)
  local status = api.query_row(context, self.number, sql, #sql, fields_out)
  if status ~= 0 then
    raise(status, self)
  end
  local count = fields_out[0]
  if count < 0 then
    return nil
  end
  local row = {}
  for i = 1, count do
    local field = api.row_field(context, i - 1, length_out)
    if field ~= nil then
      row[i] = ffi.string(field, length_out[0])
    end
  end
  return unpack(row, 1, count)
end

function connection:prepare(sql)
  local status = api.prepare(context, self.number, sql, #sql, number_out)
  if status ~= 0 then
    raise(status, self)
  end
  return setmetatable(
    { connection = self, number = number_out[0], binds = nil, bind_count = 0 }, statement)
end

function connection:bulk_insert_init(head)
  local status = api.bulk_begin(context, self.number, head, #head)
  if status ~= 0 then
    raise(status, self)
  end
end

function connection:bulk_insert_next(values)
  local status = api.bulk_add(context, self.number, values, #values)
  if status ~= 0 then
    raise(status, self)
  end
end

function connection:bulk_insert_done()
  local status = api.bulk_flush(context, self.number)
  if status ~= 0 then
    raise(status, self)
  end
end

function connection:disconnect()
  api.disconnect(context, self.number)
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
  return setmetatable({ driver = self, number = number_out[0] }, connection)
end

function sysbench.sql.driver(name)
  local known = sysbench.opt.db_driver
  if name ~= nil and name ~= "" and name ~= known then
    error("no database driver '" .. tostring(name) .. "'; there is " .. known, 2)
  end
  return setmetatable({ driver_name = known }, driver)
end
