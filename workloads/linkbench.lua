-- A social graph by the schema, operations, mixes and distributions of LinkBench (Facebook, 2012):
-- nodes, links between them, and a count of links kept beside them.
--
-- Closed loop it is LinkBench; with --rate it is the request-rate mode that LinkBenchX added, with
-- latencies from the intended start of every request. Statements are text, as LinkBench sends them.

local graph = require("linkbench_graph")
local store = require("linkbench_load")

sysbench.cmdline.options = {
  nodes = { "Nodes loaded (LinkBench: 10,000,000; 1,000,000 take about 1 GB)", 100000 },
  mix = { "Shares of the operations: facebook (2012) or 2015 (more reads of nodes)", "facebook" },
  fidelity = { "Distributions of LinkBench's program (code) or of its settings (paper)", "code" },
  link_datasize = { "Median bytes of a link's data", 8 },
  node_datasize = { "Median bytes of a node's data", 128 },
  list_limit = { "Most links that one GET_LINKS_LIST returns", 10000 },
  partitions = { "Partitions of linktable; 0 for none", 16 },
  create_table_options = { "Text added to CREATE TABLE", "" },
  mysql_storage_engine = { "Storage engine", "innodb" },
}

local NODE_TYPE, HIDDEN, VISIBLE = store.NODE_TYPE, store.HIDDEN, store.VISIBLE
local now_ms = store.now_ms

-- Percent of all operations.
local MIXES = {
  facebook = {
    ADD_LINK = 8.9886601, DELETE_LINK = 2.9907664, UPDATE_LINK = 8.0122125,
    COUNT_LINK = 4.8863567, MULTIGET_LINK = 0.5261142, GET_LINKS_LIST = 50.7119145,
    ADD_NODE = 2.5732789, UPDATE_NODE = 7.366437, DELETE_NODE = 1.0115914, GET_NODE = 12.9326683,
  },
  ["2015"] = {
    ADD_LINK = 5.35038, DELETE_LINK = 0.98401, UPDATE_LINK = 4.75589,
    COUNT_LINK = 4.27898, MULTIGET_LINK = 12.14725, GET_LINKS_LIST = 22.57039,
    ADD_NODE = 2.61198, UPDATE_NODE = 3.06256, DELETE_NODE = 0.25166, GET_NODE = 43.9869,
  },
}

-- Probability that the link an operation names was loaded.
local EXISTS = { get = 0.5, update = 0.9, delete = 0.9, add = 0.05 }
-- Share of GET_LINKS_LIST that go on where an earlier one met the limit.
local HISTORY_SHARE, HISTORY_SIZE = 0.003, 2048
-- Identifiers a MULTIGET_LINK asks for: geometric.
local MULTIGET_P, MULTIGET_MAX = 0.382, 128

local function settings()
  local opt = sysbench.opt
  if not MIXES[tostring(opt.mix)] then
    error("mix is facebook or 2015, not " .. tostring(opt.mix), 0)
  elseif opt.fidelity ~= "code" and opt.fidelity ~= "paper" then
    error("fidelity is code or paper, not " .. opt.fidelity, 0)
  elseif opt.nodes < 1 or opt.list_limit < 1 then
    error("nodes and list_limit must be 1 or more", 0)
  end
  return opt
end

local function prepare()
  local opt = settings()
  if sysbench.tid == 0 then
    store.create_tables(opt)
  end
  waggle.barrier()
  store.fill(opt)
end

sysbench.cmdline.commands = {
  prepare = { prepare, sysbench.cmdline.PARALLEL_COMMAND },
  cleanup = { store.cleanup },
  check = { store.check },
}

-- Operations --------------------------------------------------------------------------------

local social, node_data, link_data, list_limit
-- Two sessions as LinkBench's stores have: changes in transactions, reads on their own.
local changes, reads
-- GET_LINKS_LIST that met the limit: where to go on.
local history, history_next = {}, 1
local counted = {}

local function link_type(kind)
  return graph.FIRST_LINK_TYPE + kind
end

local function random_kind()
  return sysbench.rand.uniform(0, graph.LINK_TYPES - 1)
end

-- An operation is drawn once and executed until it succeeds, with the same input.

local function draw_put(exists)
  local id1, kind = social.choose.link_write(), random_kind()
  return {
    id1 = id1, id2 = social.other_end(id1, kind, exists), type = link_type(kind),
    now = now_ms(), data = link_data(),
  }
end

-- Inserts a link or, if it is there, makes it visible and renews its data; keeps the count right.
local function put_link(link)
  local affected = changes:query(string.format(
    "INSERT INTO linktable (id1, id2, link_type, visibility, data, time, version) VALUES "
      .. "(%d, %d, %d, %d, %s, %.0f, 0) ON DUPLICATE KEY UPDATE visibility = VALUES(visibility)",
    link.id1, link.id2, link.type, VISIBLE, link.data, link.now)).affected
  -- 1: inserted; 2: it was hidden; 0: it was there and visible.
  if affected ~= 0 then
    changes:query(string.format(
      "INSERT INTO counttable (id, link_type, count, time, version) VALUES (%d, %d, 1, %.0f, 0) "
        .. "ON DUPLICATE KEY UPDATE count = count + 1%s",
      link.id1, link.type, link.now, affected == 1 and "; COMMIT" or ""))
  end
  if affected ~= 1 then
    changes:query(string.format(
      "UPDATE linktable SET visibility = %d, data = %s, time = %.0f, version = 0 "
        .. "WHERE id1 = %d AND id2 = %d AND link_type = %d; COMMIT",
      VISIBLE, link.data, link.now, link.id1, link.id2, link.type))
  end
end

local function hide_link(link)
  local key = string.format("id1 = %d AND id2 = %d AND link_type = %d",
    link.id1, link.id2, link.type)
  local visibility = changes:query_row(
    "SELECT visibility FROM linktable WHERE " .. key .. " FOR UPDATE")
  if tonumber(visibility) == VISIBLE then
    changes:query(string.format("UPDATE linktable SET visibility = %d WHERE %s", HIDDEN, key))
    changes:query(string.format(
      "INSERT INTO counttable (id, link_type, count, time, version) VALUES (%d, %d, 0, %.0f, 0) "
        .. "ON DUPLICATE KEY UPDATE count = IF (count = 0, 0, count - 1), "
        .. "time = VALUES(time), version = version + 1",
      link.id1, link.type, link.now))
  end
  changes:query("COMMIT")
end

local function draw_list()
  if #history > 0 and sysbench.rand.uniform_double() < HISTORY_SHARE then
    return history[sysbench.rand.uniform(1, #history)]
  end
  return {
    id1 = social.choose.link_read(), type = link_type(random_kind()),
    latest = "9223372036854775807",
  }
end

local function list_links(list)
  local result = reads:query(string.format(
    "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable "
      .. "FORCE INDEX (id1_type) WHERE id1 = %d AND link_type = %d AND time >= 0 "
      .. "AND time <= %s AND visibility = %d ORDER BY time DESC LIMIT 0, %d",
    list.id1, list.type, list.latest, VISIBLE, list_limit))
  local found = result.nrows
  waggle.add(counted.listed, found)
  if list.is_history then
    waggle.add(counted.continued, 1)
  end
  if found < list_limit then
    return
  end
  local last
  for _ = 1, found do
    last = result:fetch_row()
  end
  history[history_next] = { id1 = list.id1, type = list.type, latest = last[6], is_history = true }
  history_next = history_next % HISTORY_SIZE + 1
end

local function draw_multiget()
  local id1, kind = social.choose.link_read(), random_kind()
  local wanted, ids = 1, {}
  while wanted < MULTIGET_MAX and sysbench.rand.uniform_double() >= MULTIGET_P do
    wanted = wanted + 1
  end
  for i = 1, wanted do
    ids[i] = string.format("%d", social.other_end(id1, kind, EXISTS.get))
  end
  return { id1 = id1, type = link_type(kind), ids = table.concat(ids, ",") }
end

local operations = {
  ADD_LINK = {
    draw = function()
      return draw_put(EXISTS.add)
    end,
    execute = put_link,
  },

  UPDATE_LINK = {
    draw = function()
      return draw_put(EXISTS.update)
    end,
    execute = put_link,
  },

  DELETE_LINK = {
    draw = function()
      local id1, kind = social.choose.link_write(), random_kind()
      return {
        id1 = id1, id2 = social.other_end(id1, kind, EXISTS.delete), type = link_type(kind),
        now = now_ms(),
      }
    end,
    execute = hide_link,
  },

  COUNT_LINK = {
    draw = function()
      return { id = social.choose.link_read(), type = link_type(random_kind()) }
    end,
    execute = function(input)
      reads:query(string.format(
        "SELECT count FROM counttable WHERE id = %d AND link_type = %d", input.id, input.type))
    end,
  },

  MULTIGET_LINK = {
    draw = draw_multiget,
    execute = function(input)
      reads:query(string.format(
        "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable "
          .. "WHERE id1 = %d AND link_type = %d AND id2 IN (%s)",
        input.id1, input.type, input.ids))
    end,
  },

  GET_LINKS_LIST = { draw = draw_list, execute = list_links },

  GET_NODE = {
    draw = function()
      return social.choose.node_read()
    end,
    execute = function(id)
      reads:query(string.format(
        "SELECT id, type, version, time, data FROM nodetable WHERE id = %d", id))
    end,
  },

  ADD_NODE = {
    draw = function()
      return { now = math.floor(now_ms() / 1000), data = node_data() }
    end,
    execute = function(node)
      changes:query(string.format(
        "INSERT INTO nodetable (type, version, time, data) VALUES (%d, 1, %.0f, %s); COMMIT",
        NODE_TYPE, node.now, node.data))
    end,
  },

  UPDATE_NODE = {
    draw = function()
      return {
        id = social.choose.node_update(), now = math.floor(now_ms() / 1000), data = node_data(),
      }
    end,
    execute = function(node)
      changes:query(string.format(
        "UPDATE nodetable SET version = 2, time = %.0f, data = %s "
          .. "WHERE id = %d AND type = %d; COMMIT",
        node.now, node.data, node.id, NODE_TYPE))
    end,
  },

  DELETE_NODE = {
    draw = function()
      return social.choose.node_delete()
    end,
    execute = function(id)
      changes:query(string.format(
        "DELETE FROM nodetable WHERE id = %d AND type = %d; COMMIT", id, NODE_TYPE))
    end,
  },
}

local mix_names, mix_ends, labels

local function read_mix(mix)
  mix_names, mix_ends, labels = {}, {}, {}
  for name in pairs(mix) do
    mix_names[#mix_names + 1] = name
  end
  -- The order of pairs is not the same in every state; a seed must give the same operations.
  table.sort(mix_names)
  local sum = 0
  for i, name in ipairs(mix_names) do
    sum = sum + mix[name]
    mix_ends[i], labels[i] = sum, waggle.operation(name)
  end
end

function thread_init()
  local opt = settings()
  social, list_limit = graph.new(opt.nodes, opt.fidelity), opt.list_limit
  node_data, link_data = store.node_payload(opt), store.link_payload(opt)
  changes, reads = store.connect(), store.connect()
  changes:query("SET autocommit = 0")
  read_mix(MIXES[tostring(opt.mix)])
  counted.listed = waggle.counter("links_listed")
  counted.continued = waggle.counter("lists_continued")
  counted.restarts = waggle.counter("restarts")
end

-- The operation that is not done yet.
local pending, input, is_new_session

local function draw_operation()
  local drawn, i = sysbench.rand.uniform_double() * mix_ends[#mix_ends], 1
  while drawn >= mix_ends[i] do
    i = i + 1
  end
  pending = i
  input = operations[mix_names[i]].draw()
end

function event()
  if is_new_session then
    for _, connection in ipairs({ changes, reads }) do
      connection:query("SET NAMES latin1")
    end
    changes:query("SET autocommit = 0")
    is_new_session = false
  end
  if not pending then
    draw_operation()
  end
  waggle.label(labels[pending])
  operations[mix_names[pending]].execute(input)
  pending = nil
end

-- Errors of a server that goes on with the session: a deadlock, a lock wait time-out, a row that
-- changed since the snapshot. After others the session may be another one.
local SAME_SESSION = { [1213] = true, [1205] = true, [1020] = true }

function sysbench.hooks.before_restart_event(err)
  waggle.add(counted.restarts, 1)
  is_new_session = is_new_session or not SAME_SESSION[err.sql_errno]
end

function thread_done()
  changes:disconnect()
  reads:disconnect()
end

-- After the run: the mix as it was drawn against the mix as it was asked for.
function checks(run)
  local found = {}
  for name, share in pairs(MIXES[tostring(sysbench.opt.mix)]) do
    local count = run.operations[name] and run.operations[name].count or 0
    local all = math.max(1, run.transactions)
    local actual = 100 * count / all
    -- Five standard errors of a share.
    local spread = 500 * math.sqrt(share / 100 * (1 - share / 100) / all)
    found[#found + 1] = {
      name = "share of " .. name, value = actual, unit = "%",
      low = math.max(0, share - spread), high = share + spread,
      ok = math.abs(actual - share) <= spread,
    }
  end
  table.sort(found, function(left, right) return left.name < right.name end)
  local lists = run.operations.GET_LINKS_LIST and run.operations.GET_LINKS_LIST.count or 0
  found[#found + 1] = {
    name = "links in a list", value = (run.counters.links_listed or 0) / math.max(1, lists),
  }
  found[#found + 1] = { name = "lists continued", value = run.counters.lists_continued or 0 }
  found[#found + 1] = { name = "restarts", value = run.counters.restarts or 0 }
  return found
end
