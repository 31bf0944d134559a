-- Documents in a JSON column against the same data in plain columns, in one run on one server.
--
-- Every operation exists twice, once for each way to store, and is labelled with both names, so
-- that the table of operations sets them side by side: point reads, reads of one value by path,
-- updates of one value in place and of the whole document, lookups by an indexed value inside the
-- document (a generated column) and by membership in a list inside it (a multi-valued index, which
-- MariaDB does not have; there the operation is left out on both sides).

sysbench.cmdline.options = {
  table_size = { "Documents, and rows of the plain table", 10000 },
  padding = { "Bytes of text in each document beside its values", 200 },
  storage = { "What to run: both, json or plain", "both" },
  operations = {
    "What to run: all, or names with commas (point, path, update, replace, lookup, member)", "all",
  },
  mysql_storage_engine = { "Storage engine", "innodb" },
}

local CITIES, TAGS, TAGS_EACH = 500, 1000, 5
local IS_SEARCH = { lookup = true, member = true }
local ORDER = { "point", "path", "update", "replace", "lookup", "member" }

local connection

local function is_mariadb(on)
  return (on:query_row("SELECT VERSION()")):find("MariaDB", 1, true) ~= nil
end

local function random_text(bytes)
  return sysbench.rand.string(string.rep("@", bytes))
end

-- Always four bytes in MySQL's binary form, so that the new number fits where the old one was: else
-- the update would not be partial.
local function random_score()
  return sysbench.rand.uniform(100000, 999999)
end

-- One person, drawn anew each time.
local function person()
  local rand, tags = sysbench.rand, {}
  for i = 1, TAGS_EACH do
    tags[i] = rand.uniform(1, TAGS)
  end
  return {
    name = random_text(12),
    city = string.format("city%03d", rand.uniform(1, CITIES)),
    score = random_score(),
    tags = tags,
    padding = random_text(sysbench.opt.padding),
  }
end

local function document(of)
  return string.format(
    '{"name": "%s", "address": {"city": "%s"}, "score": %d, "tags": [%s], "padding": "%s"}',
    of.name, of.city, of.score, table.concat(of.tags, ", "), of.padding)
end

-- Creating and filling ----------------------------------------------------------------------

local function create_tables(on)
  local engine = " ENGINE = " .. sysbench.opt.mysql_storage_engine
  local members = ""
  if not is_mariadb(on) then
    members = ", INDEX tags ((CAST(doc->'$.tags' AS UNSIGNED ARRAY)))"
  end
  on:query([[
    CREATE TABLE json_documents (
      id INTEGER NOT NULL PRIMARY KEY,
      doc JSON NOT NULL,
      city VARCHAR(32) AS (JSON_UNQUOTE(JSON_EXTRACT(doc, '$.address.city'))) VIRTUAL,
      INDEX city (city)]] .. members .. ")" .. engine)
  on:query([[
    CREATE TABLE json_plain (
      id INTEGER NOT NULL PRIMARY KEY,
      name VARCHAR(32) NOT NULL,
      city VARCHAR(32) NOT NULL,
      score INTEGER NOT NULL,
      padding TEXT NOT NULL,
      INDEX city (city))]] .. engine)
  on:query([[
    CREATE TABLE json_plain_tags (
      id INTEGER NOT NULL,
      place INTEGER NOT NULL,
      tag INTEGER NOT NULL,
      PRIMARY KEY (id, place),
      INDEX tag (tag, id))]] .. engine)
end

local TABLES = { "json_documents", "json_plain", "json_plain_tags" }

function prepare()
  local on = {}
  for i = 1, 3 do
    on[i] = sysbench.sql.driver():connect()
  end
  print("creating " .. table.concat(TABLES, ", "))
  create_tables(on[1])
  on[1]:bulk_insert_init("INSERT INTO json_documents (id, doc) VALUES")
  on[2]:bulk_insert_init("INSERT INTO json_plain (id, name, city, score, padding) VALUES")
  on[3]:bulk_insert_init("INSERT INTO json_plain_tags (id, place, tag) VALUES")
  for id = 1, sysbench.opt.table_size do
    local one = person()
    on[1]:bulk_insert_next(string.format("(%d, '%s')", id, document(one)))
    on[2]:bulk_insert_next(string.format(
      "(%d, '%s', '%s', %d, '%s')", id, one.name, one.city, one.score, one.padding))
    for place, tag in ipairs(one.tags) do
      on[3]:bulk_insert_next(string.format("(%d, %d, %d)", id, place, tag))
    end
  end
  for i = 1, 3 do
    on[i]:bulk_insert_done()
    on[i]:disconnect()
  end
end

function cleanup()
  local on = sysbench.sql.driver():connect()
  for _, name in ipairs(TABLES) do
    print("dropping table " .. name)
    on:query("DROP TABLE IF EXISTS " .. name)
  end
  on:disconnect()
end

-- Operations --------------------------------------------------------------------------------

local types = sysbench.sql.type

-- A statement with its parameters; values are given in order.
local function statement(text, ...)
  local prepared, params = connection:prepare(text), {}
  for i, kind in ipairs({ ... }) do
    params[i] = kind == types.VARCHAR and prepared:bind_create(kind, 65000)
      or prepared:bind_create(kind)
  end
  prepared:bind_param(unpack(params))
  return function(...)
    for i = 1, #params do
      params[i]:set((select(i, ...)))
    end
    return prepared:execute().nrows
  end
end

local function random_id() return sysbench.rand.default(1, sysbench.opt.table_size) end
local function random_city() return string.format("city%03d", sysbench.rand.uniform(1, CITIES)) end
local function random_tag() return sysbench.rand.uniform(1, TAGS) end

local make = { json = {}, plain = {} }

function make.json.point()
  local read = statement("SELECT doc FROM json_documents WHERE id = ?", types.INT)
  return function() read(random_id()) end
end

function make.plain.point()
  local read = statement(
    "SELECT name, city, score, padding FROM json_plain WHERE id = ?", types.INT)
  local tags = statement("SELECT tag FROM json_plain_tags WHERE id = ?", types.INT)
  return function()
    local id = random_id()
    read(id)
    tags(id)
  end
end

function make.json.path()
  local read = statement(
    "SELECT JSON_EXTRACT(doc, '$.score') FROM json_documents WHERE id = ?", types.INT)
  return function() read(random_id()) end
end

function make.plain.path()
  local read = statement("SELECT score FROM json_plain WHERE id = ?", types.INT)
  return function() read(random_id()) end
end

function make.json.update()
  local write = statement(
    "UPDATE json_documents SET doc = JSON_SET(doc, '$.score', CAST(? AS SIGNED)) WHERE id = ?",
    types.INT, types.INT)
  return function() write(random_score(), random_id()) end
end

function make.plain.update()
  local write = statement("UPDATE json_plain SET score = ? WHERE id = ?", types.INT, types.INT)
  return function() write(random_score(), random_id()) end
end

function make.json.replace()
  local write = statement(
    "UPDATE json_documents SET doc = ? WHERE id = ?", types.VARCHAR, types.INT)
  return function() write(document(person()), random_id()) end
end

function make.plain.replace()
  local write = statement(
    "UPDATE json_plain SET name = ?, city = ?, score = ?, padding = ? WHERE id = ?",
    types.VARCHAR, types.VARCHAR, types.INT, types.VARCHAR, types.INT)
  local tags = statement(
    "UPDATE json_plain_tags SET tag = ? WHERE id = ? AND place = ?",
    types.INT, types.INT, types.INT)
  return function()
    local one, id = person(), random_id()
    connection:query("BEGIN")
    write(one.name, one.city, one.score, one.padding, id)
    for place, tag in ipairs(one.tags) do
      tags(tag, id, place)
    end
    connection:query("COMMIT")
  end
end

function make.json.lookup()
  local read = statement("SELECT id FROM json_documents WHERE city = ?", types.VARCHAR)
  return function() return read(random_city()) end
end

function make.plain.lookup()
  local read = statement("SELECT id FROM json_plain WHERE city = ?", types.VARCHAR)
  return function() return read(random_city()) end
end

function make.json.member()
  local read = statement(
    "SELECT id FROM json_documents WHERE CAST(? AS UNSIGNED) MEMBER OF (doc->'$.tags')", types.INT)
  return function() return read(random_tag()) end
end

function make.plain.member()
  local read = statement("SELECT DISTINCT id FROM json_plain_tags WHERE tag = ?", types.INT)
  return function() return read(random_tag()) end
end

-- Names the user chose, in the order of ORDER.
local function wanted()
  local chosen, names = {}, sysbench.opt.operations
  if names == "all" then
    return ORDER
  end
  for name in names:gmatch("[^,%s]+") do
    if not make.json[name] then
      error("no operation '" .. name .. "'; there are " .. table.concat(ORDER, ", "), 0)
    end
    chosen[#chosen + 1] = name
  end
  return chosen
end

local choices

function thread_init()
  local storage = sysbench.opt.storage
  if storage ~= "both" and storage ~= "json" and storage ~= "plain" then
    error("storage is both, json or plain, not " .. storage, 0)
  end
  connection = sysbench.sql.driver():connect()
  local without_members = is_mariadb(connection)
  choices = {}
  for _, name in ipairs(wanted()) do
    for _, side in ipairs({ "json", "plain" }) do
      local is_possible = name ~= "member" or not without_members
      if is_possible and (storage == "both" or storage == side) then
        choices[#choices + 1] = {
          label = waggle.operation(name .. " " .. side),
          rows = IS_SEARCH[name] and waggle.counter("rows found by " .. name .. " " .. side),
          run = make[side][name](),
        }
      elseif not is_possible and sysbench.tid == 0 and side == "json" then
        print("member is left out: this server has no multi-valued indexes")
      end
    end
  end
  if #choices == 0 then
    error("nothing to run: this server has no multi-valued indexes", 0)
  end
end

function event()
  local chosen = choices[sysbench.rand.uniform(1, #choices)]
  waggle.label(chosen.label)
  local rows = chosen.run()
  if chosen.rows then
    waggle.add(chosen.rows, rows)
  end
end

function thread_done()
  connection:disconnect()
end

-- Both sides of a search do the same work if they find as many rows.
function checks(run)
  local found = {}
  for _, name in ipairs({ "lookup", "member" }) do
    for _, side in ipairs({ "json", "plain" }) do
      local both = name .. " " .. side
      local operation = run.operations[both]
      if operation and operation.count > 0 then
        found[#found + 1] = {
          name = "rows found by " .. both,
          value = (run.counters["rows found by " .. both] or 0) / operation.count,
        }
      end
    end
  end
  return found
end
