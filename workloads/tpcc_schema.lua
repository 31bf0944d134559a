-- The nine tables of TPC-C (clause 1.3), and what the database itself says about its contents.
--
-- The comment of the table warehouse keeps what a later run has to know: the constant the last
-- names were drawn with and the sizes. A row of warehouse is inserted when all else of that
-- warehouse is there, so that a load that did not end is seen.

local schema = {}

schema.DISTRICTS = 10

-- Sizes: rows of item (and of stock for a warehouse), customers for a district (as many orders),
-- the first order that is not delivered.
schema.FULL = { items = 100000, customers = 3000, first_new = 2101 }
schema.SMALL = { items = 1000, customers = 30, first_new = 22 }

local TABLES = {
  {
    "item",
    [[i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL,
      i_price DECIMAL(5,2) NOT NULL, i_data VARCHAR(50) NOT NULL,
      PRIMARY KEY (i_id)]],
  },
  {
    "district",
    [[d_id TINYINT UNSIGNED NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL,
      d_street_1 VARCHAR(20) NOT NULL, d_street_2 VARCHAR(20) NOT NULL,
      d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL,
      d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL,
      PRIMARY KEY (d_w_id, d_id)]],
    fk = { "(d_w_id) REFERENCES warehouse (w_id)" },
  },
  {
    "customer",
    [[c_id INT NOT NULL, c_d_id TINYINT UNSIGNED NOT NULL, c_w_id INT NOT NULL,
      c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL,
      c_street_1 VARCHAR(20) NOT NULL, c_street_2 VARCHAR(20) NOT NULL,
      c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL,
      c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL,
      c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL,
      c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL,
      c_payment_cnt SMALLINT UNSIGNED NOT NULL, c_delivery_cnt SMALLINT UNSIGNED NOT NULL,
      c_data VARCHAR(500) NOT NULL,
      PRIMARY KEY (c_w_id, c_d_id, c_id),
      KEY customer_by_name (c_w_id, c_d_id, c_last, c_first)]],
    fk = { "(c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)" },
  },
  {
    "history",
    [[h_c_id INT NOT NULL, h_c_d_id TINYINT UNSIGNED NOT NULL, h_c_w_id INT NOT NULL,
      h_d_id TINYINT UNSIGNED NOT NULL, h_w_id INT NOT NULL, h_date DATETIME NOT NULL,
      h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL]],
    fk = {
      "(h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
      "(h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)",
    },
  },
  {
    "orders",
    [[o_id INT NOT NULL, o_d_id TINYINT UNSIGNED NOT NULL, o_w_id INT NOT NULL,
      o_c_id INT NOT NULL, o_entry_d DATETIME NOT NULL, o_carrier_id TINYINT UNSIGNED,
      o_ol_cnt TINYINT UNSIGNED NOT NULL, o_all_local TINYINT UNSIGNED NOT NULL,
      PRIMARY KEY (o_w_id, o_d_id, o_id),
      KEY orders_by_customer (o_w_id, o_d_id, o_c_id, o_id)]],
    fk = { "(o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)" },
  },
  {
    "new_orders",
    [[no_o_id INT NOT NULL, no_d_id TINYINT UNSIGNED NOT NULL, no_w_id INT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],
    fk = { "(no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)" },
  },
  {
    "stock",
    [[s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL,
      s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL,
      s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL,
      s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL,
      s_dist_10 CHAR(24) NOT NULL, s_ytd INT UNSIGNED NOT NULL,
      s_order_cnt SMALLINT UNSIGNED NOT NULL, s_remote_cnt SMALLINT UNSIGNED NOT NULL,
      s_data VARCHAR(50) NOT NULL,
      PRIMARY KEY (s_w_id, s_i_id)]],
    fk = {
      "(s_w_id) REFERENCES warehouse (w_id)",
      "(s_i_id) REFERENCES item (i_id)",
    },
  },
  {
    "order_line",
    [[ol_o_id INT NOT NULL, ol_d_id TINYINT UNSIGNED NOT NULL, ol_w_id INT NOT NULL,
      ol_number TINYINT UNSIGNED NOT NULL, ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL,
      ol_delivery_d DATETIME, ol_quantity TINYINT UNSIGNED NOT NULL,
      ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
      PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]],
    fk = {
      "(ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
      "(ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)",
    },
  },
  -- Last: other threads of a load wait for it.
  {
    "warehouse",
    [[w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL,
      w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL,
      w_zip CHAR(9) NOT NULL, w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL,
      PRIMARY KEY (w_id)]],
  },
}

local function description(size, c_load, seed)
  return string.format("waggle tpcc 1: items=%d customers=%d first_new=%d c_load=%d seed=%.0f",
    size.items, size.customers, size.first_new, c_load, seed)
end

-- Creates all tables; fails where one exists.
function schema.create(connection, size, c_load, seed)
  local opt = sysbench.opt
  -- Children come before their parents here.
  connection:query("SET SESSION foreign_key_checks = 0")
  for _, definition in ipairs(TABLES) do
    local name, columns = definition[1], definition[2]
    if name == "history" and opt.history_pk then
      columns = "h_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, " .. columns
    end
    for _, reference in ipairs(opt.fk and definition.fk or {}) do
      columns = columns .. ", FOREIGN KEY " .. reference
    end
    local comment = ""
    if name == "warehouse" then
      comment = string.format(" COMMENT = '%s'", description(size, c_load, seed))
    end
    connection:query(string.format("CREATE TABLE %s (%s) ENGINE = InnoDB%s %s",
      name, columns, comment, opt.create_table_options))
  end
end

-- What the database holds: { items, customers, first_new, c_load, seed }, or nil if there are no
-- tables of this workload.
function schema.described(connection)
  local comment = connection:query_row([[
    SELECT table_comment FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'warehouse']])
  if not comment then
    return nil
  end
  local pattern = "^waggle tpcc 1: items=(%d+) customers=(%d+) first_new=(%d+) c_load=(%d+)"
    .. " seed=(%d+)"
  local items, customers, first_new, c_load, seed = comment:match(pattern)
  if not items then
    error("there is a table warehouse that waggle's tpcc did not make", 0)
  end
  return {
    items = tonumber(items),
    customers = tonumber(customers),
    first_new = tonumber(first_new),
    c_load = tonumber(c_load),
    seed = tonumber(seed),
    small = tonumber(items) ~= schema.FULL.items,
  }
end

-- Drops all tables, unless those are another program's.
function schema.drop(connection)
  schema.described(connection)
  connection:query("SET SESSION foreign_key_checks = 0")
  for _, definition in ipairs(TABLES) do
    connection:query("DROP TABLE IF EXISTS " .. definition[1])
  end
end

-- As `described`, with the number of warehouses; an error where the load did not end or where
-- there are not as many as the user says.
function schema.loaded(connection)
  local found = schema.described(connection)
  if not found then
    error("there are no tables of tpcc; make them first: waggle bench tpcc prepare", 0)
  end
  local count, highest = connection:query_row("SELECT COUNT(*), MAX(w_id) FROM warehouse")
  found.warehouses = tonumber(count)
  local wanted = sysbench.opt.warehouses
  if found.warehouses == 0 or count ~= highest then
    error("the load of the tables did not end; drop them: waggle bench tpcc cleanup", 0)
  elseif wanted ~= 0 and wanted ~= found.warehouses then
    error(string.format("%d warehouses are loaded, not %d", found.warehouses, wanted), 0)
  end
  return found
end

return schema
