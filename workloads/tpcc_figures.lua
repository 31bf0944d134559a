-- What a run came to: tpmC or NOPM, the limits of response times (clause 5.2.5.3), the minimums
-- of the mix (5.2.3) and the ranges of clause 9.2.2.5 that show whether the load was TPC-C's.
--
-- What was drawn misses its range by chance as well. So a check says true when the value is in the
-- range and the 95% interval around it is narrower than the range; false when the value is further
-- outside than chance brings it in a million runs; and otherwise nothing.

local figures = {}

figures.OPERATIONS = { "new_order", "payment", "order_status", "delivery", "stock_level" }

figures.COUNTERS = {
  "new_orders", "order_lines", "remote_lines", "rolled_back",
  "payments", "remote_payments", "payments_by_name",
  "order_statuses", "order_statuses_by_name",
  "deliveries", "districts_without_new_order",
  "stock_levels", "restarts",
}

local NONE = "none were run"
local TPMC_PER_WAREHOUSE_MAX = 12.86
local CARDS_IN_DECK = 23
-- In standard errors: half of a 95% interval, and what chance does not explain.
local INTERVAL, BEYOND_CHANCE = 1.96, 5
-- With fewer expected than this, standard errors say little about rare things.
local EXPECTED_LEAST = 25
-- Of the numbers from 5 to 15, all as likely: the standard deviation.
local LINES_DEVIATION = math.sqrt((11 * 11 - 1) / 12)

-- A value drawn `count` times against its range; `deviation` is that of one draw, `expected` how
-- often what is counted should have come.
local function judged(name, value, unit, low, high, deviation, count, expected)
  local figure = { name = name, value = value, unit = unit, low = low, high = high }
  if count == 0 then
    figure.value, figure.note = nil, NONE
    return figure
  end
  local error_of_mean = deviation / math.sqrt(count)
  local outside = math.max(low - value, value - high)
  if outside > BEYOND_CHANCE * error_of_mean and expected >= EXPECTED_LEAST then
    figure.ok = false
  elseif 2 * INTERVAL * error_of_mean > high - low then
    local needed = math.ceil((2 * INTERVAL * deviation / (high - low)) ^ 2)
    figure.note = string.format("too few to tell: %d of %d", count, needed)
  elseif outside <= 0 then
    figure.ok = true
  else
    figure.note = "outside, but not beyond chance"
  end
  return figure
end

-- `part` of `whole` in percent, expected in the middle of the range.
local function share(name, part, whole, low, high)
  local expected = (low + high) / 200
  return judged(name, 100 * part / whole, "%", low, high,
    100 * math.sqrt(expected * (1 - expected)), whole, whole * expected)
end

local function remote_share(name, part, whole, low, high, warehouses)
  if warehouses > 1 then
    return share(name, part, whole, low, high)
  end
  return { name = name, unit = "%", low = low, high = high, note = "there is one warehouse" }
end

local function throughput(run, warehouses, is_spec, size)
  local per_minute = run.counters.new_orders / run.duration_s * 60
  if not is_spec then
    return { { name = "NOPM, not tpmC", value = per_minute, unit = "new orders/min" } }
  end
  local list = { { name = "tpmC", value = per_minute, unit = "new orders/min" } }
  if size.small then
    list[1].note = "small=on: not TPC-C's size"
  end
  local efficiency = {
    name = "efficiency",
    value = 100 * per_minute / (TPMC_PER_WAREHOUSE_MAX * warehouses),
    unit = "%",
    high = 100,
  }
  -- The think times vary, and so does what fits into the run.
  local count = run.counters.new_orders
  local error_of_mean = efficiency.value / math.sqrt(math.max(count, 1))
  if efficiency.value - BEYOND_CHANCE * error_of_mean > 100 then
    efficiency.ok = false
    efficiency.note = string.format(
      "more than %.2f tpmC a warehouse: the waits were not kept", TPMC_PER_WAREHOUSE_MAX)
  elseif efficiency.value <= 100 then
    efficiency.ok = true
  else
    efficiency.note = "above 100, but not beyond chance"
  end
  list[2] = efficiency
  return list
end

local MIX_MINIMUM = {
  new_order = { "new_orders" },
  payment = { "payments", 43 },
  order_status = { "order_statuses", 4 },
  delivery = { "deliveries", 4 },
  stock_level = { "stock_levels", 4 },
}

-- The only way to miss a minimum are decks that were cut, at most two for each thread: where the
-- measurement began and where it ended.
local DECKS_LEAST = 40

local function mix(run, threads)
  local counters, list = run.counters, {}
  local total = 0
  for _, kind in ipairs(figures.OPERATIONS) do
    total = total + counters[MIX_MINIMUM[kind][1]]
  end
  for _, kind in ipairs(figures.OPERATIONS) do
    local counter, minimum = unpack(MIX_MINIMUM[kind])
    local figure = { name = "mix: " .. kind, unit = "%", low = minimum }
    list[#list + 1] = figure
    if total == 0 then
      figure.note = NONE
    else
      figure.value = 100 * counters[counter] / total
      if not minimum then
        figure.note = "no minimum: it is what is measured"
      elseif figure.value >= minimum then
        figure.ok = true
      elseif total < DECKS_LEAST * threads * CARDS_IN_DECK then
        figure.note = string.format("too few to tell: less than %d decks a thread", DECKS_LEAST)
      else
        figure.ok = false
      end
    end
  end
  return list
end

local function ranges(run, warehouses)
  local c = run.counters
  return {
    share("rolled back", c.rolled_back, c.new_orders, 0.9, 1.1),
    judged("order lines", c.order_lines / c.new_orders, "lines/order", 9.5, 10.5,
      LINES_DEVIATION, c.new_orders, c.new_orders),
    remote_share("remote order lines", c.remote_lines, c.order_lines, 0.95, 1.05, warehouses),
    remote_share("remote payments", c.remote_payments, c.payments, 14, 16, warehouses),
    share("payments by last name", c.payments_by_name, c.payments, 57, 63),
    share("order status by last name", c.order_statuses_by_name, c.order_statuses, 57, 63),
  }
end

local LIMIT_S = { new_order = 5, payment = 5, order_status = 5, delivery = 5, stock_level = 20 }
local DEFERRED_LIMIT_S = 80

local function response_limits(run, is_spec)
  local list = {}
  for _, kind in ipairs(figures.OPERATIONS) do
    local name, limit = "90th percentile: " .. kind, LIMIT_S[kind]
    if kind == "delivery" and is_spec then
      name, limit = name .. ", deferred", DEFERRED_LIMIT_S
    end
    local figure = { name = name, unit = "s", high = limit }
    list[#list + 1] = figure
    local operation = run.operations[kind]
    if operation and operation.count > 0 then
      figure.value = operation.p90_us / 1e6
      -- Without the waits, the threads decide how long a transaction waits for the others.
      if is_spec then
        figure.ok = figure.value <= limit
      end
    else
      figure.note = NONE
    end
  end
  return list
end

local function rest(run)
  local c = run.counters
  local list = { { name = "restarts", value = c.restarts, unit = "transactions",
    note = "deadlocks and lock waits; executed again with the same input" } }
  list[2] = {
    name = "districts with nothing to deliver",
    value = c.districts_without_new_order,
    unit = "districts",
    note = "the deck delivers ten orders for ten new ones, of which some are rolled back",
  }
  return list
end

-- `found` is what the database holds, `opt` the options of the run.
function figures.checks(run, found, opt)
  for _, name in ipairs(figures.COUNTERS) do
    run.counters[name] = run.counters[name] or 0
  end
  local is_spec, warehouses = opt.mode == "spec", found.warehouses
  local list = {}
  for _, part in ipairs({
    throughput(run, warehouses, is_spec, found),
    mix(run, opt.threads),
    ranges(run, warehouses),
    response_limits(run, is_spec),
    rest(run),
  }) do
    for _, figure in ipairs(part) do
      list[#list + 1] = figure
    end
  end
  return list
end

return figures
