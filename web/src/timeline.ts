// The timeline: every window as a bar at its value, coloured by arm, above a lane for each arm, so
// that drift of the machine is seen beside the difference between arms.

import uPlot from "uplot";

import { AXIS, axis, chartPlace, keepChart } from "./charts";
import { type Place, h, section } from "./dom";
import { count, latency, plain, seconds } from "./format";
import type { LabReport, LabWindow, TypeWindow } from "./lab";
import { armColours, colour } from "./palette";

interface Lane {
  name: string;
  colour: string;
}

/** A reading of a window that is drawn over time. */
interface Metric {
  title: string;
  what: string;
  unit: string;
  value: (window: LabWindow) => number | null;
  label: (value: number) => string;
}

const METRICS: Metric[] = [
  {
    title: "Throughput, queries/s",
    what: "Throughput",
    unit: "queries a second",
    value: (w) => w.qps,
    label: thousands,
  },
  {
    title: "Server CPU per statement, µs",
    what: "Server CPU",
    unit: "µs per statement",
    value: (w) => w.server_cpu_us_per_statement,
    label: (v) => String(v),
  },
];

/** Every window over time: throughput, CPU per statement, and which arm was on. */
export function timeline(report: LabReport, place: Place): HTMLElement {
  if (report.windows.length === 0)
    return section(place, "timeline", "Timeline", h("p", {}, "No windows were recorded."));
  return section(place, "timeline", "Timeline", ...overTime(report, place, METRICS));
}

/** Rate and p99 of one type of statement over time. */
export function typeTimeline(report: LabReport, place: Place, type: string): HTMLElement[] {
  const of = (w: LabWindow): TypeWindow | undefined => w.types[type];
  return overTime(report, { ...place, prefix: `${place.prefix}${type}-` }, [
    {
      title: `${type} per second`,
      what: `Rate of ${type}`,
      unit: "a second",
      value: (w) => {
        const reading = of(w);
        return reading && w.duration_s > 0 ? reading.statements / w.duration_s : null;
      },
      label: thousands,
    },
    {
      title: `p99 of ${type} in each window`,
      what: `p99 of ${type}`,
      unit: "µs",
      value: (w) => of(w)?.p99_us ?? null,
      label: latency,
    },
  ]);
}

function overTime(report: LabReport, place: Place, metrics: Metric[]): HTMLElement[] {
  const windows = report.windows;
  const lanes = [...armColours(report)].map(([name, variable]) => ({ name, colour: variable }));
  const readout = h("p", { class: "readout", "aria-live": "off" }, hint(windows));
  const show = (index: number | null | undefined): void => {
    const window = typeof index === "number" ? windows[index] : undefined;
    readout.textContent = window ? sentence(window, metrics) : hint(windows);
  };
  // Room for the longest name of an arm, the same for every chart so that they align.
  const longest = lanes.reduce((most, { name }) => Math.max(most, name.length), 0);
  const left = Math.min(170, Math.max(AXIS, longest * 6.2 + 14));
  const shared = { report, lanes, show, left, key: `${place.prefix}timeline` };
  const charts = metrics.flatMap((metric) => {
    const readings = windows.flatMap((window) => metric.value(window) ?? []);
    const chart = chartPlace(describe(metric.what, metric.unit, readings, report));
    keepChart(chart, (width) => values(shared, width, metric.value, metric.label));
    return [h("p", { class: "chart-title" }, metric.title), chart];
  });
  const strip = chartPlace(`Which of ${lanes.length} arms was on in each window.`);
  keepChart(strip, (width) => arms(shared, width));
  return [...charts, h("p", { class: "chart-title" }, "Arm"), strip, readout];
}

interface Shared {
  report: LabReport;
  lanes: Lane[];
  show: (index: number | null | undefined) => void;
  /** Width of the left axis. */
  left: number;
  /** Charts with the same key move and zoom together. */
  key: string;
}

function values(
  shared: Shared,
  width: number,
  value: (w: LabWindow) => number | null,
  label: (value: number) => string,
): uPlot {
  const { windows } = shared.report;
  const data: uPlot.AlignedData = [windows.map(middle), windows.map(value)];
  const paint = (chart: uPlot): void =>
    windows.forEach((window) => {
      const y = value(window);
      if (window.marks.length > 0) shade(chart, window);
      if (y !== null) bar(chart, shared, window, chart.valToPos(y, "y", true));
    });
  return build(
    shared,
    width,
    170,
    data,
    { y: { range: padded } },
    [
      axis({ scale: "x", show: false }),
      axis({ scale: "y", size: shared.left, values: (_, ticks) => ticks.map(label), space: 34 }),
    ],
    paint,
  );
}

function arms(shared: Shared, width: number): uPlot {
  const { windows } = shared.report;
  const { lanes } = shared;
  const lane = (window: LabWindow): number => lanes.findIndex(({ name }) => name === window.arm);
  const data: uPlot.AlignedData = [windows.map(middle), windows.map(lane)];
  const paint = (chart: uPlot): void =>
    windows.forEach((window) => {
      bar(chart, shared, window, chart.valToPos(lane(window), "y", true), 9);
    });
  const scale: uPlot.Scales = { y: { dir: -1, range: () => [-0.6, lanes.length - 0.4] } };
  return build(
    shared,
    width,
    lanes.length * 17 + 34,
    data,
    scale,
    [
      axis({
        scale: "x",
        size: 30,
        values: (_, ticks) => ticks.map((tick) => `${tick} s`),
        space: 64,
      }),
      axis({
        scale: "y",
        size: shared.left,
        splits: () => lanes.map((_, index) => index),
        grid: { show: false },
        values: () => lanes.map(({ name }) => name),
        ticks: { show: false },
      }),
    ],
    paint,
  );
}

function build(
  shared: Shared,
  width: number,
  height: number,
  data: uPlot.AlignedData,
  scales: uPlot.Scales,
  axes: uPlot.Axis[],
  paint: (chart: uPlot) => void,
): uPlot {
  const { windows } = shared.report;
  const last = windows[windows.length - 1];
  const end = last ? last.t_s + last.duration_s : 1;
  const begin = firstTick(windows[0]?.t_s ?? 0, end);
  return new uPlot(
    {
      width,
      height,
      padding: [8, 6, 4, 0],
      legend: { show: false },
      cursor: {
        sync: { key: shared.key, scales: ["x", null] },
        points: { show: false },
        y: false,
        drag: { x: true, y: false },
      },
      scales: {
        x: {
          time: false,
          range: (_, min, max) => (whole(data[0], min, max) ? [begin, end] : [min, max]),
        },
        ...scales,
      },
      axes,
      series: [{}, { paths: () => null, points: { show: false }, label: "" }],
      hooks: { draw: [paint], setCursor: [(chart) => shared.show(chart.cursor.idx)] },
    },
    data,
  );
}

/** Zero, unless that would leave much of the chart empty: a cell begins late in its study. */
function firstTick(first: number, end: number): number {
  return first < end * 0.15 ? 0 : first;
}

/** Whether a range is that of all the data rather than of a zoom. */
function whole(xs: ArrayLike<number>, min: number | null, max: number | null): boolean {
  return min === null || max === null || (min <= (xs[0] ?? 0) && max >= (xs[xs.length - 1] ?? 0));
}

/** A window as a horizontal bar of its true length; a discarded one is thin and grey. */
function bar(chart: uPlot, shared: Shared, window: LabWindow, y: number, thick = 4): void {
  const { ctx, bbox } = chart;
  const from = Math.max(chart.valToPos(window.t_s, "x", true), bbox.left);
  const to = Math.min(
    chart.valToPos(window.t_s + window.duration_s, "x", true),
    bbox.left + bbox.width,
  );
  if (to < from) return;
  const scale = devicePixelRatio;
  const height = (window.discarded ? 1 : thick) * scale;
  const lane = shared.lanes.find(({ name }) => name === window.arm);
  ctx.save();
  ctx.fillStyle = colour(window.discarded ? "--faint" : (lane?.colour ?? "--faint"));
  ctx.fillRect(from, y - height / 2, Math.max(to - from - 0.5 * scale, scale), height);
  ctx.restore();
}

/** A band behind a window in which the server did something of its own, such as a checkpoint. */
function shade(chart: uPlot, window: LabWindow): void {
  const { ctx, bbox } = chart;
  const from = Math.max(chart.valToPos(window.t_s, "x", true), bbox.left);
  const to = Math.min(
    chart.valToPos(window.t_s + window.duration_s, "x", true),
    bbox.left + bbox.width,
  );
  if (to < from) return;
  ctx.save();
  ctx.fillStyle = colour("--mark");
  ctx.fillRect(from, bbox.top, Math.max(to - from, devicePixelRatio), bbox.height);
  ctx.restore();
}

function padded(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const air = (max - min) * 0.06 || max * 0.05 || 1;
  return [Math.max(0, min - air), max + air];
}

function middle(window: LabWindow): number {
  return window.t_s + window.duration_s / 2;
}

function thousands(value: number): string {
  return value >= 1000 ? `${Number((value / 1000).toFixed(1))}k` : String(value);
}

function hint(windows: LabWindow[]): string {
  const discarded = windows.filter((window) => window.discarded).length;
  const marked = windows.filter((window) => window.marks.length > 0).length;
  const used = windows.length - discarded;
  const shaded =
    marked > 0 ? ` Shaded: ${count(marked)} in which the server did work of its own.` : "";
  return (
    `${count(used)} windows used, ${count(discarded)} discarded (thin grey).${shaded} ` +
    "Point at a window to read it, drag to zoom, double-click to see all."
  );
}

function sentence(window: LabWindow, metrics: Metric[]): string {
  const readings = metrics.map((metric) => {
    const value = metric.value(window);
    return `${metric.title}: ${value === null ? "not measured" : precise(value)}`;
  });
  return [
    `${plain(window.t_s, 1)} to ${plain(window.t_s + window.duration_s, 1)} s`,
    window.arm,
    ...readings,
    `${count(window.statements)} statements`,
    window.marks.join(", "),
    window.discarded ? "discarded" : "",
    window.note ?? "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** Four significant digits or all whole ones. */
function precise(value: number): string {
  return plain(value, value >= 1000 ? 0 : value >= 100 ? 1 : 2);
}

function describe(what: string, unit: string, values: number[], report: LabReport): string {
  // No spread into arguments: a night of windows is more than a call can take.
  const low = count(values.reduce((least, value) => Math.min(least, value), Infinity));
  const high = count(values.reduce((most, value) => Math.max(most, value), 0));
  return (
    `${what} of ${report.windows.length} windows over ${seconds(report.duration_s)}, ` +
    `between ${low} and ${high} ${unit}.`
  );
}
