-- The prelude: the API of sysbench 0.5 that 1.0 still offers: global functions over one
-- connection a state.

local _, _, prelude = ...

local rand = sysbench.rand

DB_ERROR_NONE, DB_ERROR_RESTART_TRANSACTION, DB_ERROR_FAILED = 0, 1, 2
prelude.restart_number = DB_ERROR_RESTART_TRANSACTION

mysql_table_engine = "innodb"
myisam_max_rows = 1000000

local RANDOM_MAX = 2 ^ 31 - 1

function sb_rnd() return rand.uniform(0, RANDOM_MAX) end
sb_rand = rand.default
sb_rand_str = rand.string
sb_rand_uniform = rand.uniform
sb_rand_gaussian = rand.gaussian
sb_rand_special = rand.special

function sb_rand_uniq(low, high)
  return low + rand.unique() % (high - low + 1)
end

local db = {
  DB_ERROR_NONE = DB_ERROR_NONE,
  DB_ERROR_RESTART_TRANSACTION = DB_ERROR_RESTART_TRANSACTION,
  DB_ERROR_FAILED = DB_ERROR_FAILED,
}
sysbench.db = db

local connection

local function connected()
  if connection == nil then
    error("db_connect() has not been called", 3)
  end
  return connection
end

function db.connect()
  db.driver = db.driver or sysbench.sql.driver()
  connection = db.driver:connect()
  db.connection = connection
end

function db.disconnect()
  connected():disconnect()
  connection, db.connection = nil, nil
end

function db.query(sql) return connected():query(sql) end
function db.bulk_insert_init(head) return connected():bulk_insert_init(head) end
function db.bulk_insert_next(values) return connected():bulk_insert_next(values) end
function db.bulk_insert_done() return connected():bulk_insert_done() end
function db.prepare(sql) return connected():prepare(sql) end
function db.close(statement) return statement:close() end

local TEXT_BYTES_MIN = 64

local function bound_for(statement, value)
  local types = sysbench.sql.type
  if type(value) == "string" then
    return statement:bind_create(types.VARCHAR, math.max(2 * #value, TEXT_BYTES_MIN))
  elseif type(value) == "number" or value == nil then
    return statement:bind_create(types.BIGINT)
  end
  error("cannot bind a value of the type " .. type(value), 3)
end

-- `values` is the script's own table: it changes its elements, and each execution reads them.
function db.bind_param(statement, values)
  local params, count = {}, #values
  for i = 1, count do
    local value = values[i]
    params[i] = tostring(value) == "<sql_param>" and value or bound_for(statement, value)
  end
  statement:bind_param(unpack(params, 1, count))
  statement.legacy_values, statement.legacy_count = values, count
end

-- Rows of prepared statements are not kept, so there is nothing to bind them to.
function db.bind_result() end

function db.execute(statement)
  local values = statement.legacy_values
  for i = 1, statement.legacy_count or 0 do
    local param, value = statement.params[i], values[i]
    if value ~= param then
      if type(value) == "string" and (not param.text or #value > param.max_len) then
        param = bound_for(statement, value)
        statement.params[i] = param
        statement:bind_param(unpack(statement.params, 1, statement.legacy_count))
      end
      param:set(value)
    end
  end
  return statement:execute()
end

function db.store_results(rs) return rs end

function db.free_results(rs)
  if rs ~= nil then
    rs:free()
  end
end

for _, name in ipairs({
  "connect", "disconnect", "query", "bulk_insert_init", "bulk_insert_next", "bulk_insert_done",
  "prepare", "bind_param", "bind_result", "execute", "store_results", "free_results", "close",
}) do
  _G["db_" .. name] = db[name]
end
