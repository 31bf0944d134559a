// The timeline: every window as a bar at its value, coloured by arm, above a lane for each arm, so
// that drift of the machine is seen beside the difference between arms.

import uPlot from "uplot";

import { AXIS, axis, keepChart } from "./charts";
import { h, section } from "./dom";
import { count, plain, seconds } from "./format";
import type { LabReport, LabWindow } from "./lab";
import { armColours, colour } from "./palette";

interface Lane {
  name: string;
  colour: string;
}

export function timeline(report: LabReport): HTMLElement | string {
  const windows = report.windows;
  if (windows.length === 0)
    return section("timeline", "Timeline", h("p", {}, "No windows were recorded."));
  const lanes = [...armColours(report)].map(([name, variable]) => ({ name, colour: variable }));
  const readout = h("p", { class: "readout", "aria-live": "off" }, hint(windows));
  const throughput = chartPlace(
    describe(
      "Throughput",
      "queries a second",
      windows.map((w) => w.qps),
      report,
    ),
  );
  const cpu = chartPlace(
    describe(
      "Server CPU",
      "µs per statement",
      windows.flatMap((w) => w.server_cpu_us_per_statement ?? []),
      report,
    ),
  );
  const strip = chartPlace(`Which of ${lanes.length} arms was on in each window.`);
  const show = (index: number | null | undefined): void => {
    const window = typeof index === "number" ? windows[index] : undefined;
    readout.textContent = window ? sentence(window) : hint(windows);
  };
  const shared = { report, lanes, show };
  keepChart(throughput, (width) => values(shared, width, (w) => w.qps, thousands));
  keepChart(cpu, (width) =>
    values(
      shared,
      width,
      (w) => w.server_cpu_us_per_statement,
      (v) => String(v),
    ),
  );
  keepChart(strip, (width) => arms(shared, width));
  return section(
    "timeline",
    "Timeline",
    h("h3", {}, "Throughput, queries/s"),
    throughput,
    h("h3", {}, "Server CPU per statement, µs"),
    cpu,
    h("h3", {}, "Arm"),
    strip,
    readout,
  );
}

interface Shared {
  report: LabReport;
  lanes: Lane[];
  show: (index: number | null | undefined) => void;
}

function chartPlace(alt: string): HTMLElement {
  return h("div", { class: "chart", role: "img", "aria-label": alt });
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
      axis({ scale: "y", size: AXIS, values: (_, ticks) => ticks.map(label), space: 34 }),
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
        size: AXIS,
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
  return new uPlot(
    {
      width,
      height,
      padding: [8, 6, 4, 0],
      legend: { show: false },
      cursor: {
        sync: { key: "timeline", scales: ["x", null] },
        points: { show: false },
        y: false,
        drag: { x: true, y: false },
      },
      scales: {
        x: {
          time: false,
          range: (_, min, max) => (whole(data[0], min, max) ? [0, end] : [min, max]),
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
  const used = windows.length - discarded;
  return (
    `${count(used)} windows used, ${count(discarded)} discarded (thin grey). ` +
    "Point at a window to read it, drag to zoom, double-click to see all."
  );
}

function sentence(window: LabWindow): string {
  const cpu = window.server_cpu_us_per_statement;
  return [
    `${plain(window.t_s, 1)} to ${plain(window.t_s + window.duration_s, 1)} s`,
    window.arm,
    `${count(window.qps)} queries/s`,
    cpu === null ? "CPU not measured" : `${plain(cpu, 2)} µs of server CPU per statement`,
    `${count(window.statements)} statements`,
    window.discarded ? "discarded" : "",
    window.note ?? "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

function describe(what: string, unit: string, values: number[], report: LabReport): string {
  const low = count(Math.min(...values));
  const high = count(Math.max(...values));
  return (
    `${what} of ${report.windows.length} windows over ${seconds(report.duration_s)}, ` +
    `between ${low} and ${high} ${unit}.`
  );
}
