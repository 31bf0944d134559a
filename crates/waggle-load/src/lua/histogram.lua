-- The prelude: sysbench.histogram, for values a script measures itself.
--
-- `size` classes with a constant ratio between neighbours, from `min` to `max`; what lies outside
-- is counted in the first or the last class.

local histogram = {}
histogram.__index = histogram
histogram.__tostring = function() return "<sb_histogram>" end

local BAR = 40

function histogram:update(value)
  local class = 0
  if value > self.min then
    class = math.floor((math.log(value) - self.log_min) * self.classes_per_unit + 0.5)
  end
  if class >= self.size then
    class = self.size - 1
  end
  self.counts[class] = (self.counts[class] or 0) + 1
end

function histogram:print()
  print("       value  ------------- distribution ------------- count")
  local most = 0
  for class = 0, self.size - 1 do
    most = math.max(most, self.counts[class] or 0)
  end
  for class = 0, self.size - 1 do
    local count = self.counts[class] or 0
    if count > 0 then
      local value = math.exp(class / self.classes_per_unit + self.log_min)
      local bar = string.rep("*", math.floor(count / most * BAR + 0.5))
      print(string.format("%12.3f |%-40s %d", value, bar, count))
    end
  end
end

sysbench.histogram = {
  new = function(size, min, max)
    if not (size >= 2 and min > 0 and max > min) then
      error("a histogram wants a size of 2 or more and 0 < min < max", 2)
    end
    local log_min = math.log(min)
    return setmetatable({
      size = size, min = min, max = max, counts = {}, log_min = log_min,
      classes_per_unit = (size - 1) / (math.log(max) - log_min),
    }, histogram)
  end,
}
