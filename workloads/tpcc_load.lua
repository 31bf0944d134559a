-- Filling the tables (clause 4.3.3): thread 0 the items, and each thread its warehouses.

local random = require("tpcc_random")
local schema = require("tpcc_schema")
local rand = sysbench.rand
local format = string.format

local load = {}

-- A number of hundredths as SQL.
local function hundredths(cents)
  return format("%d.%02d", math.floor(cents / 100), cents % 100)
end

-- A number of ten-thousandths, drawn up to `high`.
local function ten_thousandths(high)
  return format("0.%04d", rand.uniform(0, high))
end

local function address()
  local a_string = random.a_string
  return format("'%s','%s','%s','%s','%s'",
    a_string(10, 20), a_string(10, 20), a_string(10, 20), a_string(2), random.zip())
end

local function fill(connection, name, rows)
  connection:bulk_insert_init("INSERT INTO " .. name .. " VALUES")
  rows(function(...)
    connection:bulk_insert_next("(" .. format(...) .. ")")
  end)
  connection:bulk_insert_done()
end

local function items(connection, size)
  local original = random.a_tenth_of(size.items)
  fill(connection, "item", function(add)
    for i_id = 1, size.items do
      add("%d,%d,'%s',%s,'%s'", i_id, rand.uniform(1, 10000), random.a_string(14, 24),
        hundredths(rand.uniform(100, 10000)), random.data(original()))
    end
  end)
end

local function stock(connection, size, w_id)
  local original = random.a_tenth_of(size.items)
  fill(connection, "stock", function(add)
    local dist = {}
    for i_id = 1, size.items do
      for district = 1, schema.DISTRICTS do
        dist[district] = random.a_string(24)
      end
      add("%d,%d,%d,'%s',0,0,0,'%s'", i_id, w_id, rand.uniform(10, 100),
        table.concat(dist, "','"), random.data(original()))
    end
  end)
end

local function districts(connection, size, w_id)
  fill(connection, "district", function(add)
    for d_id = 1, schema.DISTRICTS do
      -- What the customers' first payments of 10.00 come to: 30,000.00 at full size.
      add("%d,%d,'%s',%s,%s,%s,%d", d_id, w_id, random.a_string(6, 10), address(),
        ten_thousandths(2000), hundredths(size.customers * 1000), size.customers + 1)
    end
  end)
end

local function customers(connection, size, w_id, d_id, c_load, now)
  local bad_credit = random.a_tenth_of(size.customers)
  fill(connection, "customer", function(add)
    for c_id = 1, size.customers do
      local number = c_id - 1
      if c_id > 1000 then
        number = random.nurand(random.A_LAST, c_load, 0, 999)
      end
      add("%d,%d,%d,'%s','OE','%s',%s,'%s','%s','%s',50000.00,%s,-10.00,10.00,1,0,'%s'",
        c_id, d_id, w_id, random.a_string(8, 16), random.last_name(number), address(),
        random.n_string(16), now, bad_credit() and "BC" or "GC", ten_thousandths(5000),
        random.a_string(300, 500))
    end
  end)
  fill(connection, "history (h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data)",
    function(add)
      for c_id = 1, size.customers do
        add("%d,%d,%d,%d,%d,'%s',10.00,'%s'", c_id, d_id, w_id, d_id, w_id, now,
          random.a_string(12, 24))
      end
    end)
end

local function order_lines(connection, size, w_id, d_id, line_counts, now)
  fill(connection, "order_line", function(add)
    for o_id = 1, size.customers do
      local is_new = o_id >= size.first_new
      local delivered = is_new and "NULL" or "'" .. now .. "'"
      for number = 1, line_counts[o_id] do
        local amount = is_new and hundredths(rand.uniform(1, 999999)) or "0.00"
        add("%d,%d,%d,%d,%d,%d,%s,5,%s,'%s'", o_id, d_id, w_id, number,
          rand.uniform(1, size.items), w_id, delivered, amount, random.a_string(24))
      end
    end
  end)
end

local function orders(connection, size, w_id, d_id, now)
  local customer_of, line_counts = random.permutation(size.customers), {}
  fill(connection, "orders", function(add)
    for o_id = 1, size.customers do
      line_counts[o_id] = rand.uniform(5, 15)
      local carrier = o_id >= size.first_new and "NULL" or rand.uniform(1, 10)
      add("%d,%d,%d,%d,'%s',%s,%d,1",
        o_id, d_id, w_id, customer_of[o_id], now, tostring(carrier), line_counts[o_id])
    end
  end)
  fill(connection, "new_orders", function(add)
    for o_id = size.first_new, size.customers do
      add("%d,%d,%d", o_id, d_id, w_id)
    end
  end)
  order_lines(connection, size, w_id, d_id, line_counts, now)
end

local function warehouse(connection, size, w_id, c_load, now)
  stock(connection, size, w_id)
  districts(connection, size, w_id)
  for d_id = 1, schema.DISTRICTS do
    customers(connection, size, w_id, d_id, c_load, now)
    orders(connection, size, w_id, d_id, now)
  end
  connection:query(format("INSERT INTO warehouse VALUES (%d,'%s',%s,%s,%s)", w_id,
    random.a_string(6, 10), address(), ten_thousandths(2000),
    hundredths(schema.DISTRICTS * size.customers * 1000)))
end

-- Until thread 0 has created the tables. Its failure ends this thread at its next statement.
local function wait_for_tables(connection, seed, w_id)
  while true do
    local found = schema.described(connection)
    if found and found.seed == seed then
      -- Tables of an earlier load with the same seed look alike, but for their rows.
      if connection:query_row("SELECT w_id FROM warehouse WHERE w_id = " .. w_id) then
        error("the tables already exist; drop them: waggle bench tpcc cleanup", 0)
      end
      return
    end
    connection:query("DO SLEEP(0.05)")
  end
end

-- The command `prepare`, in each thread.
function load.prepare()
  local opt = sysbench.opt
  local size = opt.small and schema.SMALL or schema.FULL
  local seed, warehouses = opt.rand_seed, math.max(opt.warehouses, 1)
  local c_load = random.last_name_constant_of_load(seed)
  local connection = sysbench.sql.driver():connect()
  if sysbench.tid == 0 then
    if opt.small then
      print("small=on: for trying things out; these tables are not of TPC-C's size")
    end
    schema.create(connection, size, c_load, seed)
    items(connection, size)
    print(format("%d items are loaded", size.items))
  else
    wait_for_tables(connection, seed, sysbench.tid + 1)
  end
  -- Rows come before those they refer to; the rules above make them fit.
  connection:query("SET SESSION foreign_key_checks = 0")
  local now = connection:query_row("SELECT NOW()")
  for w_id = sysbench.tid + 1, warehouses, opt.threads do
    warehouse(connection, size, w_id, c_load, now)
    print(format("warehouse %d of %d is loaded", w_id, warehouses))
  end
  connection:disconnect()
end

-- The command `cleanup`.
function load.cleanup()
  local connection = sysbench.sql.driver():connect()
  schema.drop(connection)
  connection:disconnect()
end

return load
