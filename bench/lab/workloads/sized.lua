-- One row by its primary key, in a statement whose text is BYTES long: what the length of a
-- statement costs whoever reads it. The first line of code is the only one that differs.
local BYTES = 1024

sysbench.cmdline.options = {
  tables = { "Number of tables; only the first is read", 1 },
  table_size = { "Number of rows", 10000 },
}

local FORM = "SELECT c FROM sized1 WHERE id=%d AND '%s'<>''"
local padding = string.rep("x", math.max(0, BYTES - #FORM))
local connection

function prepare()
  local setup = sysbench.sql.driver():connect()
  setup:query("CREATE TABLE sized1 (id INTEGER NOT NULL PRIMARY KEY, c CHAR(120) NOT NULL)")
  waggle.load(setup, "sized1", sysbench.opt.table_size, {
    { "id", "sequence", 1 },
    { "c", "string", "###########-###########-###########" },
  })
  setup:disconnect()
end

function cleanup()
  local setup = sysbench.sql.driver():connect()
  setup:query("DROP TABLE IF EXISTS sized1")
  setup:disconnect()
end

function thread_init()
  connection = sysbench.sql.driver():connect()
end

function event()
  local id = sysbench.rand.default(1, sysbench.opt.table_size)
  connection:query(string.format(FORM, id, padding))
end

function thread_done()
  connection:disconnect()
end
