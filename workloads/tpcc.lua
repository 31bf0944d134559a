-- TPC-C: nine tables and five transactions, after the specification, revision 5.11.
--
-- mode=stress (the default): any number of threads, no waits; it measures NOPM, which is not tpmC.
-- mode=spec: ten terminals a warehouse with keying and think times; it measures tpmC.
-- docs/commands/bench-tpcc.md says what is the specification's and what is not.

local random = require("tpcc_random")
local schema = require("tpcc_schema")
local load = require("tpcc_load")
local transactions = require("tpcc_transactions")
local conditions = require("tpcc_conditions")
local figures = require("tpcc_figures")
local clock = require("tpcc_clock")

sysbench.cmdline.options = {
  warehouses = { "Warehouses to load (0: one); a run uses all there are, or refuses", 0 },
  mode = { "stress: no waits; spec: ten terminals a warehouse, keying and think times", "stress" },
  isolation = { "repeatable-read, read-committed or serializable", "repeatable-read" },
  fk = { "Declare the foreign keys", false },
  history_pk = { "Give the table history a primary key, which TPC-C does not have", false },
  small = { "Load 1000 items and 30 customers a district: to try things out, not TPC-C", false },
  create_table_options = { "Text added to CREATE TABLE", "" },
}

sysbench.cmdline.commands = {
  prepare = { load.prepare, sysbench.cmdline.PARALLEL_COMMAND },
  cleanup = { load.cleanup },
  check = { conditions.check, sysbench.cmdline.PARALLEL_COMMAND },
}

local ISOLATIONS = {
  ["repeatable-read"] = "REPEATABLE READ",
  ["read-committed"] = "READ COMMITTED",
  ["serializable"] = "SERIALIZABLE",
}

local TERMINALS_PER_WAREHOUSE = 10

-- Seconds (clauses 5.2.5.2 and 5.2.5.4).
local KEYING_TIME = {
  new_order = 18, payment = 3, order_status = 2, delivery = 2, stock_level = 2,
}
local THINK_TIME_MEAN = {
  new_order = 12, payment = 12, order_status = 10, delivery = 5, stock_level = 5,
}

-- Checks of the options -------------------------------------------------------------------------

local function checked_options()
  local opt = sysbench.opt
  if opt.mode ~= "stress" and opt.mode ~= "spec" then
    error("mode is stress or spec, not " .. opt.mode, 0)
  end
  if not ISOLATIONS[opt.isolation] then
    error("isolation is repeatable-read, read-committed or serializable, not "
      .. opt.isolation, 0)
  end
end

-- Once, before the threads start.
function init()
  checked_options()
  local connection = sysbench.sql.driver():connect()
  local found = schema.loaded(connection)
  connection:disconnect()
  local threads, terminals = sysbench.opt.threads, found.warehouses * TERMINALS_PER_WAREHOUSE
  if sysbench.opt.mode == "spec" and threads ~= terminals then
    error(string.format("mode=spec with %d warehouses takes %d threads, a terminal each, not %d",
      found.warehouses, terminals, threads), 0)
  end
  if found.small then
    print("these tables are not of TPC-C's size (small=on): the figures compare with nothing")
  end
  if threads < found.warehouses then
    print(string.format("%d threads have %d of the %d warehouses as their homes",
      threads, threads, found.warehouses))
  end
end

-- Threads ---------------------------------------------------------------------------------------

local terminal, deal, operations, is_spec
-- The transaction under way, kept while it is restarted: { kind, input }.
local kind, input
-- Seconds to wait before the next transaction is keyed in.
local think_time = 0

-- Counters are known to the engine by number, to the transactions by name.
local function counting()
  local ids = {}
  for _, name in ipairs(figures.COUNTERS) do
    ids[name] = waggle.counter(name)
  end
  return function(name, n)
    waggle.add(ids[name], n)
  end
end

local function connected()
  local connection = sysbench.sql.driver():connect()
  connection:query("SET SESSION TRANSACTION ISOLATION LEVEL "
    .. ISOLATIONS[sysbench.opt.isolation])
  return connection
end

-- The homes go round the warehouses; the threads of a warehouse go round its districts.
function thread_init(tid)
  local connection = connected()
  local found = schema.loaded(connection)
  local warehouses = found.warehouses
  terminal = {
    connection = connection,
    run = transactions.prepare(connection),
    home = tid % warehouses + 1,
    district = math.floor(tid / warehouses) % schema.DISTRICTS + 1,
    size = found,
    warehouses = warehouses,
    constants = random.constants(sysbench.opt.rand_seed, found.c_load),
    add = counting(),
  }
  operations = {}
  for _, name in ipairs(figures.OPERATIONS) do
    operations[name] = waggle.operation(name)
  end
  deal = random.deck()
  is_spec = sysbench.opt.mode == "spec"
  if is_spec then
    -- So that the terminals do not all begin in the same moment.
    think_time = random.think_time(THINK_TIME_MEAN.new_order)
  end
end

-- A card, the waits before it, and the input; false when the run ends meanwhile.
local function next_transaction()
  kind = deal()
  if is_spec then
    if not waggle.sleep(think_time + KEYING_TIME[kind]) then
      return false
    end
    waggle.begin_event()
  end
  input = transactions[kind].draw(terminal)
  return true
end

function event()
  if not input and not next_transaction() then
    return true
  end
  local transaction = transactions[kind]
  waggle.label(operations[kind])
  local began = is_spec and clock.seconds()
  transaction.execute(terminal, input)
  transaction.count(terminal, input)
  input = nil
  if is_spec then
    think_time = random.think_time(THINK_TIME_MEAN[kind])
    if kind == "delivery" then
      -- Deferred: the terminal answered when it queued the delivery, and thinks since then.
      think_time = math.max(0, think_time - (clock.seconds() - began))
    end
  end
end

-- The engine leaves no transaction open behind a failed attempt.
function sysbench.hooks.before_restart_event()
  terminal.add("restarts", 1)
end

function thread_done()
  terminal.connection:disconnect()
end

-- After the run -----------------------------------------------------------------------------------

function checks(run)
  local connection = sysbench.sql.driver():connect()
  local found = schema.loaded(connection)
  connection:disconnect()
  return figures.checks(run, found, sysbench.opt)
end
