// The page's logic without a browser: numbers, scales, histograms, CSV. Run by `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { csvCell, windowsCsv } from "../src/facts";
import { type Choice, folded, found, functions, layout, matcher, total, tree } from "../src/flame";
import { bytes, decimals, latency, percent, plain, seconds, signed, time } from "../src/format";
import { type Buckets, logBins, quantile, shares, tail } from "../src/histogram";
import { position, roundStep, scaleWithZero } from "../src/scale";
import { cellAsLab } from "../src/study";
import { show, tablesCsv } from "../src/study-tables";
import { example } from "./lab-example";
import { example as profiles } from "./profile-example";
import { curvePoints, placeOf } from "../src/tune-curve";
import { example as study } from "./study-example";
import { example as tune } from "./tune-example";

test("numbers carry as many digits as the evidence", () => {
  assert.equal(decimals(0.19, 1), 2);
  assert.equal(decimals(1.8, 0), 0);
  assert.equal(decimals(44, 1), 0);
  assert.equal(decimals(0, 1), 2);
  assert.equal(plain(-0.004, 2), "0.00");
  assert.equal(plain(-1234.5, 1), "−1,234.5");
  assert.equal(signed(1.2, 1), "+1.2");
  assert.equal(signed(-0.2, 1), "−0.2");
  assert.equal(signed(0, 1), "0.0");
  assert.equal(percent(0.942), "−5.8");
});

test("units read well", () => {
  assert.equal(bytes(25_794_969), "24.6 MiB");
  assert.equal(bytes(512), "512 B");
  assert.equal(seconds(212), "3 min 32 s");
  assert.equal(latency(88.1), "88.1 µs");
  assert.equal(latency(1250), "1.25 ms");
  assert.equal(latency(0.5), "500 ns");
  assert.equal(time("2026-11-21T10:03:12.481Z"), "2026-11-21 10:03 UTC");
  assert.equal(time("yesterday"), "yesterday");
});

test("a scale holds zero, every value, and round ticks", () => {
  const scale = scaleWithZero([4.2, 48], 5);
  assert.ok(scale.low <= 0 && scale.high >= 48);
  assert.deepEqual(
    scale.ticks,
    [0, 10, 20, 30, 40, 50].filter((tick) => tick <= scale.high),
  );
  assert.ok(
    Math.abs(position(scale, scale.low)) < 1e-12 &&
      Math.abs(position(scale, scale.high) - 1) < 1e-12,
  );
  const negative = scaleWithZero([-36, -3], 4);
  assert.ok(negative.high >= 0 && negative.low <= -36);
  assert.deepEqual(scaleWithZero([], 4).ticks.includes(0), true);
  assert.deepEqual(scaleWithZero([NaN, Infinity, 2], 4).ticks.includes(2), true);
  assert.equal(roundStep(0.3), 0.5);
  assert.equal(roundStep(2.1), 2.5);
});

const BUCKETS: Buckets = [
  [50, 10],
  [100, 80],
  [200, 9],
  [5000, 1],
];

test("bins cover every bucket and shares add up", () => {
  const bins = logBins([BUCKETS], 10);
  assert.ok((bins[0] ?? Infinity) >= 50 && (bins[bins.length - 1] ?? 0) >= 5000);
  const parts = shares(BUCKETS, bins);
  assert.ok(Math.abs(parts.reduce((a, b) => a + b, 0) - 1) < 1e-12);
  assert.equal(Math.max(...parts), 0.8);
  const hundred = bins.findIndex((bound) => Math.abs(bound - 100) < 1e-6);
  assert.equal(parts[hundred], 0.8);
  assert.deepEqual(logBins([[]], 10), []);
  assert.deepEqual(
    logBins(
      [
        [
          [0, 3],
          [10, 0],
        ],
      ],
      10,
    ),
    [],
  );
});

test("the tail falls from all to nothing", () => {
  const above = tail(BUCKETS, [10, 50, 100, 200, 5000]);
  assert.deepEqual(above, [1, 0.9, 0.1, 0.01, null]);
  assert.deepEqual(tail([], [10]), [null]);
});

test("quantiles are bucket bounds", () => {
  assert.equal(quantile(BUCKETS, 0.5), 100);
  assert.equal(quantile(BUCKETS, 0.99), 200);
  assert.equal(quantile(BUCKETS, 1), 5000);
  assert.equal(quantile([], 0.5), null);
});

test("windows as CSV, absent readings empty", () => {
  const lines = windowsCsv([{ cell: null, windows: example.windows }])
    .trim()
    .split("\n");
  assert.equal(lines.length, example.windows.length + 1);
  assert.equal(lines[0]?.split(",").length, 9);
  const without = example.windows.findIndex(
    (window) => window.server_cpu_us_per_statement === null,
  );
  assert.equal(lines[without + 1]?.split(",")[5], "");
});

test("windows of a study name their cell and their statement types", () => {
  const groups = study.cells.map(({ id, windows }) => ({ cell: id, windows }));
  const lines = windowsCsv(groups).trim().split("\n");
  assert.match(lines[0] ?? "", /^cell,t_s,.*,ADD_LINK statements,ADD_LINK mean_us,ADD_LINK p99_us/);
  assert.equal(lines.length, 1 + groups.reduce((sum, { windows }) => sum + windows.length, 0));
});

test("a cell of CSV is never a formula", () => {
  assert.equal(csvCell("=1+1"), "'=1+1");
  assert.equal(csvCell(-1.5), "-1.5");
  assert.equal(csvCell('a "b", c'), '"a ""b"", c"');
  assert.equal(csvCell(null), "");
});

test("a table's figures have as many digits as their interval, and holes are dashes", () => {
  // The text of a cell without a browser: only those that need no element.
  assert.equal(show({ kind: "plain", value: 21334.4, digits: 0 }), "21,334");
  assert.equal(show({ kind: "plain", value: null, digits: 200 }), "–");
  assert.equal(show({ kind: "absent", why: "x" }), "–");
  assert.equal(show(undefined), "–");
  assert.equal(show({ kind: "estimate", value: 1, low: null, high: 2, unclaimed: false }), "–");
});

test("tables as CSV keep every value and its interval", () => {
  const lines = tablesCsv(study).trim().split("\n");
  const values = study.tables.reduce((sum, t) => sum + t.rows.length * t.columns.length, 0);
  assert.equal(lines.length, values + 1);
  assert.ok(lines.some((line) => /,estimate,-?[\d.]+,-?[\d.]+,-?[\d.]+,/.test(line)));
});

test("a cell is a lab report with what the study shares", () => {
  const cell = study.cells[1];
  assert.ok(cell);
  const report = cellAsLab(study, cell);
  assert.equal(report.server.settings["innodb_buffer_pool_size"], "33554432");
  assert.equal(report.margin, 0);
  assert.equal(report.environment, study.environment);
});

const ON_CPU: Choice = { kind: 0, root: "all", process: null, digest: null, inverted: false };

function before(): (typeof profiles.parts)[number] {
  const part = profiles.parts[0];
  assert.ok(part);
  return part;
}

test("a tree of calls holds all the time of its choice", () => {
  const root = tree(before(), ON_CPU, null);
  assert.equal(root.ns, total(before(), ON_CPU));
  const byRole = tree(before(), { ...ON_CPU, root: "role" }, null);
  assert.equal(
    byRole.children.reduce((sum, { ns }) => sum + ns, 0),
    root.ns,
  );
  const user = byRole.children.find(({ name }) => name === "user thread");
  assert.ok(user && user.flags === 8);
  const off = tree(before(), { ...ON_CPU, kind: 1 }, null);
  assert.equal(off.samples, 2000);
  const inverted = tree(before(), { ...ON_CPU, inverted: true }, null);
  assert.equal(inverted.ns, root.ns);
  assert.ok(inverted.children.some(({ name }) => name === "row_sel_get_clust_rec"));
});

test("rectangles fill their callers and stay inside", () => {
  const root = tree(before(), ON_CPU, null);
  const shown = layout(root, 1000);
  assert.equal(shown[0]?.width, 1000);
  for (const { call, x, width } of shown) {
    assert.ok(x >= 0 && x + width <= 1000.001);
    assert.ok(Math.abs(width - (1000 * call.ns) / root.ns) < 0.001);
  }
  const inner = shown.find(({ call }) => call.name === "row_search_mvcc");
  assert.ok(inner);
  const zoomed = layout(inner.call, 1000);
  const callers = zoomed.filter(({ width }) => width === 1000);
  assert.ok(callers.length >= 3, "the callers of what is enlarged are shown");
});

test("a difference compares shares of the whole", () => {
  const [one, two] = profiles.parts;
  assert.ok(one && two);
  const root = tree(two, ON_CPU, one);
  assert.ok(Math.abs(root.before - root.ns) < 1);
  const heavier = layout(root, 1000).find(({ call }) => call.name === "row_search_mvcc");
  assert.ok(heavier && heavier.call.ns > heavier.call.before);
  const same = tree(one, ON_CPU, one);
  for (const { call } of layout(same, 1000)) assert.ok(Math.abs(call.ns - call.before) < 1);
});

test("a search counts each moment once, and no text breaks it", () => {
  const root = tree(before(), ON_CPU, null);
  const matches = matcher("row_");
  assert.ok(matches);
  const ns = found(root, matches);
  const calls = functions(before(), ON_CPU).filter(({ name }) => name === "row_search_mvcc");
  assert.equal(ns, calls[0]?.total);
  // No regular expression: these letters.
  const letters = matcher("row_search_mvcc(");
  assert.ok(letters && letters("ROW_SEARCH_MVCC(a)") && !letters("row_search_mvcc"));
  assert.equal(matcher("  "), null);
});

test("functions' own times add up to the whole", () => {
  const all = functions(before(), ON_CPU);
  const own = all.reduce((sum, { self }) => sum + self, 0);
  assert.ok(Math.abs(own - total(before(), ON_CPU)) < 1);
  for (const { self, total } of all) assert.ok(self <= total);
});

test("folded stacks have a line a stack, whatever the names", () => {
  const text = folded(tree(before(), { ...ON_CPU, root: "role" }, null));
  let sum = 0;
  for (const line of text.trim().split("\n")) {
    assert.match(line, /^[^ ].* \d+$/);
    assert.doesNotMatch(line, / \d+ \d+$/);
    sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  assert.ok(Math.abs(sum - total(before(), ON_CPU)) < text.length);
});

test("a response curve runs by value, and far values stand by their logarithm", () => {
  const [stage] = tune.stages;
  assert.ok(stage);
  assert.deepEqual(
    curvePoints(stage).map(({ config }) => config.label),
    ["4", "8", "16"],
  );
  const near = placeOf([0, 5, 10]);
  assert.deepEqual([0, 5, 10].map(near), [0, 0.5, 1]);
  const far = placeOf([0, 1, 4, 16]);
  assert.deepEqual([0, 1, 4, 16].map(far), [0, 0.2, 0.6, 1]);
  assert.equal(placeOf([3])(3), 0.5);
});
