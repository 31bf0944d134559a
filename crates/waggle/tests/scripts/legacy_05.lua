-- A script in the manner of sysbench 0.5: options are globals, db_* functions, no sysbench table.
-- Our own; it uses what scripts of that age use.

function prepare()
  set_vars()
  db_connect()
  db_query("CREATE TABLE legacy (id INTEGER NOT NULL PRIMARY KEY, k INTEGER NOT NULL, "
    .. "c CHAR(20) NOT NULL)")
  db_bulk_insert_init("INSERT INTO legacy (id, k, c) VALUES")
  for i = 1, legacy_rows do
    db_bulk_insert_next("(" .. i .. "," .. sb_rand(1, legacy_rows) .. ",'"
      .. sb_rand_str("####-@@@@") .. "')")
  end
  db_bulk_insert_done()
  db_disconnect()
  return 0
end

function cleanup()
  db_connect()
  db_query("DROP TABLE IF EXISTS legacy")
end

function set_vars()
  legacy_rows = tonumber(legacy_rows) or 100
end

function thread_init(thread_id)
  set_vars()
  db_connect()
  stmt = db_prepare("SELECT k FROM legacy WHERE id = ?")
  params = { 0 }
  db_bind_param(stmt, params)
end

function event(thread_id)
  db_query("BEGIN")
  for i = 1, 3 do
    params[1] = sb_rand_uniform(1, legacy_rows)
    local rs = db_execute(stmt)
    db_store_results(rs)
    db_free_results(rs)
  end
  db_query("UPDATE legacy SET k = k + 1 WHERE id = " .. sb_rand(1, legacy_rows))
  db_query("COMMIT")
end
