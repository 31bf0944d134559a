-- The five transactions (clauses 2.4 to 2.8): each a pair of functions, one that draws the input
-- at the terminal and one that executes the profile with it.
--
-- They are apart because a transaction that lost a deadlock is executed again with the same input.
-- Rows that are read and then written are read FOR UPDATE, so that under REPEATABLE READ no write
-- is made from an old snapshot. Reads whose values are needed are texts, because rows of prepared
-- statements cannot be read in Lua; everything else is prepared.

local random = require("tpcc_random")
local schema = require("tpcc_schema")
local rand = sysbench.rand
local types = sysbench.sql.type
local format = string.format

local transactions = {}

local INT = types.INT
local AMOUNT = { types.CHAR, 16 }

-- Prepared statements -------------------------------------------------------------------------

local STATEMENTS = {
  district_next_order = {
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?", INT, INT,
  },
  order_insert = {
    [[INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt,
      o_all_local) VALUES (?, ?, ?, ?, NOW(), NULL, ?, ?)]],
    INT, INT, INT, INT, INT, INT,
  },
  new_order_insert = {
    "INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)", INT, INT, INT,
  },
  stock_update = {
    [[UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?]],
    INT, INT, INT, INT, INT,
  },
  line_insert = {
    [[INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
      ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
      VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)]],
    INT, INT, INT, INT, INT, INT, INT, AMOUNT, { types.CHAR, 24 },
  },
  warehouse_pay = {
    "UPDATE warehouse SET w_ytd = w_ytd + CAST(? AS DECIMAL(12,2)) WHERE w_id = ?", AMOUNT, INT,
  },
  district_pay = {
    [[UPDATE district SET d_ytd = d_ytd + CAST(? AS DECIMAL(12,2))
      WHERE d_w_id = ? AND d_id = ?]],
    AMOUNT, INT, INT,
  },
  customer_pay = {
    [[UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)),
      c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)),
      c_payment_cnt = c_payment_cnt + 1
      WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?]],
    AMOUNT, AMOUNT, INT, INT, INT,
  },
  customer_pay_bad_credit = {
    [[UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)),
      c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)),
      c_payment_cnt = c_payment_cnt + 1, c_data = ?
      WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?]],
    AMOUNT, AMOUNT, { types.VARCHAR, 500 }, INT, INT, INT,
  },
  history_insert = {
    [[INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
      VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)]],
    INT, INT, INT, INT, INT, AMOUNT, { types.VARCHAR, 24 },
  },
  order_lines = {
    [[SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
      WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?]],
    INT, INT, INT,
  },
  new_order_delete = {
    "DELETE FROM new_orders WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", INT, INT, INT,
  },
  order_deliver = {
    "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
    INT, INT, INT, INT,
  },
  lines_deliver = {
    [[UPDATE order_line SET ol_delivery_d = NOW()
      WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?]],
    INT, INT, INT,
  },
  customer_deliver = {
    [[UPDATE customer SET c_balance = c_balance + CAST(? AS DECIMAL(12,2)),
      c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?]],
    AMOUNT, INT, INT, INT,
  },
}

-- A function that executes the statement with its parameters' values.
local function prepared(connection, definition)
  local statement, params = connection:prepare(definition[1]), {}
  for i = 2, #definition do
    local kind = definition[i]
    if type(kind) == "table" then
      params[i - 1] = statement:bind_create(kind[1], kind[2])
    else
      params[i - 1] = statement:bind_create(kind)
    end
  end
  statement:bind_param(unpack(params))
  local count = #params
  return function(...)
    for i = 1, count do
      params[i]:set((select(i, ...)))
    end
    return statement:execute()
  end
end

-- All statements above by name, prepared on one connection.
function transactions.prepare(connection)
  local run = {}
  for name, definition in pairs(STATEMENTS) do
    run[name] = prepared(connection, definition)
  end
  return run
end

-- What transactions share ---------------------------------------------------------------------

-- A terminal is { connection, run, home, district, size, warehouses, constants, add }: its
-- statements, its warehouse and district, what is loaded, and add(counter, n).

-- Sixty of a hundred customers are asked for by their last names, the others by number.
local function draw_customer(terminal)
  local size, constants = terminal.size, terminal.constants
  if rand.uniform(1, 100) <= 60 then
    local names = math.min(size.customers, 1000)
    local number = random.nurand(random.A_LAST, constants.last, 0, names - 1)
    return nil, random.last_name(number)
  end
  return random.nurand(random.A_CUSTOMER, constants.customer, 1, size.customers)
end

-- The number of a customer: the given one, or of those with the name the middle one, rounded up,
-- by first names.
local function find_customer(connection, w_id, d_id, c_id, c_last)
  if c_id then
    return c_id
  end
  local named = format("FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s'",
    w_id, d_id, c_last)
  local count = tonumber((connection:query_row("SELECT COUNT(c_id) " .. named)))
  if count == 0 then
    error(format("no customer %s in district %d of warehouse %d", c_last, d_id, w_id))
  end
  return connection:query_row(format("SELECT c_id %s ORDER BY c_first LIMIT %d, 1",
    named, math.ceil(count / 2) - 1))
end

-- A sum of money from hundredths, as text: exact, which a double would not be.
local function money(cents)
  return format("%d.%02d", math.floor(cents / 100), cents % 100)
end

-- The other way round; `text` has two digits after the point.
local function cents_of(text)
  local whole, part = text:match("^(%d+)%.(%d%d)$")
  return whole * 100 + part
end

-- New order (2.4) -----------------------------------------------------------------------------

local new_order = {}
transactions.new_order = new_order

function new_order.draw(terminal)
  local size, home = terminal.size, terminal.home
  local input = {
    d_id = rand.uniform(1, schema.DISTRICTS),
    c_id = random.nurand(random.A_CUSTOMER, terminal.constants.customer, 1, size.customers),
    all_local = 1,
    remote_lines = 0,
    lines = {},
  }
  local count = rand.uniform(5, 15)
  input.rolls_back = rand.uniform(1, 100) == 1
  for number = 1, count do
    local i_id = random.nurand(random.A_ITEM, terminal.constants.item, 1, size.items)
    if input.rolls_back and number == count then
      -- Nobody sells it.
      i_id = size.items + 1
    end
    local supply = home
    if rand.uniform(1, 100) == 1 then
      supply = random.other(home, terminal.warehouses)
    end
    if supply ~= home then
      input.all_local, input.remote_lines = 0, input.remote_lines + 1
    end
    input.lines[number] = { i_id = i_id, supply = supply, quantity = rand.uniform(1, 10) }
  end
  return input
end

-- One line: its amount in hundredths, or nil if there is no such item.
local function order_line(terminal, d_id, o_id, number, line)
  local connection, home = terminal.connection, terminal.home
  local i_price, _, i_data = connection:query_row(format(
    "SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", line.i_id))
  if not i_price then
    return nil
  end
  local s_quantity, s_dist, s_data = connection:query_row(format(
    "SELECT s_quantity, s_dist_%02d, s_data FROM stock"
      .. " WHERE s_w_id = %d AND s_i_id = %d FOR UPDATE",
    d_id, line.supply, line.i_id))
  local quantity, ordered = tonumber(s_quantity), line.quantity
  quantity = quantity - ordered
  if quantity < 10 then
    quantity = quantity + 91
  end
  terminal.run.stock_update(
    quantity, ordered, line.supply ~= home and 1 or 0, line.supply, line.i_id)
  -- What the terminal would show as brand or generic.
  local both = i_data:find("ORIGINAL", 1, true) and s_data:find("ORIGINAL", 1, true)
  line.brand_generic = both and "B" or "G"
  local amount = ordered * cents_of(i_price)
  terminal.run.line_insert(
    o_id, d_id, home, number, line.i_id, line.supply, ordered, money(amount), s_dist)
  return amount
end

function new_order.execute(terminal, input)
  local connection, run, home, d_id = terminal.connection, terminal.run, terminal.home, input.d_id
  connection:query("BEGIN")
  local w_tax = connection:query_row("SELECT w_tax FROM warehouse WHERE w_id = " .. home)
  local d_tax, o_id = connection:query_row(format(
    "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE",
    home, d_id))
  o_id = tonumber(o_id)
  run.district_next_order(home, d_id)
  local c_discount = connection:query_row(format(
    "SELECT c_discount, c_last, c_credit FROM customer"
      .. " WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d",
    home, d_id, input.c_id))
  run.order_insert(o_id, d_id, home, input.c_id, #input.lines, input.all_local)
  run.new_order_insert(o_id, d_id, home)
  local total = 0
  for number, line in ipairs(input.lines) do
    local amount = order_line(terminal, d_id, o_id, number, line)
    if not amount then
      connection:query("ROLLBACK")
      return
    end
    total = total + amount
  end
  input.total = total * (1 - c_discount) * (1 + w_tax + d_tax)
  connection:query("COMMIT")
end

function new_order.count(terminal, input)
  local add = terminal.add
  add("new_orders", 1)
  add("order_lines", #input.lines)
  add("remote_lines", input.remote_lines)
  add("rolled_back", input.rolls_back and 1 or 0)
end

-- Payment (2.5) -------------------------------------------------------------------------------

local payment = {}
transactions.payment = payment

function payment.draw(terminal)
  local input = {
    d_id = rand.uniform(1, schema.DISTRICTS),
    cents = rand.uniform(100, 500000),
    c_w_id = terminal.home,
  }
  input.c_d_id = input.d_id
  if rand.uniform(1, 100) > 85 then
    input.c_w_id = random.other(terminal.home, terminal.warehouses)
    input.c_d_id = rand.uniform(1, schema.DISTRICTS)
  end
  input.c_id, input.c_last = draw_customer(terminal)
  return input
end

local function pay_customer(terminal, input, c_id, amount)
  local connection, run = terminal.connection, terminal.run
  local w_id, d_id = input.c_w_id, input.c_d_id
  local where = format("WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w_id, d_id, c_id)
  -- The fifth value is the credit; the others would be shown.
  local credit = select(5, connection:query_row(
    "SELECT c_first, c_middle, c_last, c_balance, c_credit, c_street_1, c_street_2, c_city,"
      .. " c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount FROM customer "
      .. where .. " FOR UPDATE"))
  if credit ~= "BC" then
    run.customer_pay(amount, amount, w_id, d_id, c_id)
    return
  end
  local c_data = connection:query_row("SELECT c_data FROM customer " .. where)
  local entry = format("%d %d %d %d %d %s ", c_id, d_id, w_id, input.d_id, terminal.home, amount)
  run.customer_pay_bad_credit(amount, amount, (entry .. c_data):sub(1, 500), w_id, d_id, c_id)
end

function payment.execute(terminal, input)
  local connection, run, home = terminal.connection, terminal.run, terminal.home
  local amount = money(input.cents)
  connection:query("BEGIN")
  run.warehouse_pay(amount, home)
  local w_name = connection:query_row(
    "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = "
      .. home)
  run.district_pay(amount, home, input.d_id)
  local d_name = connection:query_row(format(
    "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district"
      .. " WHERE d_w_id = %d AND d_id = %d",
    home, input.d_id))
  local c_id = tonumber((find_customer(
    connection, input.c_w_id, input.c_d_id, input.c_id, input.c_last)))
  pay_customer(terminal, input, c_id, amount)
  run.history_insert(
    c_id, input.c_d_id, input.c_w_id, input.d_id, home, amount, w_name .. "    " .. d_name)
  connection:query("COMMIT")
end

function payment.count(terminal, input)
  local add = terminal.add
  add("payments", 1)
  add("remote_payments", input.c_w_id ~= terminal.home and 1 or 0)
  add("payments_by_name", input.c_last and 1 or 0)
end

-- Order status (2.6) --------------------------------------------------------------------------

local order_status = {}
transactions.order_status = order_status

function order_status.draw(terminal)
  local input = { d_id = rand.uniform(1, schema.DISTRICTS) }
  input.c_id, input.c_last = draw_customer(terminal)
  return input
end

function order_status.execute(terminal, input)
  local connection, home, d_id = terminal.connection, terminal.home, input.d_id
  connection:query("BEGIN")
  local c_id = find_customer(connection, home, d_id, input.c_id, input.c_last)
  connection:query_row(format(
    "SELECT c_balance, c_first, c_middle, c_last FROM customer"
      .. " WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d",
    home, d_id, c_id))
  local o_id = connection:query_row(format(
    "SELECT o_id, o_entry_d, o_carrier_id FROM orders"
      .. " WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC LIMIT 1",
    home, d_id, c_id))
  terminal.run.order_lines(home, d_id, tonumber(o_id))
  connection:query("COMMIT")
end

function order_status.count(terminal, input)
  terminal.add("order_statuses", 1)
  terminal.add("order_statuses_by_name", input.c_last and 1 or 0)
end

-- Delivery (2.7) ------------------------------------------------------------------------------

local delivery = {}
transactions.delivery = delivery

function delivery.draw()
  return { carrier = rand.uniform(1, 10), skipped = 0 }
end

-- Delivers the oldest new order of a district; false if there is none.
local function deliver(terminal, d_id, carrier)
  local connection, run, home = terminal.connection, terminal.run, terminal.home
  local o_id = tonumber((connection:query_row(format(
    "SELECT no_o_id FROM new_orders WHERE no_w_id = %d AND no_d_id = %d"
      .. " ORDER BY no_o_id LIMIT 1 FOR UPDATE",
    home, d_id))))
  if not o_id then
    return false
  end
  run.new_order_delete(home, d_id, o_id)
  -- FOR UPDATE here and at the sum: the order may be younger than this transaction's snapshot,
  -- which began with the first district.
  local c_id = connection:query_row(format(
    "SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d FOR UPDATE",
    home, d_id, o_id))
  run.order_deliver(carrier, home, d_id, o_id)
  run.lines_deliver(home, d_id, o_id)
  local amount = connection:query_row(format(
    "SELECT SUM(ol_amount) FROM order_line"
      .. " WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d FOR UPDATE",
    home, d_id, o_id))
  run.customer_deliver(amount, home, d_id, tonumber(c_id))
  return true
end

function delivery.execute(terminal, input)
  local connection = terminal.connection
  input.skipped = 0
  connection:query("BEGIN")
  for d_id = 1, schema.DISTRICTS do
    if not deliver(terminal, d_id, input.carrier) then
      input.skipped = input.skipped + 1
    end
  end
  connection:query("COMMIT")
end

function delivery.count(terminal, input)
  terminal.add("deliveries", 1)
  terminal.add("districts_without_new_order", input.skipped)
end

-- Stock level (2.8) ---------------------------------------------------------------------------

local stock_level = {}
transactions.stock_level = stock_level

function stock_level.draw()
  return { threshold = rand.uniform(10, 20) }
end

function stock_level.execute(terminal, input)
  local connection, home, d_id = terminal.connection, terminal.home, terminal.district
  connection:query("BEGIN")
  local next_o_id = connection:query_row(format(
    "SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", home, d_id))
  connection:query_row(format(
    "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock"
      .. " ON s_w_id = %d AND s_i_id = ol_i_id AND s_quantity < %d"
      .. " WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id >= %d AND ol_o_id < %d",
    home, input.threshold, home, d_id, next_o_id - 20, next_o_id))
  connection:query("COMMIT")
end

function stock_level.count(terminal)
  terminal.add("stock_levels", 1)
end

return transactions
