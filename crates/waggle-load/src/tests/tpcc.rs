//! The modules of the workload tpcc, called from Lua without a server: what is drawn, and what is
//! said about a run.

use super::{lua, run_to_end, spec};
use crate::LoadSpec;
use crate::driver::scripted::Scripted;

/// Runs the text as the one event of a script; a failed `assert` in it fails the test.
fn holds(text: &str) {
    let script = format!("function event()\n{text}\nreturn true\nend");
    let spec = LoadSpec {
        seed: 7,
        ..spec(lua(&script))
    };
    run_to_end(&spec, &Scripted::silent()).unwrap();
}

#[test]
fn last_names_are_the_syllables_of_the_digits() {
    holds(
        r#"
        local random = require("tpcc_random")
        assert(random.last_name(371) == "PRICALLYOUGHT")
        assert(random.last_name(40) == "BARPRESBAR")
        assert(random.last_name(0) == "BARBARBAR")
        assert(random.last_name(999) == "EINGEINGEING")
        "#,
    );
}

#[test]
fn the_constants_of_load_and_run_differ_as_the_rule_wants() {
    holds(
        r#"
        local random = require("tpcc_random")
        local seen = {}
        for seed = 0, 2000 do
          local c_load = random.last_name_constant_of_load(seed * 2147483)
          local constants = random.constants(seed, c_load)
          assert(c_load >= 0 and c_load <= 255, c_load)
          assert(constants.last >= 0 and constants.last <= 255, constants.last)
          assert(constants.customer >= 0 and constants.customer <= 1023, constants.customer)
          assert(constants.item >= 0 and constants.item <= 8191, constants.item)
          local delta = math.abs(constants.last - c_load)
          assert(delta >= 65 and delta <= 119 and delta ~= 96 and delta ~= 112, delta)
          assert(random.constants(seed, c_load).item == constants.item)
          seen[delta] = true
        end
        local count = 0
        for _ in pairs(seen) do count = count + 1 end
        assert(count == 53, "all allowed differences occur")
        "#,
    );
}

/// The distribution is compared with the exact one, so that a constant drawn anew for each value,
/// which evens it out, is seen.
#[test]
fn non_uniform_numbers_have_the_exact_distribution() {
    holds(
        r#"
        local bit = require("bit")
        local random = require("tpcc_random")
        local a, c, low, high, draws = 255, 123, 0, 999, 200000
        local expected, counted = {}, {}
        for value = low, high do expected[value], counted[value] = 0, 0 end
        for x = 0, a do
          for y = low, high do
            local value = (bit.bor(x, y) + c) % (high - low + 1) + low
            expected[value] = expected[value] + 1 / ((a + 1) * (high - low + 1))
          end
        end
        for _ = 1, draws do
          local value = random.nurand(a, c, low, high)
          counted[value] = counted[value] + 1
        end
        local distance, from_uniform = 0, 0
        for value = low, high do
          distance = distance + math.abs(counted[value] / draws - expected[value]) / 2
          from_uniform = from_uniform + math.abs(1 / 1000 - expected[value]) / 2
        end
        assert(from_uniform > 0.3, from_uniform)
        -- Chance alone comes to at most 0.028 on average.
        assert(distance < 0.04, distance)
        "#,
    );
}

#[test]
fn a_deck_has_twenty_three_cards_and_is_shuffled() {
    holds(
        r#"
        local random = require("tpcc_random")
        local deal, orders = random.deck(), {}
        for _ = 1, 50 do
          local counts, order = {}, {}
          for i = 1, 23 do
            order[i] = deal()
            counts[order[i]] = (counts[order[i]] or 0) + 1
          end
          assert(counts.new_order == 10 and counts.payment == 10)
          assert(counts.order_status == 1 and counts.delivery == 1 and counts.stock_level == 1)
          orders[table.concat(order, " ")] = true
        end
        local different = 0
        for _ in pairs(orders) do different = different + 1 end
        assert(different == 50, different)
        "#,
    );
}

#[test]
fn choices_and_strings_are_of_the_asked_kind() {
    holds(
        r#"
        local random = require("tpcc_random")
        local chosen = random.a_tenth_of(3000)
        local count = 0
        for _ = 1, 3000 do count = count + (chosen() and 1 or 0) end
        assert(count == 300, count)

        local seen = {}
        for _, value in ipairs(random.permutation(3000)) do
          assert(not seen[value] and value >= 1 and value <= 3000, value)
          seen[value] = true
        end
        assert(#seen == 3000)

        local others = {}
        for _ = 1, 2000 do others[random.other(3, 5)] = true end
        assert(others[1] and others[2] and not others[3] and others[4] and others[5])
        assert(random.other(1, 1) == 1)

        local letters, lengths = {}, {}
        for _ = 1, 5000 do
          local text = random.a_string(14, 24)
          assert(text:match("^%w+$"), text)
          lengths[#text] = true
          for letter in text:gmatch(".") do letters[letter] = true end
        end
        count = 0
        for _ in pairs(letters) do count = count + 1 end
        assert(count == 62, count)
        for length = 14, 24 do assert(lengths[length], length) end
        assert(not lengths[13] and not lengths[25])
        assert(random.zip():match("^%d%d%d%d11111$"))
        for _ = 1, 1000 do
          local data = random.data(true)
          assert(data:find("ORIGINAL", 1, true) and #data >= 26 and #data <= 50, data)
        end

        local sum, most = 0, 0
        for _ = 1, 100000 do
          local time = random.think_time(12)
          assert(time >= 0 and time <= 120, time)
          sum = sum + time
        end
        assert(math.abs(sum / 100000 - 12) < 0.3, sum)
        "#,
    );
}

/// A run as the engine describes it, with the counters of a right one of this many decks.
const RIGHT_RUN: &str = r#"
    local figures = require("tpcc_figures")
    local function right_run(decks)
      local run = { duration_s = 60, transactions = 23 * decks, counters = {}, operations = {} }
      for name, count in pairs({
        new_orders = 10, order_lines = 100, remote_lines = 1, rolled_back = 0.1,
        payments = 10, remote_payments = 1.5, payments_by_name = 6,
        order_statuses = 1, order_statuses_by_name = 0.6, deliveries = 1, stock_levels = 1,
      }) do
        run.counters[name] = count * decks
      end
      for _, name in ipairs(figures.OPERATIONS) do
        run.operations[name] = { count = decks, p90_us = 20000 }
      end
      return run
    end
    local function check(run, wanted, mode, warehouses)
      local found = { warehouses = warehouses or 4 }
      local opt = { mode = mode or "stress", threads = 8 }
      for _, figure in ipairs(figures.checks(run, found, opt)) do
        if figure.name == wanted then return figure end
      end
      error("there is no figure " .. wanted)
    end
"#;

#[test]
fn a_run_is_judged_by_the_ranges_and_by_chance() {
    holds(&format!(
        "{RIGHT_RUN}{}",
        r#"
        local run = right_run(10000)
        for _, name in ipairs({
          "rolled back", "order lines", "remote order lines", "remote payments",
          "payments by last name", "order status by last name", "mix: payment", "mix: delivery",
        }) do
          assert(check(run, name).ok == true, name)
        end
        local few = check(right_run(100), "rolled back")
        assert(few.ok == nil and few.note == "too few to tell: 1000 of 38032", few.note)

        run.counters.rolled_back = 0
        assert(check(run, "rolled back").ok == false)
        -- One standard error is 0.0315%.
        run.counters.rolled_back = 1200
        assert(check(run, "rolled back").note == "outside, but not beyond chance")
        run.counters.rolled_back = 1300
        assert(check(run, "rolled back").ok == false)
        -- So is nothing at all out of 5,000, though that is too few for a yes.
        local none = right_run(500)
        none.counters.rolled_back = 0
        assert(check(none, "rolled back").ok == false)
        none = right_run(100)
        none.counters.rolled_back = 0
        assert(check(none, "rolled back").ok == nil)
        run.counters.remote_lines = 0
        assert(check(run, "remote order lines").ok == false)
        assert(check(run, "remote order lines", "stress", 1).ok == nil)
        run.counters.payments, run.counters.new_orders = 90000, 110000
        assert(check(run, "mix: payment").ok == false)
        run.operations.payment.p90_us, run.operations.delivery.p90_us = 6e6, 6e6
        assert(check(run, "90th percentile: payment", "spec").ok == false)
        assert(check(run, "90th percentile: payment").ok == nil)
        assert(check(run, "90th percentile: delivery, deferred", "spec").ok == true)
        "#
    ));
}

#[test]
fn throughput_is_named_for_what_it_is() {
    holds(&format!(
        "{RIGHT_RUN}{}",
        r#"
        local run = right_run(5)
        assert(check(run, "NOPM, not tpmC").value == 50)
        assert(check(run, "tpmC", "spec").value == 50)
        local efficiency = check(run, "efficiency", "spec")
        assert(efficiency.ok == true and math.abs(efficiency.value - 97.2) < 0.01)
        local fast = check(right_run(50), "efficiency", "spec")
        assert(fast.ok == false and fast.note:find("12.86", 1, true), fast.note)
        "#
    ));
}

#[test]
fn a_run_of_nothing_says_so() {
    holds(&format!(
        "{RIGHT_RUN}{}",
        r#"
        local run = { duration_s = 1, counters = {}, operations = {} }
        for _, mode in ipairs({ "stress", "spec" }) do
          local opt = { mode = mode, threads = 1 }
          for _, figure in ipairs(figures.checks(run, { warehouses = 4 }, opt)) do
            assert(figure.ok ~= false, figure.name)
            assert(figure.value == nil or figure.value == figure.value, figure.name)
          end
        end
        "#
    ));
}
