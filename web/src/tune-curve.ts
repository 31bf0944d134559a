// The response curve of a stage: what each value came to, with its interval, the peak named. Where
// values are no numbers, or several variables were tuned, a place along the bottom for each.

import { h, onWidth, svg } from "./dom";
import { decimals, plain } from "./format";
import { roundStep } from "./scale";
import type { TuneConfiguration, TuneInterval, TuneReport, TuneStage } from "./tune";

const HEIGHT = 300;
const TOP = 26;
const BOTTOM = 44;
const LEFT = 64;
const RIGHT = 16;

interface Point {
  config: TuneConfiguration;
  level: TuneInterval;
}

/** Null when nothing has a level. */
export function responseCurve(stage: TuneStage, report: TuneReport): HTMLElement | null {
  const points = curvePoints(stage);
  if (points.length === 0) return null;
  const chart = h("div", { class: "chart forest" });
  onWidth(chart, (width) => chart.replaceChildren(draw(stage, report, points, width)));
  const title = `${report.objective.name}, ${report.objective.unit}, 95% for all together`;
  return h("div", {}, h("p", { class: "chart-title" }, title), chart);
}

/** What is drawn, from left to right: by the value where all are numbers, else as tried. */
export function curvePoints(stage: TuneStage): Point[] {
  const points = stage.configurations.flatMap((config) =>
    config.level === null ? [] : [{ config, level: config.level }],
  );
  if (isNumeric(points)) {
    points.sort((a, b) => (a.config.x ?? 0) - (b.config.x ?? 0));
  }
  return points;
}

function isNumeric(points: Point[]): boolean {
  return points.every(({ config }) => config.x !== null);
}

/** Where a value stands between 0 and 1: on a log scale where values span a factor of 16. */
export function placeOf(values: number[]): (value: number) => number {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (!(high > low)) return () => 0.5;
  const positive = values.filter((value) => value > 0);
  const least = Math.min(...positive);
  if (low >= 0 && high / least >= 16) {
    // Zero has no logarithm: it stands one step below the least.
    const zero = Math.log2(least) - 1;
    const from = low === 0 ? zero : Math.log2(least);
    const log = (value: number): number => (value > 0 ? Math.log2(value) : zero);
    return (value) => (log(value) - from) / (Math.log2(high) - from);
  }
  return (value) => (value - low) / (high - low);
}

function draw(
  stage: TuneStage,
  report: TuneReport,
  points: Point[],
  width: number,
): SVGElement {
  const room = width - LEFT - RIGHT - 28;
  const numbers = isNumeric(points);
  const place = placeOf(points.map(({ config }) => config.x ?? 0));
  const across = (point: Point, index: number): number => {
    const even = points.length > 1 ? index / (points.length - 1) : 0.5;
    return LEFT + 14 + (numbers ? place(point.config.x ?? 0) : even) * room;
  };
  const scale = scaleOf(points);
  const down = (value: number): number =>
    TOP + (1 - (value - scale.low) / (scale.high - scale.low)) * (HEIGHT - TOP - BOTTOM);
  const line = points.map(
    (point, index) => `${across(point, index)},${down(point.level.estimate)}`,
  );
  const root = svg(
    "svg",
    { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" },
    svg("title", {}, describe(stage, report, points)),
    ...rows(scale, down, width),
    ...columns(points, across),
    svg(
      "text",
      { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, class: "tick", "text-anchor": "middle" },
      stage.variables.join(", "),
    ),
  );
  if (numbers) {
    root.append(
      svg("polyline", { points: line.join(" "), class: "trend", style: "stroke: var(--arm-blue)" }),
    );
  }
  points.forEach((point, index) => {
    root.append(...mark(stage, report, point, across(point, index), down, width));
  });
  return root;
}

interface Rows {
  low: number;
  high: number;
  ticks: number[];
}

function scaleOf(points: Point[]): Rows {
  const ends = points.flatMap(({ level }) => [level.low, level.high]).filter(Number.isFinite);
  let [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  const step = roundStep((high - low) / 5);
  low -= (high - low) * 0.06;
  high += (high - low) * 0.06;
  const ticks: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return { low, high, ticks };
}

function rows(scale: Rows, down: (value: number) => number, width: number): SVGElement[] {
  return scale.ticks.flatMap((tick) => [
    svg("line", {
      x1: LEFT,
      x2: width - RIGHT,
      y1: down(tick),
      y2: down(tick),
      class: "grid",
    }),
    svg(
      "text",
      { x: LEFT - 6, y: down(tick) + 4, class: "tick", "text-anchor": "end" },
      tick.toLocaleString("en-US"),
    ),
  ]);
}

function columns(points: Point[], across: (point: Point, index: number) => number): SVGElement[] {
  let last = -Infinity;
  return points.flatMap((point, index) => {
    const x = across(point, index);
    const words = point.config.label.replace(" (present)", "");
    const half = 3.2 * words.length;
    if (x - half < last) return [];
    last = x + half + 6;
    return [
      svg("text", { x, y: HEIGHT - BOTTOM + 16, class: "tick", "text-anchor": "middle" }, words),
    ];
  });
}

function mark(
  stage: TuneStage,
  report: TuneReport,
  point: Point,
  x: number,
  down: (value: number) => number,
  width: number,
): SVGElement[] {
  const { config, level } = point;
  const isBest = stage.best === config.id;
  const isEqual = stage.equal_to_best.includes(config.id);
  const colour = isBest ? "--arm-green" : isEqual ? "--arm-sky" : "--arm-blue";
  const stroke = `stroke: var(${config.present ? "--arm-base" : colour})`;
  const ends = [level.low, level.high].map((end) =>
    svg("line", {
      x1: x - 4,
      x2: x + 4,
      y1: down(end),
      y2: down(end),
      class: "interval",
      style: stroke,
    }),
  );
  const group = svg(
    "g",
    {},
    svg("line", {
      x1: x,
      x2: x,
      y1: down(level.low),
      y2: down(level.high),
      class: "interval",
      style: stroke,
    }),
    ...ends,
    svg("circle", {
      cx: x,
      cy: down(level.estimate),
      r: isBest ? 5 : 3.5,
      style: `fill: var(${config.present && !isBest ? "--arm-base" : colour})`,
    }),
    svg("title", {}, words(config, level, report)),
  );
  if (!isBest) return [group];
  const peak = `peak: ${config.label}`;
  const half = 3.4 * peak.length;
  const middle = Math.min(Math.max(x, half), width - half);
  return [
    group,
    svg(
      "text",
      { x: middle, y: Math.max(12, down(level.high) - 8), class: "tick", "text-anchor": "middle" },
      peak,
    ),
  ];
}

function words(config: TuneConfiguration, level: TuneInterval, report: TuneReport): string {
  const digits = decimals((level.high - level.low) / 2, 1);
  const figure = (value: number): string => plain(value, digits);
  return (
    `${config.label}: ${figure(level.estimate)} ${report.objective.unit} ` +
    `(${figure(level.low)} to ${figure(level.high)}), ${config.blocks} blocks`
  );
}

function describe(stage: TuneStage, report: TuneReport, points: Point[]): string {
  const all = points.map(({ config, level }) => words(config, level, report));
  return `${stage.name}: ${report.objective.name}. ${stage.answer} ${all.join("; ")}.`;
}
