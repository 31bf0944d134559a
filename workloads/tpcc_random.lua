-- How TPC-C draws: the non-uniform numbers and their constants (clause 2.1.6), last names and
-- random strings (4.3.2), the deck of cards (5.2.4.2) and think times (5.2.5.4).
--
-- Everything draws from the thread's own generator, except the constants: those are made from the
-- seed alone, so that all threads of a run have the same.

local bit = require("bit")
local ffi = require("ffi")
local rand = sysbench.rand

local random = {}

-- Constants -----------------------------------------------------------------------------------

-- The ranges A of NURand(A, x, y): last names, customer numbers, items.
random.A_LAST, random.A_CUSTOMER, random.A_ITEM = 255, 1023, 8191

-- A number in 0..count-1 from the seed and the purpose alone (Lehmer's generator; all products
-- stay below 2^53).
local function derived(seed, purpose, count)
  local state = (seed + purpose * 7919) % 2147483646 + 1
  for _ = 1, 8 do
    state = state * 48271 % 2147483647
  end
  return state % count
end

-- C of the last names while the tables are filled.
function random.last_name_constant_of_load(seed)
  return derived(seed, 1, random.A_LAST + 1)
end

-- True when a run may use `c_run` on tables filled with `c_load` (clause 2.1.6.1).
function random.delta_is_allowed(c_load, c_run)
  local delta = math.abs(c_run - c_load)
  return delta >= 65 and delta <= 119 and delta ~= 96 and delta ~= 112
end

-- C of the last names in a run.
function random.last_name_constant_of_run(seed, c_load)
  local allowed = {}
  for c_run = 0, random.A_LAST do
    if random.delta_is_allowed(c_load, c_run) then
      allowed[#allowed + 1] = c_run
    end
  end
  return allowed[derived(seed, 2, #allowed) + 1]
end

-- The three constants of a run.
function random.constants(seed, c_load)
  return {
    last = random.last_name_constant_of_run(seed, c_load),
    customer = derived(seed, 3, random.A_CUSTOMER + 1),
    item = derived(seed, 4, random.A_ITEM + 1),
  }
end

function random.nurand(a, c, low, high)
  local drawn = bit.bor(rand.uniform(0, a), rand.uniform(low, high))
  return (drawn + c) % (high - low + 1) + low
end

-- Strings -------------------------------------------------------------------------------------

local SYLLABLES = {
  [0] = "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
}

-- The last name of a number in 0..999: a syllable for each of its digits.
function random.last_name(number)
  local hundreds, tens = math.floor(number / 100), math.floor(number / 10) % 10
  return SYLLABLES[hundreds] .. SYLLABLES[tens] .. SYLLABLES[number % 10]
end

local ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
local letters = ffi.new("char[62]", ALPHABET)
local text = ffi.new("char[512]")

-- `length` characters out of the first `kinds` of the alphabet. A draw has 53 random bits, of
-- which five characters take thirty.
local function characters(length, kinds)
  local i = 0
  while i < length do
    local unit = rand.uniform_double()
    for _ = 1, 5 do
      unit = unit * kinds
      local index = math.floor(unit)
      unit = unit - index
      text[i] = letters[index]
      i = i + 1
    end
  end
  return ffi.string(text, length)
end

-- Letters and digits; a length between the two limits, or exactly the first.
function random.a_string(low, high)
  return characters(high and rand.uniform(low, high) or low, 62)
end

-- Digits.
function random.n_string(length)
  return characters(length, 10)
end

function random.zip()
  return random.n_string(4) .. "11111"
end

-- I_DATA and S_DATA; where `original`, with that word somewhere in it.
function random.data(original)
  local data = random.a_string(26, 50)
  if not original then
    return data
  end
  local before = rand.uniform(0, #data - 8)
  return data:sub(1, before) .. "ORIGINAL" .. data:sub(before + 9)
end

-- Choices -------------------------------------------------------------------------------------

-- A function that says for each of `total` rows in turn whether it is chosen: a tenth of them,
-- at random, and no other number.
function random.a_tenth_of(total)
  local wanted, left = math.floor(total / 10), total
  return function()
    local chosen = rand.uniform(1, left) <= wanted
    left = left - 1
    if chosen then
      wanted = wanted - 1
    end
    return chosen
  end
end

function random.shuffle(list)
  for i = #list, 2, -1 do
    local j = rand.uniform(1, i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

-- The numbers from 1 to count in random order.
function random.permutation(count)
  local list = {}
  for i = 1, count do
    list[i] = i
  end
  return random.shuffle(list)
end

-- Any number of 1..count but `home`; `home` where there is no other.
function random.other(home, count)
  if count == 1 then
    return home
  end
  local drawn = rand.uniform(1, count - 1)
  return drawn < home and drawn or drawn + 1
end

local CARDS = { new_order = 10, payment = 10, order_status = 1, delivery = 1, stock_level = 1 }

-- A function that deals kinds of transactions from a deck of 23 cards, shuffled when it is empty.
function random.deck()
  local cards = {}
  -- In a fixed order, so that a seed repeats the deals.
  for _, kind in ipairs({ "new_order", "payment", "order_status", "delivery", "stock_level" }) do
    for _ = 1, CARDS[kind] do
      cards[#cards + 1] = kind
    end
  end
  local next_card = #cards + 1
  return function()
    if next_card > #cards then
      random.shuffle(cards)
      next_card = 1
    end
    next_card = next_card + 1
    return cards[next_card - 1]
  end
end

-- Negative exponential, never longer than ten times the mean.
function random.think_time(mean)
  return math.min(-mean * math.log(1 - rand.uniform_double()), 10 * mean)
end

return random
