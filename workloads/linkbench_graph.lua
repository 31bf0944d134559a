-- The social graph of LinkBench: which nodes exist, how many links leave each, and which node the
-- next operation is about. Nothing here talks to a server.
--
-- The published configuration draws nodes by rank from Zipf distributions and maps ranks to
-- identifiers by a permutation with a fixed seed; the number of links of a node is the quantile of
-- an empirical distribution at the node's own place in a permutation. Both permutations are
-- rotations within 1,024 interleaved groups, the rotations drawn by java.util.Random, so that the
-- same identifiers are popular here as there.

local bit = require("bit")
local ffi = require("ffi")
local degrees = require("linkbench_degrees")

local graph = {}

graph.FIRST_ID = 1
graph.FIRST_LINK_TYPE = 123456789
graph.LINK_TYPES = 2

local GROUPS = 1024
graph.SEED_LINKS = 20343988438726021LL
graph.SEED_UNCORRELATED = 53238253823453LL
graph.SEED_NODES = 4766565305853767165LL

-- java.util.Random, as its documentation specifies it: a 48-bit linear congruential generator.
function graph.java_random(seed)
  local MULTIPLIER, MASK = 0x5DEECE66DULL, 0xFFFFFFFFFFFFULL
  local state = bit.band(bit.bxor(ffi.cast("uint64_t", seed), MULTIPLIER), MASK)
  local function next_31()
    state = bit.band(state * MULTIPLIER + 0xBULL, MASK)
    return tonumber(bit.rshift(state, 17))
  end
  -- nextInt(bound): uniform in [0, bound).
  return function(bound)
    if bit.band(bound, bound - 1) == 0 then
      return math.floor(bound * next_31() / 2147483648)
    end
    while true do
      local bits = next_31()
      local value = bits % bound
      if bits - value + (bound - 1) < 2147483648 then
        return value
      end
    end
  end
end

-- A permutation of 0..n-1 and its inverse.
function graph.shuffler(seed, n)
  local groups = math.min(GROUPS, n)
  local smallest = math.floor(n / groups)
  local draw, rotations = graph.java_random(seed), {}
  for group = 0, groups - 1 do
    rotations[group] = draw(smallest)
  end
  local larger = n % groups
  local function rotated(i, direction)
    local group = i % groups
    local size = group < larger and smallest + 1 or smallest
    local place = (math.floor(i / groups) + direction * rotations[group]) % size
    return group + groups * place
  end
  return {
    permute = function(i) return rotated(i, 1) end,
    invert = function(i) return rotated(i, -1) end,
  }
end

-- Sum of k^-shape for k = 1..n: the first terms one by one, the rest by Euler and Maclaurin.
local function harmonic(n, shape)
  local exact, sum = math.min(n, 1000), 0
  for k = 1, exact do
    sum = sum + k ^ -shape
  end
  if n > exact then
    local function primitive(x) return x ^ (1 - shape) / (1 - shape) end
    local function term(x) return x ^ -shape end
    local function slope(x) return -shape * x ^ (-shape - 1) end
    sum = sum + primitive(n) - primitive(exact) + (term(n) - term(exact)) / 2
      + (slope(n) - slope(exact)) / 12
  end
  return sum
end

-- Ranks 0..n-1 with probability falling as rank^-shape, by the closed form of Gray et al., "Quickly
-- Generating Billion-Record Synthetic Databases", 1994.
function graph.zipf(n, shape)
  local zeta_n = harmonic(n, shape)
  local alpha = 1 / (1 - shape)
  local eta = (1 - (2 / n) ^ (1 - shape)) / (1 - harmonic(math.min(2, n), shape) / zeta_n)
  local second = 1 + 0.5 ^ shape
  return function()
    local u = sysbench.rand.uniform_double()
    local scaled = u * zeta_n
    if scaled < 1 or n == 1 then
      return 0
    elseif scaled < second then
      return 1
    end
    return math.min(n - 1, math.floor(n * (eta * u - eta + 1) ^ alpha))
  end
end

-- A node by a Zipf rank and a permutation.
local function skewed(n, shape, permutation)
  local rank = graph.zipf(n, shape)
  return function()
    return graph.FIRST_ID + permutation.permute(rank())
  end
end

-- One of two choosers, the second with this probability.
local function blended(first, second, probability)
  return function()
    if sysbench.rand.uniform_double() < probability then
      return second()
    end
    return first()
  end
end

-- `nodes`: how many; identifiers are 1..nodes. `fidelity`: "code" does what LinkBench's program
-- does, "paper" what its configuration says (they differ in two places, marked below).
function graph.new(nodes, fidelity)
  local as_code = fidelity == "code"
  local links = graph.shuffler(graph.SEED_LINKS, nodes)
  local uncorrelated = graph.shuffler(graph.SEED_UNCORRELATED, nodes)
  local by_node = graph.shuffler(graph.SEED_NODES, nodes)

  local choose = {
    link_read = blended(skewed(nodes, 0.8, links), skewed(nodes, 0.8, uncorrelated), 0.995),
    node_read = skewed(nodes, 0.625, by_node),
    node_update = skewed(nodes, 0.606, by_node),
    node_delete = function()
      return graph.FIRST_ID + sysbench.rand.uniform(0, nodes - 1)
    end,
  }
  -- The program reads the settings of uncorrelated writes under the name of those of reads.
  if as_code then
    choose.link_write =
      blended(skewed(nodes, 0.741, links), skewed(nodes, 0.8, uncorrelated), 0.995)
  else
    choose.link_write =
      blended(skewed(nodes, 0.741, links), skewed(nodes, 0.741, uncorrelated), 0.95)
  end

  -- Links that were loaded for a node, of all types: the smallest number of links that at least
  -- this share of all nodes does not exceed. Nor more than there are nodes: the last number of the
  -- table would make one node of a small graph heavier than all others together.
  local function degree(id)
    local share = 100 * (1 - links.invert(id - graph.FIRST_ID) / nodes)
    local low, high = 1, #degrees
    while low < high do
      local middle = math.floor((low + high) / 2)
      if degrees[middle][2] >= share then
        high = middle
      else
        low = middle + 1
      end
    end
    return math.min(degrees[low][1], nodes)
  end

  -- Of one type (0 or 1). The program shares a node's links among the types so that the sum is
  -- larger than the number it began with, by one or two, for nodes of two links or more.
  local function degree_of_type(id, kind)
    local total = degree(id)
    local each = math.floor(total / graph.LINK_TYPES)
    local left = as_code and total - each or total % graph.LINK_TYPES
    return kind < left and each + 1 or each
  end

  return {
    nodes = nodes,
    choose = choose,
    degree = degree,
    degree_of_type = degree_of_type,
    -- The other end of a link for an operation, so that it exists with about this probability.
    other_end = function(id, kind, probability)
      local range = math.max(1, math.ceil(degree_of_type(id, kind) / probability))
      return id + sysbench.rand.uniform(0, range - 1)
    end,
  }
end

-- Payloads: sizes are log-normal (sigma 1) about a median; bytes come in chunks of 128, fresh with
-- the given probability, else copied from a buffer of 512 that is the thread's own.
function graph.payload(median, longest, first_byte, last_byte, uniqueness)
  local CHUNK, MOTIF = 128, 512
  local motif, buffer = ffi.new("uint8_t[?]", MOTIF), ffi.new("uint8_t[?]", longest)
  local span, rand, is_filled = last_byte - first_byte + 1, sysbench.rand, false

  local function random_bytes(place, from, to)
    for i = from, to - 1 do
      place[i] = first_byte + rand.uniform(0, span - 1)
    end
  end

  local function size()
    local u, v = 1 - rand.uniform_double(), rand.uniform_double()
    local normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
    return math.min(longest, math.floor(median * math.exp(normal)))
  end

  -- A literal in SQL, quoted.
  return function()
    if not is_filled then
      random_bytes(motif, 0, MOTIF)
      is_filled = true
    end
    local length = size()
    for from = 0, length - 1, CHUNK do
      local to = math.min(length, from + CHUNK)
      if rand.uniform_double() < uniqueness then
        random_bytes(buffer, from, to)
      else
        ffi.copy(buffer + from, motif + rand.uniform(0, MOTIF - (to - from)), to - from)
      end
    end
    return "'" .. ffi.string(buffer, length):gsub("[\\']", "\\%0") .. "'"
  end
end

return graph
