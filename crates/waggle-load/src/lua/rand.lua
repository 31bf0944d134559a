-- The prelude: sysbench.rand. One generator a thread, seeded by the engine.
--
-- Bounds are integers of up to 2^53, so that keys beyond 32 bits work.

local api, context = ...
local ffi = require("ffi")

local STRING_BYTES = 4096
local buffer, buffer_bytes = ffi.new("char[?]", STRING_BYTES), STRING_BYTES

local function at_least(bytes)
  if bytes > buffer_bytes then
    buffer, buffer_bytes = ffi.new("char[?]", bytes), bytes
  end
  return buffer
end

local rand = {}
sysbench.rand = rand

function rand.default(low, high) return api.rand_default(context, low, high) end
function rand.uniform(low, high) return api.rand_uniform(context, low, high) end
function rand.gaussian(low, high) return api.rand_gaussian(context, low, high) end
function rand.special(low, high) return api.rand_special(context, low, high) end
function rand.pareto(low, high) return api.rand_pareto(context, low, high) end
function rand.zipfian(low, high) return api.rand_zipfian(context, low, high) end
function rand.unique() return api.rand_unique(context) end
function rand.uniform_double() return api.rand_unit(context) end
function rand.uniform_uint64() return api.rand_uniform_uint64(context) end

-- '#' becomes a digit, '@' a lower-case letter, all else stays.
function rand.string(format)
  local out = at_least(#format)
  api.rand_string(context, format, #format, out)
  return ffi.string(out, #format)
end

function rand.varstring(min, max)
  if not (min >= 0 and max >= min) then
    error("varstring wants 0 <= min <= max", 2)
  end
  local out = at_least(max)
  return ffi.string(out, api.rand_varstring(context, min, max, out))
end
