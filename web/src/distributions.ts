// Latency distributions: the bulk as shares of logarithmic bins, the tail as the fraction above.

import uPlot from "uplot";

import { axis, chartPlace, keepChart } from "./charts";
import { type Place, h, section } from "./dom";
import { latency } from "./format";
import { type Buckets, logBins, quantile, shares, tail } from "./histogram";
import type { LabReport } from "./lab";
import { armColours, colour } from "./palette";

const PER_DECADE = 24;
const HEIGHT = 260;

interface Named {
  name: string;
  variable: string;
  buckets: Buckets;
}

/** Latency of every arm of a report. */
export function distributions(report: LabReport, place: Place): HTMLElement {
  const arms = [...armColours(report)]
    .map(([name, variable]) => ({ name, variable, buckets: report.histograms[name] ?? [] }))
    .filter(({ buckets }) => buckets.length > 0);
  const title = `Latency of a ${report.latency_of || "statement"}`;
  return arms.length === 0
    ? section(place, "latency", title, h("p", {}, "No latencies were recorded."))
    : section(place, "latency", title, ...density(arms, `${report.latency_of || "statement"}s`));
}

/** The two charts and their legend: where the bulk lies, and how far the tail reaches. */
export function density(arms: Named[], what: string): HTMLElement[] {
  const bins = logBins(
    arms.map(({ buckets }) => buckets),
    PER_DECADE,
  );
  const variables = arms.map(({ variable }) => variable);
  const bulk = arms.map(({ buckets }) =>
    shares(buckets, bins).map((share) => (share > 0 ? share * 100 : null)),
  );
  const tails = arms.map(({ buckets }) => tail(buckets, bins));
  const quantiles = arms
    .map(({ name, buckets }) => `${name} p50 ${at(buckets, 0.5)}, p99 ${at(buckets, 0.99)}`)
    .join("; ");
  const whole: uPlot.Range.MinMax = [bins[0] ?? 1, bins[bins.length - 1] ?? 10];
  const left = chartPlace(`Share of ${what} by latency: ${quantiles}.`);
  const right = chartPlace(`Fraction of ${what} slower than a latency: ${quantiles}.`);
  const range = bulkRange(
    arms.map(({ buckets }) => buckets),
    whole,
  );
  keepChart(left, (width) =>
    lines(width, [bins, ...bulk], variables, range, {
      scale: { range: (_, __, max) => [0, (max ?? 1) * 1.05] },
      label: (share) => `${share}%`,
      room: 52,
    }),
  );
  keepChart(right, (width) =>
    lines(width, [bins, ...tails], variables, whole, {
      scale: { distr: 3, log: 10, range: tailRange },
      splits: powers,
      label: quantileName,
      room: 72,
    }),
  );
  const titled = (title: string, chart: HTMLElement): HTMLElement =>
    h("div", {}, h("p", { class: "chart-title" }, title), chart);
  return [
    h(
      "div",
      { class: "pair" },
      titled(`Share of ${what}, per bin of a 24th of a decade`, left),
      titled("Fraction slower than", right),
    ),
    legend(arms),
  ];
}

function at(buckets: Buckets, q: number): string {
  const us = quantile(buckets, q);
  return us === null ? "not measured" : latency(us);
}

interface Upright {
  scale: uPlot.Scale;
  splits?: (chart: uPlot, axis: number, min: number, max: number) => number[];
  label: (value: number) => string;
  /** Room for the labels, px. */
  room: number;
}

function lines(
  width: number,
  data: (number | null)[][],
  variables: string[],
  x: uPlot.Range.MinMax,
  y: Upright,
): uPlot {
  return new uPlot(
    {
      width,
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, distr: 3, log: 10, range: () => x }, y: y.scale },
      axes: [
        axis({
          size: 30,
          splits: (_, __, min, max) => oneTwoFive(min, max, width),
          filter: (_, ticks) => ticks,
          values: (_, ticks) => ticks.map(latency),
        }),
        axis({
          size: y.room,
          space: 30,
          filter: (_, ticks) => ticks,
          ...(y.splits ? { splits: y.splits } : {}),
          values: (_, ticks) => ticks.map(y.label),
        }),
      ],
      series: [
        {},
        ...variables.map((variable) => ({
          stroke: colour(variable),
          width: variable === "--arm-blue" ? 2 : 1.25,
          dash: variable === "--arm-again" ? [4, 3] : [],
          points: { show: false },
          spanGaps: false,
        })),
      ],
    },
    data as unknown as uPlot.AlignedData,
  );
}

/** The part of the axis that holds all but the last thousandths of every arm. */
function bulkRange(histograms: Buckets[], whole: uPlot.Range.MinMax): uPlot.Range.MinMax {
  const low = Math.min(...histograms.map((buckets) => quantile(buckets, 0.0005) ?? Infinity));
  const high = Math.max(...histograms.map((buckets) => quantile(buckets, 0.997) ?? 0));
  return low < high ? [low * 0.9, high * 1.1] : whole;
}

function tailRange(_: uPlot, min: number | null): [number, number] {
  const floor = min !== null && min > 0 ? Math.floor(Math.log10(min) + 1e-9) : -4;
  return [10 ** Math.max(floor, -7), 1];
}

function powers(_: uPlot, __: number, min: number, max: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.round(Math.log10(min)); 10 ** power <= max * 1.000001; power += 1)
    ticks.push(10 ** power);
  return ticks;
}

/** Ticks at 1, 2 and 5 of each decade, or at 1 alone where they would crowd. */
function oneTwoFive(min: number, max: number, width: number): number[] {
  const room = width / Math.max(1, Math.log10(max / min));
  const factors = room > 190 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power += 1) {
    ticks.push(
      ...factors.map((factor) => factor * 10 ** power).filter((tick) => tick >= min && tick <= max),
    );
  }
  return ticks;
}

/** A fraction above as the quantile it is the complement of. */
function quantileName(fraction: number): string {
  const exponent = Math.log10(fraction);
  if (Math.abs(exponent - Math.round(exponent)) > 1e-6) return "";
  const nines = -Math.round(exponent);
  if (nines === 0) return "all";
  if (nines === 1) return "p90";
  return nines === 2 ? "p99" : `p99.${"9".repeat(nines - 2)}`;
}

/** Lines of colour with the names of what they stand for. */
export function legend(arms: { name: string; variable: string }[]): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    ...arms.map(({ name, variable }) =>
      h(
        "li",
        {},
        h("span", {
          class: `line${variable === "--arm-again" ? " dashed" : ""}`,
          style: `border-color: var(${variable})`,
          "aria-hidden": "true",
        }),
        name,
      ),
    ),
  );
}
