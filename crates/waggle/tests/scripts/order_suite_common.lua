-- Tables, loading and transactions of order_suite.lua.

ffi = require("ffi")

if sysbench.cmdline.command == nil then
  error("Command is required. Supported commands: prepare, run, check, cleanup, help")
end

sysbench.cmdline.options = {
  scale = { "Warehouses", 2 },
  items = { "Items, and stock rows of a warehouse", 100 },
  use_fk = { "Foreign keys", true },
  report_csv = { "Report as CSV", false },
  trx_level = { "Isolation level", "RR" },
}

local DISTRICTS, CUSTOMERS = 10, 30
local flags = bit.bor(bit.lshift(1, 4), 0x0f)

function warehouses_of_this_thread()
  local list = {}
  for w = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.scale, sysbench.opt.threads do
    list[#list + 1] = w
  end
  return list
end

local function create_tables(con)
  con:query("CREATE TABLE IF NOT EXISTS os_warehouse (w_id INT PRIMARY KEY, w_ytd DECIMAL(12,2), "
    .. "w_flags INT) ENGINE = InnoDB")
  con:query("CREATE TABLE IF NOT EXISTS os_district (d_w_id INT, d_id INT, d_next_o_id INT, "
    .. "d_ytd DECIMAL(12,2), PRIMARY KEY (d_w_id, d_id)) ENGINE = InnoDB")
  con:query("CREATE TABLE IF NOT EXISTS os_customer (c_w_id INT, c_d_id INT, c_id INT, "
    .. "c_name VARCHAR(16), c_balance DECIMAL(12,2), PRIMARY KEY (c_w_id, c_d_id, c_id)) "
    .. "ENGINE = InnoDB")
  con:query("CREATE TABLE IF NOT EXISTS os_stock (s_w_id INT, s_i_id INT, s_quantity INT, "
    .. "s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)) ENGINE = InnoDB")
  con:query("CREATE TABLE IF NOT EXISTS os_orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, "
    .. "o_lines INT, o_entry DATETIME NULL, PRIMARY KEY (o_w_id, o_d_id, o_id)) ENGINE = InnoDB")
  con:query("CREATE TABLE IF NOT EXISTS os_line (l_w_id INT, l_d_id INT, l_o_id INT, l_number INT, "
    .. "l_i_id INT, l_amount DECIMAL(8,2), PRIMARY KEY (l_w_id, l_d_id, l_o_id, l_number)) "
    .. "ENGINE = InnoDB")
end

local function load_warehouse(con, w)
  print(string.format("loading warehouse: %d", w))
  con:query(string.format("INSERT INTO os_warehouse VALUES (%d, 0, %d)", w, flags))
  con:bulk_insert_init("INSERT INTO os_district (d_w_id, d_id, d_next_o_id, d_ytd) VALUES")
  for d = 1, DISTRICTS do
    con:bulk_insert_next(string.format("(%d, %d, 1, 0)", w, d))
  end
  con:bulk_insert_done()
  con:bulk_insert_init("INSERT INTO os_customer VALUES")
  for d = 1, DISTRICTS do
    for c = 1, CUSTOMERS do
      con:bulk_insert_next(string.format(
        "(%d, %d, %d, '%s', -10)", w, d, c, sysbench.rand.string("@@@@-####")))
    end
  end
  con:bulk_insert_done()
  con:bulk_insert_init("INSERT INTO os_stock VALUES")
  for i = 1, sysbench.opt.items do
    con:bulk_insert_next(string.format("(%d, %d, %d, '%s')", w, i,
      sysbench.rand.uniform(10, 100), sysbench.rand.string("@@@@@@@@@@@@@@@@")))
  end
  con:bulk_insert_done()
end

function cmd_prepare()
  local con = sysbench.sql.driver():connect()
  if drv_name == nil then
    drv_name = sysbench.sql.driver():name()
  end
  create_tables(con)
  for _, w in ipairs(warehouses_of_this_thread()) do
    load_warehouse(con, w)
  end
end

function cmd_check()
  local con = sysbench.sql.driver():connect()
  for _, w in ipairs(warehouses_of_this_thread()) do
    local paid, sum = con:query_row(string.format(
      "SELECT w_ytd, (SELECT SUM(d_ytd) FROM os_district WHERE d_w_id = w_id) "
        .. "FROM os_warehouse WHERE w_id = %d", w))
    assert(paid == sum, "warehouse " .. w .. ": " .. tostring(paid) .. " is not " .. tostring(sum))
    local promised, stored = con:query_row(string.format(
      "SELECT (SELECT COALESCE(SUM(o_lines), 0) FROM os_orders WHERE o_w_id = %d), "
        .. "(SELECT COUNT(*) FROM os_line WHERE l_w_id = %d)", w, w))
    assert(promised == stored, "lines of warehouse " .. w)
    print("warehouse " .. w .. " is consistent")
  end
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  for _, name in ipairs({ "warehouse", "district", "customer", "stock", "orders", "line" }) do
    con:query("DROP TABLE IF EXISTS os_" .. name)
  end
end

sysbench.cmdline.commands = {
  prepare = { cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND },
  check = { cmd_check, sysbench.cmdline.PARALLEL_COMMAND },
}

local function place()
  return sysbench.rand.uniform(1, sysbench.opt.scale), sysbench.rand.uniform(1, DISTRICTS),
    sysbench.rand.uniform(1, CUSTOMERS)
end

function new_order()
  local w, d, c = place()
  con:query("BEGIN")
  local next_id = con:query_row(string.format(
    "SELECT d_next_o_id FROM os_district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d))
  con:query(string.format(
    "UPDATE os_district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", next_id + 1, w, d))
  local lines = sysbench.rand.uniform(5, 15)
  con:query(string.format(
    "INSERT INTO os_orders VALUES (%d, %d, %d, %d, %d, NULL)", w, d, next_id, c, lines))
  for number = 1, lines do
    local i = sysbench.rand.uniform(1, sysbench.opt.items)
    local rs = con:query(string.format(
      "SELECT s_quantity, s_data FROM os_stock WHERE s_w_id = %d AND s_i_id = %d FOR UPDATE", w, i))
    local quantity, data
    for _ = 1, rs.nrows do
      quantity, data = unpack(rs:fetch_row(), 1, rs.nfields)
    end
    if "12" % 5 ~= 2 or string.len(data) ~= 16 then
      error("string arithmetic or a row is wrong")
    end
    con:query(string.format("UPDATE os_stock SET s_quantity = %d WHERE s_w_id = %d AND s_i_id = %d",
      quantity > "19" and quantity - 10 or quantity + 91, w, i))
    con:query(string.format("INSERT INTO os_line VALUES (%d, %d, %d, %d, %d, %.2f)",
      w, d, next_id, number, i, sysbench.rand.uniform_double() * 100))
  end
  -- One in a hundred changes its mind.
  if sysbench.rand.uniform(1, 100) == 1 then
    ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
    con:query("ROLLBACK")
    return
  end
  con:query("COMMIT")
end

function payment()
  local w, d, c = place()
  local amount = string.format("%d", 1 + sysbench.rand.uniform_double() * 5000)
  con:query("BEGIN")
  con:query(string.format("UPDATE os_warehouse SET w_ytd = w_ytd + %s WHERE w_id = %d", amount, w))
  con:query(string.format(
    "UPDATE os_district SET d_ytd = d_ytd + %s WHERE d_w_id = %d AND d_id = %d", amount, w, d))
  con:query(string.format("UPDATE os_customer SET c_balance = c_balance - %s "
    .. "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, w, d, c))
  con:query("COMMIT")
end

function order_status()
  local w, d, c = place()
  con:query("BEGIN")
  local rs = con:query(string.format("SELECT o_id, o_entry, o_lines FROM os_orders "
    .. "WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC", w, d, c))
  if rs.nrows > 0 then
    local row = rs:fetch_row()
    assert(row[2] == nil, "NULL is a hole")
    local lines = con:query_row(string.format(
      "SELECT COUNT(*) FROM os_line WHERE l_w_id = %d AND l_d_id = %d AND l_o_id = %d",
      w, d, row[1]))
    assert(tonumber(lines) == tonumber(row[3]), "lines of an order")
  end
  con:query("COMMIT")
  ffi.C.usleep(1)
end
