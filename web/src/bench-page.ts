// The page of a bench run: what the server carried, how fast it answered, whether it was steady.

import uPlot from "uplot";

import type { BenchInterval, BenchLatency, BenchReport } from "./bench";
import { AXIS, axis, chartPlace, keepChart } from "./charts";
import { density, legend } from "./distributions";
import { PAGE, h, section } from "./dom";
import { csvCell, environment, facts, footer, list, notes, repeat } from "./facts";
import { ABSENT, count, latency, plain, seconds, time } from "./format";
import { colour } from "./palette";
import { figuresTable } from "./table";

export function benchPage(report: BenchReport, place: HTMLElement): void {
  const parts = [
    heading(report),
    figures(report),
    latencies(report),
    overTime(report),
    distribution(report),
    checks(report),
    notes(report.notes, PAGE),
    environment(report.environment, report.server, report.waggle_version, []),
    list("Settings of the run", Object.entries(report.settings)),
    repeat(report.command, [
      {
        label: "Save the data (JSON)",
        file: "waggle-bench.json",
        type: "application/json",
        text: () => `${JSON.stringify(report, null, 1)}\n`,
      },
      {
        label: "Save the intervals (CSV)",
        file: "waggle-intervals.csv",
        type: "text/csv",
        text: () => intervalsCsv(report.intervals),
      },
    ]),
  ];
  place.append(...parts.filter((part) => part !== null));
  document.body.append(footer(report.waggle_version));
}

function heading(report: BenchReport): HTMLElement {
  const kicker = document.getElementById("kicker");
  if (kicker) kicker.textContent = `waggle bench ${report.workload} · ${time(report.started)}`;
  const failed = report.checks.some(({ ok }) => ok === false);
  return h(
    "div",
    { class: "heading" },
    facts(
      [
        ["Server", `${report.server.flavour} ${report.server.version}`],
        ["Load", report.workload],
        ["Threads", report.threads === null ? null : count(report.threads)],
        [
          "Offered",
          report.offered_rate === null
            ? "closed loop"
            : `${count(report.offered_rate)} transactions a second`,
        ],
        ["Measured", report.duration_s === null ? null : seconds(report.duration_s)],
        ["Ended", report.ended.replace(/^\S+Z /, "")],
        ["Checks", checkWords(report)],
      ],
      failed ? "strip failed" : "strip",
    ),
  );
}

function checkWords(report: BenchReport): string | null {
  const judged = report.checks.filter(({ ok }) => ok !== null);
  if (judged.length === 0) return null;
  const failed = judged.filter(({ ok }) => ok === false);
  return failed.length === 0
    ? `${judged.length} held`
    : `FAILED: ${failed.map(({ name }) => name).join(", ")}`;
}

function figures(report: BenchReport): HTMLElement | null {
  if (report.figures.length === 0) return null;
  return section(
    PAGE,
    "throughput",
    "Throughput",
    figuresTable({
      name: "study",
      caption: "What was done in the measured time.",
      rowTitle: "what",
      columns: [
        { group: "", title: "count", unit: "" },
        { group: "", title: "rate", unit: "per s" },
      ],
      rows: report.figures.map((figure) => ({
        label: [[figure.name, figure.unit].filter(Boolean).join(", ")],
        values: [
          figure.value === null ? ABSENT : plain(figure.value, digits(figure.value)),
          figure.per_second === null ? ABSENT : plain(figure.per_second, 1),
        ],
      })),
      place: h("div", { class: "scroll" }),
    }),
  );
}

function digits(value: number): number {
  return Number.isInteger(value) ? 0 : 2;
}

function latencies(report: BenchReport): HTMLElement | null {
  if (report.latencies.length === 0) return null;
  const names = [
    ...new Set(report.latencies.flatMap(({ quantiles }) => quantiles.map(([q]) => q))),
  ];
  const kinds = [...new Set(report.latencies.map(({ kind }) => kind))];
  const tables = kinds.map((kind) =>
    figuresTable({
      name: "study",
      caption: `Latency of each ${kind}, milliseconds.`,
      rowTitle: kind,
      columns: [
        { group: "", title: "count", unit: "" },
        { group: "", title: "rate", unit: "per s" },
        ...["mean", ...names, "max"].map((title) => ({ group: "", title, unit: "ms" })),
      ],
      rows: report.latencies
        .filter((own) => own.kind === kind)
        .map((own) => ({ label: [own.name], values: row(own, names) })),
      place: h("div", { class: "scroll" }),
    }),
  );
  return section(PAGE, "latencies", "Latency", ...tables);
}

function row(own: BenchLatency, names: string[]): string[] {
  const at = new Map(own.quantiles);
  const times = [own.mean, ...names.map((name) => at.get(name) ?? null), own.max];
  return [
    own.count === null ? ABSENT : count(own.count),
    own.per_second === null ? ABSENT : plain(own.per_second, 1),
    ...times.map((us) => (us === null ? ABSENT : plain(us / 1000, 3))),
  ];
}

interface Line {
  name: string;
  variable: string;
  value: (interval: BenchInterval) => number | null;
}

const RATE: Line[] = [{ name: "transactions/s", variable: "--arm-blue", value: (i) => i.tps }];
const TIMES: Line[] = [
  { name: "p50", variable: "--arm-green", value: (i) => i.p50_us },
  { name: "p95", variable: "--arm-orange", value: (i) => i.p95_us },
  { name: "p99", variable: "--arm-red", value: (i) => i.p99_us },
];
const BACKLOG: Line[] = [{ name: "waiting", variable: "--arm-purple", value: (i) => i.backlog }];

function overTime(report: BenchReport): HTMLElement | null {
  const measured = report.intervals.filter(({ kind }) => kind === "interval");
  if (measured.length < 2) return null;
  const backlog = measured.some((interval) => interval.backlog !== null);
  const charts: HTMLElement[] = [
    ...chart("Throughput, transactions/s", measured, RATE, (v) => plain(v, 0), false),
    ...chart("Response time in each interval", measured, TIMES, latency, true),
    ...(backlog
      ? chart("Transactions waiting at the end of each", measured, BACKLOG, (v) => count(v), false)
      : []),
  ];
  return section(PAGE, "timeline", "Timeline", ...charts, legend(TIMES));
}

function chart(
  title: string,
  intervals: BenchInterval[],
  lines: Line[],
  label: (value: number) => string,
  log: boolean,
): HTMLElement[] {
  const place = chartPlace(describe(title, intervals, lines, label));
  keepChart(place, (width) => draw(width, intervals, lines, label, log));
  return [h("p", { class: "chart-title" }, title), place];
}

function draw(
  width: number,
  intervals: BenchInterval[],
  lines: Line[],
  label: (value: number) => string,
  log: boolean,
): uPlot {
  const positive = (value: number | null): number | null =>
    log && value !== null && value <= 0 ? null : value;
  const data = [
    intervals.map(({ at_s }) => at_s),
    ...lines.map((line) => intervals.map((interval) => positive(line.value(interval)))),
  ] as uPlot.AlignedData;
  return new uPlot(
    {
      width,
      height: 180,
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false },
        y: log
          ? { distr: 3, log: 10, range: (_, min, max) => [(min ?? 1) * 0.85, (max ?? 10) * 1.15] }
          : { range: (_, __, max) => [0, (max ?? 1) * 1.08] },
      },
      axes: [
        axis({ size: 30, values: (_, ticks) => ticks.map((tick) => `${tick} s`), space: 64 }),
        axis({
          size: AXIS,
          space: 28,
          filter: (_, ticks) => ticks,
          ...(log ? { splits: (_, __, min, max) => steps(min, max) } : {}),
          values: (_, ticks) => ticks.map(label),
        }),
      ],
      series: [
        {},
        ...lines.map(({ variable }) => ({
          stroke: colour(variable),
          width: 1.25,
          points: { show: false },
          spanGaps: false,
        })),
      ],
    },
    data,
  );
}

/** Ticks at 1, 2 and 5 of each decade within a range. */
function steps(min: number, max: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power += 1)
    ticks.push(...[1, 2, 5].map((f) => f * 10 ** power).filter((t) => t >= min && t <= max));
  return ticks;
}

function describe(
  title: string,
  intervals: BenchInterval[],
  lines: Line[],
  label: (value: number) => string,
): string {
  const ranges = lines.map((line) => {
    const values = intervals.flatMap((interval) => line.value(interval) ?? []);
    if (values.length === 0) return `${line.name} not measured`;
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    return `${line.name} between ${label(low)} and ${label(high)}`;
  });
  return `${title} over ${intervals.length} intervals: ${ranges.join("; ")}.`;
}

function distribution(report: BenchReport): HTMLElement | null {
  const colours = ["--arm-blue", "--arm-green", "--arm-orange", "--arm-purple"];
  const shown = Object.entries(report.histograms)
    .filter(([, buckets]) => buckets.some(([, n]) => n > 0))
    .map(([name, buckets], index) => ({
      name,
      variable: colours[index % colours.length] ?? "--arm-sky",
      buckets,
    }));
  return shown.length === 0
    ? null
    : section(PAGE, "distribution", "Distribution", ...density(shown, "transactions"));
}

function checks(report: BenchReport): HTMLElement | null {
  if (report.checks.length === 0) return null;
  const state = (ok: boolean | null): string => (ok === null ? "" : ok ? "ok" : "FAILED");
  return section(
    PAGE,
    "checks",
    "What the workload checked",
    figuresTable({
      name: "study",
      caption: "Figures that the workload makes of its own run; a check that fails voids the rest.",
      rowTitle: "check",
      columns: [
        { group: "", title: "value", unit: "" },
        { group: "", title: "unit", unit: "" },
        { group: "", title: "verdict", unit: "" },
      ],
      rows: report.checks.map((check) => ({
        label: [check.name, h("small", {}, check.note)],
        values: [
          check.value === null ? ABSENT : plain(check.value, digits(check.value)),
          check.unit,
          state(check.ok),
        ],
      })),
      place: h("div", { class: "scroll" }),
    }),
  );
}

/** The intervals as CSV; empty where nothing was measured. */
export function intervalsCsv(intervals: BenchInterval[]): string {
  const head = "kind,at_s,duration_s,qps,tps,errors,p50_us,p95_us,p99_us,backlog";
  const rows = intervals.map((i) =>
    [i.kind, i.at_s, i.duration_s, i.qps, i.tps, i.errors, i.p50_us, i.p95_us, i.p99_us, i.backlog]
      .map(csvCell)
      .join(","),
  );
  return `${[head, ...rows].join("\n")}\n`;
}
