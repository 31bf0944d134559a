#!/usr/bin/env sysbench
-- A small order-entry suite for sysbench, written with what large suites for it lean on: a module
-- beside the script, ffi.cdef with sysbench's type names, the bit library, parallel prepare and
-- check, hooks, transactions called through _G, string arithmetic, rows read with unpack.
--
-- It runs unmodified under sysbench 1.0.20 and under waggle; the tests compare what both leave.

require("order_suite_common")

ffi.cdef [[
  void sb_counter_inc(int, sb_counter_type);
  int usleep(unsigned int microseconds);
]]

function thread_init()
  drv = sysbench.sql.driver()
  con = drv:connect()
  con:query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
end

function thread_done()
  con:disconnect()
end

local mix = { "new_order", "new_order", "payment", "payment", "order_status" }

function event()
  local trx = mix[sysbench.rand.uniform(1, table.getn(mix))]
  _G[trx]()
end

function sysbench.hooks.before_restart_event(err)
  con:query("ROLLBACK")
end

function sysbench.hooks.report_intermediate(stat)
  if sysbench.opt.report_csv then
    sysbench.report_csv(stat)
  else
    sysbench.report_default(stat)
  end
end
