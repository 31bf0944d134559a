-- Seconds of the monotonic clock, for the think times.

local ffi = require("ffi")

ffi.cdef([[
  typedef struct { long seconds, nanoseconds; } waggle_tpcc_time;
  int clock_gettime(int clock, waggle_tpcc_time *now);
]])

local CLOCK_MONOTONIC = 1
local now = ffi.new("waggle_tpcc_time")

local clock = {}

function clock.seconds()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, now)
  return tonumber(now.seconds) + tonumber(now.nanoseconds) / 1e9
end

return clock
