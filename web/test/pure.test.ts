// The page's logic without a browser: numbers, scales, histograms, CSV. Run by `npm test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { windowsCsv } from "../src/facts";
import { bytes, decimals, latency, percent, plain, seconds, signed, time } from "../src/format";
import { type Buckets, logBins, quantile, shares, tail } from "../src/histogram";
import { position, roundStep, scaleWithZero } from "../src/scale";
import { example } from "./lab-example";

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
  const lines = windowsCsv(example).trim().split("\n");
  assert.equal(lines.length, example.windows.length + 1);
  assert.equal(lines[0]?.split(",").length, 8);
  const without = example.windows.findIndex(
    (window) => window.server_cpu_us_per_statement === null,
  );
  assert.equal(lines[without + 1]?.split(",")[5], "");
});
