-- The tables of the workload linkbench: creating, filling, checking and dropping them.

local ffi = require("ffi")
local graph = require("linkbench_graph")

local store = { NODE_TYPE = 2048, HIDDEN = 0, VISIBLE = 1 }

local NODE_BYTES_MAX, LINK_BYTES_MAX = 1024 * 1024, 255

ffi.cdef("typedef struct { int64_t sec; int64_t nsec; } linkbench_time;"
  .. "int clock_gettime(int clock, linkbench_time *time);")
local clock = ffi.new("linkbench_time")

-- Milliseconds since 1970.
function store.now_ms()
  ffi.C.clock_gettime(0, clock)
  return tonumber(clock.sec) * 1000 + math.floor(tonumber(clock.nsec) / 1000000)
end

-- Payloads are bytes of any value; the tables are latin1.
function store.connect()
  local connection = sysbench.sql.driver():connect()
  connection:query("SET NAMES latin1")
  return connection
end

function store.link_payload(opt)
  return graph.payload(opt.link_datasize, LINK_BYTES_MAX, 32, 100, 0.225)
end

function store.node_payload(opt)
  return graph.payload(opt.node_datasize, NODE_BYTES_MAX, 50, 220, 0.63)
end

-- Creating and filling ----------------------------------------------------------------------

function store.create_tables(opt)
  local connection = store.connect()
  print("creating linktable, counttable, nodetable")
  local tail = string.format(
    "ENGINE = %s DEFAULT CHARSET = latin1 %s", opt.mysql_storage_engine, opt.create_table_options)
  local partitions = ""
  if opt.partitions > 0 then
    partitions = string.format(" PARTITION BY KEY (id1) PARTITIONS %d", opt.partitions)
  end
  connection:query([[
    CREATE TABLE linktable (
      id1 bigint unsigned NOT NULL DEFAULT '0',
      id2 bigint unsigned NOT NULL DEFAULT '0',
      link_type bigint unsigned NOT NULL DEFAULT '0',
      visibility tinyint NOT NULL DEFAULT '0',
      data varchar(255) NOT NULL DEFAULT '',
      time bigint unsigned NOT NULL DEFAULT '0',
      version int unsigned NOT NULL DEFAULT '0',
      PRIMARY KEY (link_type, id1, id2),
      KEY id1_type (id1, link_type, visibility, time, id2, version, data)
    ) ]] .. tail .. partitions)
  connection:query([[
    CREATE TABLE counttable (
      id bigint unsigned NOT NULL DEFAULT '0',
      link_type bigint unsigned NOT NULL DEFAULT '0',
      count int unsigned NOT NULL DEFAULT '0',
      time bigint unsigned NOT NULL DEFAULT '0',
      version bigint unsigned NOT NULL DEFAULT '0',
      PRIMARY KEY (id, link_type)
    ) ]] .. tail)
  connection:query([[
    CREATE TABLE nodetable (
      id bigint unsigned NOT NULL AUTO_INCREMENT,
      type int unsigned NOT NULL,
      version bigint unsigned NOT NULL,
      time int unsigned NOT NULL,
      data mediumtext NOT NULL,
      PRIMARY KEY (id)
    ) ]] .. tail)
  connection:disconnect()
end

local function fill_node(into, payload, id, seconds)
  into:bulk_insert_next(
    string.format("(%d, %d, 1, %d, %s)", id, store.NODE_TYPE, seconds, payload()))
end

-- The links of one node, and how many of each type.
local function fill_links(links, counts, social, payload, id, now)
  for kind = 0, graph.LINK_TYPES - 1 do
    local count, latest = social.degree_of_type(id, kind), 0
    for i = 0, count - 1 do
      -- Within about 50 days back, in no order.
      local time = now - sysbench.rand.uniform(1, 2 ^ 32)
      latest = math.max(latest, time)
      links:bulk_insert_next(string.format("(%d, %d, %d, %d, %s, %.0f, 0)",
        id, id + i, graph.FIRST_LINK_TYPE + kind, store.VISIBLE, payload(), time))
    end
    if count > 0 then
      counts:bulk_insert_next(string.format("(%d, %d, %d, %.0f, 0)",
        id, graph.FIRST_LINK_TYPE + kind, count, latest))
    end
  end
end

-- Thread t of n fills nodes t+1, t+1+n, ... in stretches, so that keys come nearly in order.
local STRETCH = 2048

function store.fill(opt)
  local social = graph.new(opt.nodes, opt.fidelity)
  local nodes, links, counts = store.connect(), store.connect(), store.connect()
  local node_data, link_data, now = store.node_payload(opt), store.link_payload(opt), store.now_ms()
  nodes:bulk_insert_init("INSERT INTO nodetable (id, type, version, time, data) VALUES")
  links:bulk_insert_init(
    "INSERT INTO linktable (id1, id2, link_type, visibility, data, time, version) VALUES")
  counts:bulk_insert_init("INSERT INTO counttable (id, link_type, count, time, version) VALUES")
  for first = 1 + STRETCH * sysbench.tid, opt.nodes, STRETCH * opt.threads do
    for id = first, math.min(first + STRETCH - 1, opt.nodes) do
      fill_node(nodes, node_data, id, math.floor(now / 1000))
      fill_links(links, counts, social, link_data, id, now)
    end
  end
  for _, connection in ipairs({ nodes, links, counts }) do
    connection:bulk_insert_done()
    connection:disconnect()
  end
end

function store.cleanup()
  local connection = store.connect()
  for _, name in ipairs({ "linktable", "counttable", "nodetable" }) do
    print("dropping table " .. name)
    connection:query("DROP TABLE IF EXISTS " .. name)
  end
  connection:disconnect()
end

-- What always holds: the count beside the links is the number of visible ones.
function store.check()
  local connection = store.connect()
  local wrong = tonumber((connection:query_row(string.format([[
    SELECT COUNT(*) FROM (
      SELECT id, link_type, SUM(counted) AS counted, SUM(visible) AS visible FROM (
        SELECT id, link_type, count AS counted, 0 AS visible FROM counttable
        UNION ALL
        SELECT id1, link_type, 0, COUNT(*) FROM linktable WHERE visibility = %d
          GROUP BY id1, link_type
      ) AS both_sides GROUP BY id, link_type
    ) AS sums WHERE counted <> visible]], store.VISIBLE))))
  connection:disconnect()
  print(string.format("counttable against visible links: %d differ: %s",
    wrong, wrong == 0 and "ok" or "FAILED"))
  return wrong == 0
end

return store
