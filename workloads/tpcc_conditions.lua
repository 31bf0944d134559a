-- The consistency conditions of clause 3.3.2, as statements that count what violates them.
--
-- Each statement is for one warehouse and gives one row: how many violations, and one of them.

local schema = require("tpcc_schema")

local conditions = {}

-- { what must hold, what is counted: a query of violating rows, one column `which` }. In the
-- texts $w is the warehouse, $delivered the orders of a district that are loaded as delivered.
local CONDITIONS = {
  {
    "W_YTD = sum(D_YTD)",
    [[SELECT w_id AS which FROM warehouse WHERE w_id = $w
      AND w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = $w)]],
  },
  {
    "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
    [[SELECT d_id AS which FROM district WHERE d_w_id = $w
      AND (NOT d_next_o_id - 1
          <=> (SELECT MAX(o_id) FROM orders WHERE o_w_id = $w AND o_d_id = d_id)
        OR d_next_o_id - 1
          <> (SELECT MAX(no_o_id) FROM new_orders WHERE no_w_id = $w AND no_d_id = d_id))]],
  },
  {
    "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
    [[SELECT no_d_id AS which FROM new_orders WHERE no_w_id = $w GROUP BY no_d_id
      HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)]],
  },
  {
    "sum(O_OL_CNT) = rows of ORDER-LINE",
    [[SELECT d_id AS which FROM district WHERE d_w_id = $w
      AND NOT (SELECT SUM(o_ol_cnt) FROM orders WHERE o_w_id = $w AND o_d_id = d_id)
        <=> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = $w AND ol_d_id = d_id)]],
  },
  {
    "O_CARRIER_ID is null where the order is in NEW-ORDER, and only there",
    [[SELECT CONCAT_WS('/', o_d_id, o_id) AS which FROM orders LEFT JOIN new_orders
        ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
      WHERE o_w_id = $w AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
      UNION ALL
      SELECT CONCAT_WS('/', no_d_id, no_o_id) FROM new_orders LEFT JOIN orders
        ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id
      WHERE no_w_id = $w AND o_id IS NULL]],
  },
  {
    "O_OL_CNT = rows of ORDER-LINE for the order",
    [[SELECT CONCAT_WS('/', o_d_id, o_id) AS which FROM orders LEFT JOIN
        (SELECT ol_d_id, ol_o_id, COUNT(*) AS ol_count FROM order_line WHERE ol_w_id = $w
         GROUP BY ol_d_id, ol_o_id) counted
        ON ol_d_id = o_d_id AND ol_o_id = o_id
      WHERE o_w_id = $w AND o_ol_cnt <> COALESCE(ol_count, 0)]],
  },
  {
    "OL_DELIVERY_D is null where O_CARRIER_ID is, and only there",
    [[SELECT CONCAT_WS('/', ol_d_id, ol_o_id, ol_number) AS which FROM order_line LEFT JOIN orders
        ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
      WHERE ol_w_id = $w
        AND (o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))]],
  },
  {
    "W_YTD = sum(H_AMOUNT)",
    [[SELECT w_id AS which FROM warehouse WHERE w_id = $w
      AND NOT w_ytd <=> (SELECT SUM(h_amount) FROM history WHERE h_w_id = $w)]],
  },
  {
    "D_YTD = sum(H_AMOUNT)",
    [[SELECT d_id AS which FROM district LEFT JOIN
        (SELECT h_d_id, SUM(h_amount) AS paid FROM history WHERE h_w_id = $w GROUP BY h_d_id) h
        ON h_d_id = d_id
      WHERE d_w_id = $w AND NOT d_ytd <=> paid]],
  },
  {
    "C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)",
    [[SELECT CONCAT_WS('/', c_d_id, c_id) AS which FROM customer
      LEFT JOIN ($delivered_to) bought ON o_d_id = c_d_id AND o_c_id = c_id
      LEFT JOIN
        (SELECT h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history WHERE h_c_w_id = $w
         GROUP BY h_c_d_id, h_c_id) h ON h_c_d_id = c_d_id AND h_c_id = c_id
      WHERE c_w_id = $w AND c_balance <> COALESCE(amount, 0) - COALESCE(paid, 0)]],
  },
  {
    "rows of ORDER - rows of NEW-ORDER = those loaded + sum(C_DELIVERY_CNT)",
    [[SELECT d_id AS which FROM district WHERE d_w_id = $w
      AND (SELECT COUNT(*) FROM orders WHERE o_w_id = $w AND o_d_id = d_id)
        - (SELECT COUNT(*) FROM new_orders WHERE no_w_id = $w AND no_d_id = d_id)
        <> $delivered
        + (SELECT SUM(c_delivery_cnt) FROM customer WHERE c_w_id = $w AND c_d_id = d_id)]],
  },
  {
    "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)",
    [[SELECT CONCAT_WS('/', c_d_id, c_id) AS which FROM customer
      LEFT JOIN ($delivered_to) bought ON o_d_id = c_d_id AND o_c_id = c_id
      WHERE c_w_id = $w AND c_balance + c_ytd_payment <> COALESCE(amount, 0)]],
  },
}

-- What was delivered to each customer of the warehouse.
local DELIVERED_TO = [[
  SELECT o_d_id, o_c_id, SUM(ol_amount) AS amount FROM orders JOIN order_line
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE o_w_id = $w AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id]]

local function statement(text, w_id, found)
  text = text:gsub("%$delivered_to", DELIVERED_TO)
  local values = { w = w_id, delivered = found.first_new - 1 }
  text = text:gsub("%$(%w+)", values)
  return "SELECT COUNT(*), MIN(which) FROM (" .. text .. ") violations"
end

-- Tests one condition in the warehouses and prints what came out; false if it is violated.
local function test(connection, number, found, warehouses, where)
  local text, query = unpack(CONDITIONS[number])
  local violations, example = 0, nil
  for _, w_id in ipairs(warehouses) do
    local count, which = connection:query_row(statement(query, w_id, found))
    violations = violations + tonumber(count)
    if not example and which then
      example = string.format("warehouse %d: %s", w_id, which)
    end
  end
  local holds = violations == 0
  local outcome = holds and "ok" or string.format("FAILED, %d, %s", violations, example)
  print(string.format("3.3.2.%-2d %s%s: %s", number, text, where, outcome))
  return holds
end

-- The command `check`, in each thread: thread t of n takes warehouses t+1, t+1+n, ...
function conditions.check()
  local connection = sysbench.sql.driver():connect()
  local found = schema.loaded(connection)
  local warehouses = {}
  for w_id = sysbench.tid + 1, found.warehouses, sysbench.opt.threads do
    warehouses[#warehouses + 1] = w_id
  end
  local all_hold = true
  if #warehouses > 0 then
    local where = ""
    if sysbench.opt.threads > 1 then
      where = " (warehouses " .. table.concat(warehouses, ",") .. ")"
    end
    for number = 1, #CONDITIONS do
      all_hold = test(connection, number, found, warehouses, where) and all_hold
    end
  end
  connection:disconnect()
  return all_hold
end

return conditions
