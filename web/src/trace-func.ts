// Where calls of functions spend their time: the table, the histograms, the slow calls.

import { bar, key, stateColour } from "./bars";
import { PAGE, h, section } from "./dom";
import { ABSENT, count, latency, plain } from "./format";
import { type Column, type Row, figuresTable } from "./table";
import type { FuncCall, FuncCalls, FuncReport, FuncRow } from "./trace";

export function funcParts(report: FuncReport): (HTMLElement | null)[] {
  return [table(report), histograms(report), slow(report), cost(report)];
}

const COLUMNS: Column[] = [
  { group: "calls", title: "count", unit: "" },
  { group: "calls", title: "rate", unit: "per s" },
  ...["mean", "p50", "p95", "p99", "max"].map((title) => ({ group: "time", title, unit: "µs" })),
  { group: "off the processor", title: "mean", unit: "µs a call" },
  { group: "off the processor", title: "share", unit: "% of time" },
  { group: "on it", title: "CPU", unit: "% of trace" },
];

function table(report: FuncReport): HTMLElement {
  const rows = report.functions.flatMap((own) => [
    line(h("b", { title: own.signature }, own.name), own),
    ...own.children
      .filter((child) => child.latency_us.count > 0)
      .map((child) => line(indented(child.name, nested(child)), child)),
    ...elsewhere(own, report.duration_s),
    ...own.callers.map((caller) => line(indented(`from ${caller.name}`, ""), caller)),
  ]);
  return section(
    PAGE,
    "functions",
    "Functions",
    figuresTable({
      name: "study",
      caption:
        "Calls that began and returned while tracing. Counts, means and the largest are exact, " +
        "percentiles to 1.6%. Below a function: its watched callees, what is left, its callers.",
      rowTitle: "function",
      columns: COLUMNS,
      rows,
      place: h("div", { class: "scroll" }),
    }),
  );
}

function indented(name: string, remark: string): HTMLElement {
  return h("span", { class: "indented" }, name, remark === "" ? null : h("small", {}, remark));
}

function nested(child: FuncCalls): string {
  return child.nested === 0 ? "" : ` ${count(child.nested)} within another callee`;
}

function line(name: Node, calls: FuncCalls): Row {
  const { latency_us: time } = calls;
  const us = (value: number): string => (time.count === 0 ? ABSENT : micros(value));
  return {
    label: [name],
    values: [
      count(time.count),
      plain(calls.per_s, calls.per_s < 10 ? 1 : 0),
      ...[time.mean_us, time.p50_us, time.p95_us, time.p99_us, time.max_us].map(us),
      us(calls.off_mean_us),
      share(calls.off_sum_ns, calls.sum_ns),
      plain(calls.cpu_percent, 2),
    ],
  };
}

/** What the watched callees leave of a function. */
function elsewhere(own: FuncRow, duration_s: number): Row[] {
  const calls = own.latency_us.count;
  if (own.rest_ns === null || own.rest_off_ns === null || calls === 0) return [];
  const on = (own.rest_ns - own.rest_off_ns) / (duration_s * 1e7);
  const none = ABSENT;
  return [
    {
      label: [indented("elsewhere, a call", "")],
      values: [
        none,
        none,
        micros(own.rest_ns / calls / 1000),
        none,
        none,
        none,
        none,
        micros(own.rest_off_ns / calls / 1000),
        share(own.rest_off_ns, own.rest_ns),
        plain(on, 2),
      ],
    },
  ];
}

function micros(us: number): string {
  return plain(us, us >= 100 ? 0 : us >= 10 ? 1 : 2);
}

function share(part: number, whole: number): string {
  return whole === 0 ? ABSENT : plain((100 * part) / whole, 1);
}

interface Octave {
  low: number;
  calls: number;
  off: number;
}

/** One bar for each power of two, those without calls between the first and the last included. */
export function octaves(histogram: FuncCalls["histogram"]): Octave[] {
  const of = (ns: number): number => Math.floor(Math.log2(Math.max(ns, 1)));
  const first = histogram[0];
  const last = histogram[histogram.length - 1];
  if (!first || !last) return [];
  const all: Octave[] = [];
  for (let at = of(first[0]); at <= of(last[0]); at += 1)
    all.push({ low: at === 0 ? 0 : 2 ** at, calls: 0, off: 0 });
  for (const [low, , calls, off] of histogram) {
    const octave = all[of(low) - of(first[0])];
    if (octave) {
      octave.calls += calls;
      octave.off += off;
    }
  }
  return all;
}

function histograms(report: FuncReport): HTMLElement | null {
  const seen = report.functions.filter((own) => own.latency_us.count > 0);
  if (seen.length === 0) return null;
  return section(PAGE, "histograms", "How long, and how long off", ...seen.flatMap(histogram));
}

function histogram(own: FuncRow): HTMLElement[] {
  const bars = octaves(own.histogram);
  const most = Math.max(1, ...bars.map(({ calls, off }) => Math.max(calls, off)));
  const side = (n: number, name: string, variable: string): HTMLElement =>
    h(
      "td",
      { class: `side ${name}` },
      h("span", { class: "n" }, n === 0 ? "" : count(n)),
      h("span", {
        class: "b",
        style: `width:calc((100% - 72px) * ${n / most});background:var(${variable})`,
      }),
    );
  const reasons = Object.entries(own.off_by_reason_ns)
    .sort(([, a], [, b]) => b - a)
    .map(([name, ns]) => ({ name, ns, variable: stateColour(name) }));
  const queued = own.off_sum_ns === 0 ? 0 : (100 * own.queued_ns) / own.off_sum_ns;
  return [
    h("h3", {}, own.name),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "octaves" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "from" }, "from"),
            h("th", { scope: "col" }, "calls that took so long"),
            h("th", { scope: "col" }, `calls off the processor so long`),
          ),
        ),
        h(
          "tbody",
          {},
          ...bars.map(({ low, calls, off }) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, latency(low / 1000)),
              side(calls, "calls", "--arm-blue"),
              side(off, "off", "--arm-orange"),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "caption" },
      `${count(own.off_us.count)} of ${count(own.latency_us.count)} calls left their processor. ` +
        `Of the time off, ${plain(queued, 1)}% was spent ready, waiting for a processor.`,
    ),
    ...(reasons.length === 0 ? [] : [bar(reasons, own.off_sum_ns), key(reasons)]),
  ];
}

function slow(report: FuncReport): HTMLElement | null {
  if (report.slower_ns === null) return null;
  const least = latency(report.slower_ns / 1000);
  const total = report.calls["slow"] ?? 0;
  const longest = Math.max(1, ...report.slow.map(({ wall_ns }) => wall_ns));
  return section(
    PAGE,
    "slow",
    `Calls of ${least} or more`,
    h(
      "p",
      { class: "caption" },
      `${count(total)} of them; the ${count(report.slow.length)} slowest, to one scale.`,
    ),
    key(
      ["on CPU", "runnable", "futex", "disk", "network", "sleep", "other"].map((name) => ({
        name,
        variable: stateColour(name),
      })),
    ),
    ...report.slow.map((call) => slowCall(call, longest)),
  );
}

function slowCall(call: FuncCall, longest: number): HTMLElement {
  const parts = [
    { name: "on CPU", ns: call.wall_ns - call.off_ns, variable: stateColour("on CPU") },
    ...Object.entries(call.off_by_reason_ns).map(([name, ns]) => ({
      name,
      ns,
      variable: stateColour(name),
    })),
  ];
  const stretch =
    call.longest_off_ns === 0
      ? ""
      : `, longest off at a stretch ${latency(call.longest_off_ns / 1000)} ` +
        `(${call.longest_off_reason})`;
  return h(
    "details",
    { class: "wait" },
    h(
      "summary",
      {},
      h("b", {}, latency(call.wall_ns / 1000)),
      ` ${call.name} in ${call.thread} (${call.tid})${stretch}`,
      bar(parts, longest),
    ),
    h("ol", { class: "stack" }, ...call.stack.map((frame) => h("li", {}, h("code", {}, frame)))),
  );
}

function cost(report: FuncReport): HTMLElement {
  const { watching } = report;
  const ns = (value: number | null): string =>
    value === null ? "not measured" : `${plain(value, 0)} ns`;
  const rows: [string, string][] = [
    ["Traps of a call, with empty programs", ns(watching.stepped_traps_ns ?? watching.traps_ns)],
    ["Program where calls begin", ns(watching.entered_ns)],
    ["Program where calls return", ns(watching.returned_ns)],
    ["A watched call, all together", ns(watching.call_ns)],
    ["Program at each switch of the host", ns(watching.switched_ns)],
    [
      "All of it",
      watching.cpu_percent === null
        ? "not measured"
        : `${plain(watching.cpu_percent, 2)}% of one processor`,
    ],
  ];
  return section(
    PAGE,
    "cost",
    "What watching costs",
    h(
      "dl",
      { class: "facts" },
      ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    h(
      "p",
      { class: "caption" },
      "Traps are timed in a loop of waggle's own, where caches are warm; programs by the kernel, " +
        "in the process, right after the trace.",
    ),
  );
}
