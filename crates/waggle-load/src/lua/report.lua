-- The prelude: ready-made bodies for the report hooks, in the formats that parsers know.

local _, _, prelude = ...

local function rates(stat)
  local seconds = stat.time_interval
  local function rate(count) return seconds > 0 and count / seconds or 0 end
  return {
    events = rate(stat.events), reads = rate(stat.reads), writes = rate(stat.writes),
    other = rate(stat.other), errors = rate(stat.errors), reconnects = rate(stat.reconnects),
    queries = rate(stat.reads + stat.writes + stat.other),
  }
end

function sysbench.report_default(stat)
  local rate = rates(stat)
  print(string.format(
    "[ %.0fs ] thds: %d tps: %4.2f qps: %4.2f (r/w/o: %4.2f/%4.2f/%4.2f) " ..
    "lat (ms,%d%%): %4.2f err/s %4.2f reconn/s: %4.2f",
    stat.time_total, stat.threads_running, rate.events, rate.queries, rate.reads, rate.writes,
    rate.other, sysbench.opt.percentile or 95, stat.latency_pct * 1000, rate.errors,
    rate.reconnects))
end

function sysbench.report_csv(stat)
  local rate = rates(stat)
  print(string.format("%.0f,%d,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f",
    stat.time_total, stat.threads_running, rate.events, rate.queries, rate.reads, rate.writes,
    rate.other, stat.latency_pct * 1000, rate.errors, rate.reconnects))
end

local OBJECT = [[
  {
    "time": %4.0f,
    "threads": %d,
    "tps": %4.2f,
    "qps": {
      "total": %4.2f,
      "reads": %4.2f,
      "writes": %4.2f,
      "other": %4.2f
    },
    "latency": %4.2f,
    "errors": %4.2f,
    "reconnects": %4.2f]]

local json_open = false

-- An array with an element a report. The last brace waits for what follows it, a comma or the end
-- of the array: lines are printed whole.
function sysbench.report_json(stat)
  print(json_open and "  }," or "[")
  if not json_open then
    json_open = true
    prelude.at_end[#prelude.at_end + 1] = function()
      print("  }")
      print("]")
    end
  end
  local rate = rates(stat)
  local text = string.format(OBJECT, stat.time_total, stat.threads_running, rate.events,
    rate.queries, rate.reads, rate.writes, rate.other, stat.latency_pct * 1000, rate.errors,
    rate.reconnects)
  for line in text:gmatch("[^\n]+") do
    print(line)
  end
end

-- What is to be done when the state ends, however it ends.
prelude.at_end = {}

function prelude.finish()
  local pending = prelude.at_end
  prelude.at_end = {}
  for _, call in ipairs(pending) do
    call()
  end
end
