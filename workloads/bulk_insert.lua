-- Multi-row inserts as fast as they go: every thread fills a table of its own with ascending keys.
--
-- An event is one row; rows travel in statements of half a megabyte, so that most events only
-- fill a buffer and some wait for the server.

sysbench.cmdline.options = {
  create_table_options = { "Text added to CREATE TABLE", "" },
  mysql_storage_engine = { "Storage engine", "innodb" },
}

local function table_name(number)
  return string.format("sbtest%d", number + 1)
end

local function for_all_tables(action)
  local connection = sysbench.sql.driver():connect()
  for number = 0, sysbench.opt.threads - 1 do
    action(connection, table_name(number))
  end
  connection:disconnect()
end

function prepare()
  for_all_tables(function(connection, name)
    print("creating table " .. name)
    connection:query(string.format([[
      CREATE TABLE %s (
        id INTEGER NOT NULL,
        k INTEGER DEFAULT '0' NOT NULL,
        PRIMARY KEY (id)
      ) ENGINE = %s %s]],
      name, sysbench.opt.mysql_storage_engine, sysbench.opt.create_table_options))
  end)
end

function cleanup()
  for_all_tables(function(connection, name)
    print("dropping table " .. name)
    connection:query("DROP TABLE IF EXISTS " .. name)
  end)
end

local connection, last

function thread_init(tid)
  connection = sysbench.sql.driver():connect()
  local name = table_name(tid)
  -- A second run goes on where the first one ended.
  last = tonumber(connection:query_row("SELECT COALESCE(MAX(id), 0) FROM " .. name))
  connection:bulk_insert_init("INSERT INTO " .. name .. " VALUES")
end

function event()
  last = last + 1
  connection:bulk_insert_next(string.format("(%d, %d)", last, last))
end

function thread_done()
  connection:bulk_insert_done()
  connection:disconnect()
end
