-- The prelude: what scripts call through ffi.C (see types.lua).

local api, context, prelude = ...
local ffi = require("ffi")
local own, rand, histogram = prelude.own_symbols, sysbench.rand, sysbench.histogram

-- Counters are of the state's own thread, whatever thread is named: reports add them up.
function own.sb_counter_inc(_, kind) api.count(context, kind, 1) end
function own.sb_counter_add(_, kind, amount) api.count(context, kind, amount) end
function own.sb_counter_val(_, kind) return api.counted(context, kind) end

function own.sb_more_events() return api.may_run(context) ~= 0 end
function own.sb_event_start() api.event_begin(context) end
function own.sb_event_stop() api.event_end(context) end

own.sb_rand_default = rand.default
own.sb_rand_uniform = rand.uniform
own.sb_rand_gaussian = rand.gaussian
own.sb_rand_special = rand.special
own.sb_rand_pareto = rand.pareto
own.sb_rand_zipfian = rand.zipfian
own.sb_rand_unique = rand.unique
own.sb_rand_uniform_double = rand.uniform_double
own.sb_rand_uniform_uint64 = rand.uniform_uint64

function own.sb_rand_str(format, out)
  format = type(format) == "string" and format or ffi.string(format)
  api.rand_string(context, format, #format, out)
end

function own.sb_rand_varstr(out, min, max)
  return api.rand_varstring(context, min, max, out)
end

own.sb_histogram_new = histogram.new
function own.sb_histogram_update(created, value) created:update(value) end
function own.sb_histogram_print(created) created:print() end
function own.sb_histogram_delete() end

-- The C library's sleeps: as waggle.sleep they end with the run, and where workers share a thread
-- they leave it to the others.
local function slept(seconds)
  if seconds > 0 then api.sleep(context, seconds) end
  return 0
end

function own.usleep(microseconds) return slept(tonumber(microseconds) / 1e6) end
function own.sleep(seconds) return slept(tonumber(seconds)) end

local function seconds_of(time) return tonumber(time.tv_sec) + tonumber(time.tv_nsec) / 1e9 end

function own.nanosleep(request)
  local is_one, seconds = pcall(seconds_of, request)
  -- Else an array of one, which C takes as well.
  return slept(is_one and seconds or seconds_of(request[0]))
end

local real = prelude.real_symbols

function own.poll(descriptors, count, milliseconds)
  if tonumber(count) == 0 and milliseconds >= 0 then return slept(milliseconds / 1e3) end
  return real.poll(descriptors, count, milliseconds)
end

local function text(pointer, length)
  return type(pointer) == "string" and pointer or ffi.string(pointer, length)
end

function own.db_create(name)
  return sysbench.sql.driver(name ~= nil and text(name) or nil)
end

function own.db_destroy() end
function own.db_connection_create(driver) return driver:connect() end
function own.db_connection_reconnect(connection) return connection:reconnect() end
function own.db_connection_free() end

function own.db_connection_close(connection)
  connection:disconnect()
  return 0
end

function own.db_query(connection, sql, length) return connection:query(text(sql, length)) end
function own.db_prepare(connection, sql, length) return connection:prepare(text(sql, length)) end
function own.db_execute(statement) return statement:execute() end
function own.db_close(statement)
  statement:close()
  return 0
end
function own.db_more_results(connection) return connection:more_results() end
function own.db_next_result(connection) return connection:next_result() end

function own.db_free_results(rs)
  rs:free()
  return 0
end

function own.db_bulk_insert_init(connection, head, length)
  connection:bulk_insert_init(text(head, length))
  return 0
end

function own.db_bulk_insert_next(connection, values, length)
  connection:bulk_insert_next(text(values, length))
  return 0
end

function own.db_bulk_insert_done(connection)
  connection:bulk_insert_done()
  return 0
end
