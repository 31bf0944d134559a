//! The graph of the workload linkbench without a server: who is drawn, and what payloads look like.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{lua, run_to_end, spec};
use crate::driver::Outcome;
use crate::driver::scripted::{Scripted, server_error};
use crate::{LoadSpec, Script};

/// Runs the text as the one event of a script; a failed `assert` in it fails the test.
fn holds(text: &str) {
    let script = format!(
        "local graph = require('linkbench_graph')\nfunction event()\n{text}\nreturn true\nend"
    );
    let spec = LoadSpec {
        seed: 7,
        ..spec(lua(&script))
    };
    run_to_end(&spec, &Scripted::silent()).unwrap();
}

/// First six values of 1,024 and the sum of i times the i-th, printed by Java's own class.
#[test]
fn random_numbers_are_those_of_java() {
    holds(
        r#"
        for _, known in ipairs({
          { graph.SEED_LINKS, 97, { 14, 58, 42, 35, 67, 86 }, 24968274 },
          { graph.SEED_LINKS, 9765, { 347, 5629, 1728, 6331, 8819, 4659 }, 2485278807 },
          { graph.SEED_LINKS, 1024, { 1001, 603, 442, 481, 208, 132 }, 261242209 },
          { graph.SEED_UNCORRELATED, 97, { 84, 22, 19, 20, 8, 85 }, 24881018 },
          { graph.SEED_UNCORRELATED, 9765, { 5777, 7391, 3650, 7109, 7444, 2209 }, 2530351184 },
          { graph.SEED_UNCORRELATED, 1024, { 909, 20, 21, 514, 298, 94 }, 270584021 },
          { graph.SEED_NODES, 97, { 86, 34, 62, 12, 45, 73 }, 25511694 },
          { graph.SEED_NODES, 9765, { 6047, 7075, 2965, 3711, 6513, 521 }, 2561980806 },
          { graph.SEED_NODES, 1024, { 668, 32, 651, 64, 580, 304 }, 266965326 },
        }) do
          local draw, sum = graph.java_random(known[1]), 0
          for i = 1, 1024 do
            local value = draw(known[2])
            assert(i > 6 or value == known[3][i], i)
            sum = sum + i * value
          end
          assert(sum == known[4], sum)
        end
        "#,
    );
}

#[test]
fn places_are_permuted_and_back() {
    holds(
        r#"
        for _, n in ipairs({ 1, 2, 1000, 1023, 1024, 1025, 100000, 99999 }) do
          local shuffler, seen, moved = graph.shuffler(graph.SEED_LINKS, n), {}, 0
          for i = 0, n - 1 do
            local place = shuffler.permute(i)
            assert(place >= 0 and place < n and not seen[place], place)
            assert(shuffler.invert(place) == i)
            seen[place] = true
            moved = moved + (place == i and 0 or 1)
          end
          assert(n < 2048 or moved > 0.9 * n, moved)
        end
        "#,
    );
}

/// With the table's last steps cut off by the size of the graph; see `degree`.
#[test]
fn nodes_have_as_many_links_as_the_table_says() {
    holds(
        r#"
        local degrees, n = require("linkbench_degrees"), 200000
        local expected, below = 0, 0
        for _, step in ipairs(degrees) do
          expected = expected + (step[2] - below) / 100 * math.min(step[1], n)
          below = step[2]
        end
        local paper, code = graph.new(n, "paper"), graph.new(n, "code")
        local sum, by_type, more, none, of_two = 0, 0, 0, 0, 0
        for id = 1, n do
          local degree = paper.degree(id)
          assert(degree == code.degree(id))
          sum = sum + degree
          by_type = by_type + paper.degree_of_type(id, 0) + paper.degree_of_type(id, 1)
          more = more + code.degree_of_type(id, 0) + code.degree_of_type(id, 1)
          none = none + (degree == 0 and 1 or 0)
          of_two = of_two + (degree >= 2 and 1 or 0)
        end
        assert(by_type == sum, "types share the links of a node")
        assert(math.abs(none / n - 0.4533) < 0.0001, none)
        -- Only the heaviest node is not of its step's size to the part of a node.
        assert(sum / n - expected > 0 and sum / n - expected < 1.1, sum / n .. " " .. expected)
        -- The program gives an even number of links one more of both types, and an odd number,
        -- whose half is rounded down, one more of the second.
        assert(more > sum and more - sum <= 2 * of_two and more - sum >= of_two, more - sum)
        "#,
    );
}

/// A load that was published (mdcallag/linkbench, issue 6): four nodes, 961,966 links. Its nodes
/// stand at the quarters of the distribution, as these do in a graph large enough for the first.
#[test]
fn four_nodes_have_as_many_links_as_linkbench_gave_them() {
    holds(
        r#"
        local n = 1000000
        local order, social = graph.shuffler(graph.SEED_LINKS, n), graph.new(n, "code")
        local all = 0
        for quarter, wanted in ipairs({ 961964, 1, 1, 0 }) do
          local id = order.permute((quarter - 1) * n / 4) + 1
          local links = social.degree_of_type(id, 0) + social.degree_of_type(id, 1)
          assert(links == wanted, links)
          all = all + links
        end
        assert(all == 961966)
        "#,
    );
}

#[test]
fn ranks_are_drawn_with_the_shares_of_zipf() {
    holds(
        r#"
        local n, draws = 100000, 400000
        for _, shape in ipairs({ 0.606, 0.625, 0.741, 0.8 }) do
          local zeta, upto = 0, {}
          for k = 1, n do
            zeta = zeta + k ^ -shape
            upto[k] = zeta
          end
          local rank, counts = graph.zipf(n, shape), {}
          for _ = 1, draws do
            local value = rank()
            assert(value >= 0 and value < n and value == math.floor(value), value)
            for _, limit in ipairs({ 1, 2, 100, 1000, 10000, 50000 }) do
              if value < limit then counts[limit] = (counts[limit] or 0) + 1 end
            end
          end
          for limit, count in pairs(counts) do
            local share, wanted = count / draws, upto[limit] / zeta
            -- The first two are exact but for chance; the closed form is off by some percent.
            local chance = 5 * math.sqrt(wanted * (1 - wanted) / draws)
            local slack = limit <= 2 and 0 or 0.03 * wanted
            assert(math.abs(share - wanted) < chance + slack,
              string.format("%g: %d: %g for %g", shape, limit, share, wanted))
          end
        end
        "#,
    );
}

/// The uncorrelated choice of writes tells the two ways apart.
#[test]
fn links_are_written_by_the_program_or_by_its_settings() {
    holds(
        r#"
        local n, draws = 10000, 200000
        local hot = graph.shuffler(graph.SEED_UNCORRELATED, n).permute(0) + 1
        local hot_links = graph.shuffler(graph.SEED_LINKS, n).permute(0) + 1
        local function share(shape)
          local zeta = 0
          for k = 1, n do zeta = zeta + k ^ -shape end
          return 1 / zeta
        end
        for _, known in ipairs({ { "code", 0.8, 0.995 }, { "paper", 0.741, 0.95 } }) do
          local write, count, links = graph.new(n, known[1]).choose.link_write, 0, 0
          for _ = 1, draws do
            local id = write()
            count = count + (id == hot and 1 or 0)
            links = links + (id == hot_links and 1 or 0)
          end
          local wanted = share(known[2]) * known[3]
          local chance = 5 * math.sqrt(wanted / draws)
          -- The hottest node of the one order may also be drawn by the other.
          assert(math.abs(count / draws - wanted) < chance + 0.0005, known[1] .. count)
          wanted = share(0.741) * (1 - known[3])
          assert(math.abs(links / draws - wanted) < 5 * math.sqrt(wanted / draws) + 0.0005, links)
        end
        "#,
    );
}

#[test]
fn payloads_have_the_asked_sizes_and_bytes() {
    holds(
        r#"
        for _, known in ipairs({ { 8, 255, 32, 100, 0.225 }, { 128, 1048576, 50, 220, 0.63 } }) do
          local payload = graph.payload(unpack(known))
          local lengths, seen, count = {}, {}, 0
          for i = 1, 20001 do
            local literal = payload()
            assert(literal:sub(1, 1) == "'" and literal:sub(-1) == "'")
            local text = literal:sub(2, -2):gsub("\\(.)", "%1")
            lengths[i] = #text
            for byte in text:gmatch(".") do
              byte = byte:byte()
              assert(byte >= known[3] and byte <= known[4], byte)
              if not seen[byte] then seen[byte], count = true, count + 1 end
            end
          end
          table.sort(lengths)
          assert(count == known[4] - known[3] + 1, count)
          assert(lengths[20001] <= known[2])
          -- Sizes are rounded down. One sigma up is e times the median.
          local median, sigma = lengths[10001], lengths[math.floor(20001 * 0.8413)]
          assert(math.abs(median - known[1]) <= math.max(1, 0.04 * known[1]), median)
          local wanted = known[1] * math.exp(1)
          assert(math.abs(sigma - wanted) <= 0.05 * wanted + 1, sigma)
        end
        "#,
    );
}

#[test]
fn other_ends_exist_with_the_asked_probability() {
    holds(
        r#"
        local social = graph.new(10000, "code")
        local id
        for candidate = 1, 10000 do
          if social.degree(candidate) == 100 then id = candidate end
        end
        local loaded = social.degree_of_type(id, 0)
        for _, probability in ipairs({ 0.05, 0.5, 0.9 }) do
          local hits = 0
          for _ = 1, 20000 do
            local other = social.other_end(id, 0, probability)
            assert(other >= id)
            hits = hits + (other < id + loaded and 1 or 0)
          end
          assert(math.abs(hits / 20000 - probability) < 0.02, hits)
        end
        "#,
    );
}

/// Every third statement that changes something meets a deadlock or a lock wait time-out.
#[test]
fn an_operation_that_was_rolled_back_is_repeated_with_the_same_input() {
    let changes = AtomicU32::new(0);
    let server = Scripted::answering(move |_, asked| {
        if !asked.sql.starts_with("INSERT") && !asked.sql.starts_with("UPDATE") {
            return Ok(Outcome::default());
        }
        match changes.fetch_add(1, Ordering::Relaxed) % 6 {
            2 => Err(server_error(1213, "Deadlock found")),
            5 => Err(server_error(1205, "Lock wait timeout exceeded")),
            _ => Ok(Outcome {
                affected: 1,
                ..Outcome::default()
            }),
        }
    });
    let spec = LoadSpec {
        seed: 7,
        event_limit: Some(400),
        options: BTreeMap::from([("nodes".to_owned(), "1000".to_owned())]),
        ..spec(Script::open("linkbench").unwrap())
    };
    let counters = run_to_end(&spec, &server).unwrap();
    assert_eq!(counters.transactions, 400);
    assert!(counters.errors > 20, "{}", counters.errors);

    // What one operation begins with: after a failure of its transaction it comes again.
    let texts = server.texts();
    let begins = |text: &&String| {
        text.starts_with("INSERT INTO linktable")
            || text.starts_with("SELECT visibility")
            || text.contains("nodetable") && !text.starts_with("SELECT")
    };
    let begun: Vec<&String> = texts.iter().filter(begins).collect();
    let repeated = begun.windows(2).filter(|two| two[0] == two[1]).count();
    assert_eq!(repeated as u64, counters.errors);
    let rolled_back = texts.iter().filter(|text| *text == "ROLLBACK").count() as u64;
    // Of both kinds of failures half each: only the time-out leaves a transaction open.
    assert!(
        rolled_back.abs_diff(counters.errors / 2) <= 1,
        "{rolled_back}"
    );
}
