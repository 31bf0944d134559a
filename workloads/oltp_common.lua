-- The tables and statements that the oltp_* workloads share.
--
-- Tables are sbtest1..sbtestN (id, k, c, pad); the options have the names and defaults of
-- sysbench's workloads of the same names, so that figures compare. Usage:
--
--   local oltp = require("oltp_common")
--   oltp.workload({ "point_selects", "simple_ranges" })
--
-- declares the options and commands and defines thread_init, event and thread_done, where event
-- runs the named groups of statements in one transaction.

local oltp = {}

sysbench.cmdline.options = {
  tables = { "Number of tables", 1 },
  table_size = { "Number of rows per table", 10000 },
  range_size = { "Rows a range statement spans", 100 },
  range_selects = { "Run the four kinds of range statements at all", true },
  point_selects = { "Point selects per transaction", 10 },
  simple_ranges = { "Simple range selects per transaction", 1 },
  sum_ranges = { "SUM() range selects per transaction", 1 },
  order_ranges = { "ORDER BY range selects per transaction", 1 },
  distinct_ranges = { "DISTINCT range selects per transaction", 1 },
  index_updates = { "Updates of the indexed column per transaction", 1 },
  non_index_updates = { "Updates of an unindexed column per transaction", 1 },
  delete_inserts = { "Pairs of delete and insert per transaction", 1 },
  skip_trx = { "Run statements on their own, without BEGIN and COMMIT", false },
  auto_inc = { "Let the server number the rows (AUTO_INCREMENT)", true },
  secondary = { "Use an ordinary index on id in place of the primary key", false },
  create_secondary = { "Create the index on k", true },
  create_table_options = { "Text added to CREATE TABLE", "" },
  mysql_storage_engine = { "Storage engine", "innodb" },
}

-- Adds options of one workload; to be called before the options are read.
function oltp.declare(options)
  for name, definition in pairs(options) do
    sysbench.cmdline.options[name] = definition
  end
end

local types = sysbench.sql.type

-- Groups of eleven digits with dashes between.
local function groups(count)
  local parts = {}
  for i = 1, count do
    parts[i] = "###########"
  end
  return table.concat(parts, "-")
end

local C_FORMAT, PAD_FORMAT = groups(10), groups(5)
local C_LENGTH, PAD_LENGTH = 120, 60

-- Identifiers that fit a signed INTEGER beside those of any table that does.
local UNIQUE_IDS = 2 ^ 30

local function table_name(number)
  return string.format("sbtest%d", number)
end

-- Creating and filling ----------------------------------------------------------------------

local function create_table(connection, number)
  local opt, name = sysbench.opt, table_name(number)
  local id_type = opt.auto_inc and "INTEGER NOT NULL AUTO_INCREMENT" or "INTEGER NOT NULL"
  local id_index = opt.secondary and "KEY xid (id)" or "PRIMARY KEY (id)"
  print("creating table " .. name)
  connection:query(string.format([[
    CREATE TABLE %s (
      id %s,
      k INTEGER DEFAULT '0' NOT NULL,
      c CHAR(%d) DEFAULT '' NOT NULL,
      pad CHAR(%d) DEFAULT '' NOT NULL,
      %s
    ) ENGINE = %s %s]],
    name, id_type, C_LENGTH, PAD_LENGTH, id_index,
    opt.mysql_storage_engine, opt.create_table_options))
end

-- MySQL sorts an index of a million rows in memory with this; by default it merges from files. It
-- is a setting of this session alone; MariaDB does not have it.
local INDEX_BUFFER_BYTES = 64 * 1024 * 1024

local function enlarge_index_buffer(connection)
  local found = connection:query("SHOW VARIABLES LIKE 'innodb_ddl_buffer_size'"):fetch_row()
  local bytes = found and tonumber(found[2])
  if bytes and bytes < INDEX_BUFFER_BYTES then
    connection:query("SET SESSION innodb_ddl_buffer_size = " .. INDEX_BUFFER_BYTES)
  end
end

local function fill_table(connection, number)
  local opt, name = sysbench.opt, table_name(number)
  -- Numbered here in both ways: a bulk load leaves gaps in the numbers of the server's own.
  waggle.load(connection, name, opt.table_size, {
    { "id", "sequence", 1 },
    { "k", "integer", 1, opt.table_size },
    { "c", "string", C_FORMAT },
    { "pad", "string", PAD_FORMAT },
  })
  if opt.create_secondary then
    print("creating index k_" .. number .. " on " .. name)
    connection:query(string.format("CREATE INDEX k_%d ON %s (k)", number, name))
  end
end

-- Thread t of n takes tables t+1, t+1+n, ...
local function for_my_tables(action)
  local connection = sysbench.sql.driver():connect()
  for number = sysbench.tid + 1, sysbench.opt.tables, sysbench.opt.threads do
    action(connection, number)
  end
  connection:disconnect()
end

local function prepare()
  for_my_tables(function(connection, number)
    enlarge_index_buffer(connection)
    create_table(connection, number)
    fill_table(connection, number)
  end)
end

local function cleanup()
  local connection = sysbench.sql.driver():connect()
  for number = 1, sysbench.opt.tables do
    print("dropping table " .. table_name(number))
    connection:query("DROP TABLE IF EXISTS " .. table_name(number))
  end
  connection:disconnect()
end

sysbench.cmdline.commands = {
  prepare = { prepare, sysbench.cmdline.PARALLEL_COMMAND },
  cleanup = { cleanup },
}

-- Statements --------------------------------------------------------------------------------

-- Each group of statements: its texts and the types of their parameters, and what one call does
-- with the bound statements of one table.
local group = {}

local function random_id()
  return sysbench.rand.default(1, sysbench.opt.table_size)
end

group.point_selects = {
  statements = { { "SELECT c FROM %s WHERE id=?", types.INT } },
  run = function(select)
    select.params[1]:set(random_id())
    select:execute()
  end,
}

local function range(text)
  return {
    is_range = true,
    statements = { { text, types.INT, types.INT } },
    run = function(select)
      local first = random_id()
      select.params[1]:set(first)
      select.params[2]:set(first + sysbench.opt.range_size - 1)
      select:execute()
    end,
  }
end

group.simple_ranges = range("SELECT c FROM %s WHERE id BETWEEN ? AND ?")
group.sum_ranges = range("SELECT SUM(k) FROM %s WHERE id BETWEEN ? AND ?")
group.order_ranges = range("SELECT c FROM %s WHERE id BETWEEN ? AND ? ORDER BY c")
group.distinct_ranges = range("SELECT DISTINCT c FROM %s WHERE id BETWEEN ? AND ? ORDER BY c")

group.index_updates = {
  statements = { { "UPDATE %s SET k=k+1 WHERE id=?", types.INT } },
  run = function(update)
    update.params[1]:set(random_id())
    update:execute()
  end,
}

group.non_index_updates = {
  statements = { { "UPDATE %s SET c=? WHERE id=?", { types.CHAR, C_LENGTH }, types.INT } },
  run = function(update)
    update.params[1]:set_rand_str(C_FORMAT)
    update.params[2]:set(random_id())
    update:execute()
  end,
}

group.delete_inserts = {
  statements = {
    { "DELETE FROM %s WHERE id=?", types.INT },
    {
      "INSERT INTO %s (id, k, c, pad) VALUES (?, ?, ?, ?)",
      types.INT, types.INT, { types.CHAR, C_LENGTH }, { types.CHAR, PAD_LENGTH },
    },
  },
  run = function(delete, insert)
    local id = random_id()
    delete.params[1]:set(id)
    insert.params[1]:set(id)
    insert.params[2]:set(random_id())
    insert.params[3]:set_rand_str(C_FORMAT)
    insert.params[4]:set_rand_str(PAD_FORMAT)
    delete:execute()
    insert:execute()
  end,
}

group.deletes = {
  statements = { { "DELETE FROM %s WHERE id=?", types.INT } },
  run = function(delete)
    delete.params[1]:set(random_id())
    delete:execute()
  end,
}

-- Rows above those that prepare made: numbered by the server, or by a value never drawn before.
group.inserts = {
  statements = {
    {
      "INSERT INTO %s (id, k, c, pad) VALUES (?, ?, ?, ?)",
      types.INT, types.INT, { types.CHAR, C_LENGTH }, { types.CHAR, PAD_LENGTH },
    },
  },
  run = function(insert)
    if sysbench.opt.auto_inc then
      insert.params[1]:set(0)
    else
      insert.params[1]:set(sysbench.opt.table_size + 1 + sysbench.rand.unique() % UNIQUE_IDS)
    end
    insert.params[2]:set(random_id())
    insert.params[3]:set_rand_str(C_FORMAT)
    insert.params[4]:set_rand_str(PAD_FORMAT)
    insert:execute()
  end,
}

-- `count` parameters, or `count` pairs of them, joined into one condition.
local function repeated(count, piece, separator)
  local parts = {}
  for i = 1, count do
    parts[i] = piece
  end
  return table.concat(parts, separator)
end

local function integers(text, count)
  local definition = { text }
  for i = 1, count do
    definition[i + 1] = types.INT
  end
  return definition
end

-- Known only once the options are: how many parameters these two have is one.
group.point_list = {
  define = function()
    local points = sysbench.opt.random_points
    local text = "SELECT id, k, c, pad FROM %s WHERE k IN (" .. repeated(points, "?", ", ") .. ")"
    return { integers(text, points) }
  end,
  run = function(select)
    for i = 1, sysbench.opt.random_points do
      select.params[i]:set(random_id())
    end
    select:execute()
  end,
}

group.range_list = {
  define = function()
    local ranges = sysbench.opt.number_of_ranges
    local text = "SELECT count(k) FROM %s WHERE " .. repeated(ranges, "k BETWEEN ? AND ?", " OR ")
    return { integers(text, 2 * ranges) }
  end,
  run = function(select)
    for i = 1, 2 * sysbench.opt.number_of_ranges, 2 do
      local first = random_id()
      select.params[i]:set(first)
      select.params[i + 1]:set(first + sysbench.opt.delta)
    end
    select:execute()
  end,
}

local function prepare_statement(connection, number, definition)
  local statement = connection:prepare(string.format(definition[1], table_name(number)))
  local params = {}
  for i = 2, #definition do
    local kind = definition[i]
    if type(kind) == "table" then
      params[i - 1] = statement:bind_create(kind[1], kind[2])
    else
      params[i - 1] = statement:bind_create(kind)
    end
  end
  statement:bind_param(unpack(params))
  return statement
end

-- The bound statements of one group, by table: pairs { first, second or nil }.
local function prepare_group(connection, definition)
  local by_table = {}
  local statements = definition.statements or definition.define()
  for number = 1, sysbench.opt.tables do
    local bound = {}
    for i, statement in ipairs(statements) do
      bound[i] = prepare_statement(connection, number, statement)
    end
    by_table[number] = bound
  end
  return by_table
end

-- The groups that this run executes at least once per event.
local function steps(connection, names)
  local list = {}
  for _, name in ipairs(names) do
    -- Groups without an option of their name run once.
    local definition, count = group[name], tonumber(sysbench.opt[name]) or 1
    if definition.is_range and not sysbench.opt.range_selects then
      count = 0
    end
    if count > 0 then
      list[#list + 1] = {
        run = definition.run,
        count = count,
        by_table = prepare_group(connection, definition),
      }
    end
  end
  return list
end

-- One step: the statements of one group on one random table.
local function run_step(step, tables)
  local bound = step.by_table[sysbench.rand.uniform(1, tables)]
  local run, first, second = step.run, bound[1], bound[2]
  for _ = 1, step.count do
    run(first, second)
  end
end

-- Defines the hooks of a workload. `settings.is_transaction`, if false: the statements run on their
-- own. `settings.single`: the same, and the one group runs once, whatever its option says.
function oltp.workload(names, settings)
  local single = settings and settings.single
  local is_transaction = not single and not (settings and settings.is_transaction == false)
  local connection, list, list_length, begin, commit, tables

  function thread_init()
    connection = sysbench.sql.driver():connect()
    tables = sysbench.opt.tables
    list = steps(connection, names)
    if single and list[1] then
      list[1].count = 1
    end
    list_length = #list
    if is_transaction and not sysbench.opt.skip_trx then
      begin, commit = connection:prepare("BEGIN"), connection:prepare("COMMIT")
    end
  end

  function event()
    if begin then
      begin:execute()
    end
    for i = 1, list_length do
      run_step(list[i], tables)
    end
    if commit then
      commit:execute()
    end
  end

  function thread_done()
    connection:disconnect()
  end
end

return oltp
