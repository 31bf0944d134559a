// The dose curves: cost over what rises, such as threads, an interval at every point, and the
// published points as open diamonds without one. Points of which no claim is made are hollow, and
// no line leads to them.

import { PAGE, h, onWidth, section, svg } from "./dom";
import { legend } from "./distributions";
import { decimals, signed } from "./format";
import { armColours } from "./palette";
import { type Scale, position, scaleWithZero } from "./scale";
import { type Curve, type CurvePoint, type StudyReport, allArms } from "./study";

const HEIGHT = 230;
const TOP = 10;
const BOTTOM = 36;
const LEFT = 44;
const RIGHT = 12;
/** Pixels between the points of two arms at the same place, so that intervals do not hide. */
const DODGE = 7;

/** Null when the study has no curves. */
export function curves(study: StudyReport): HTMLElement | null {
  const drawn = study.curves.filter((curve) => curve.points.some(isWhole));
  if (drawn.length === 0) return null;
  const all = allArms(study);
  const colours = armColours(all);
  const names = [...new Set(drawn.flatMap((curve) => curve.points.map(({ arm }) => arm)))];
  const others = ["--arm-blue", "--arm-green", "--arm-orange", "--arm-purple"];
  const colourOf = (arm: string): string =>
    colours.get(arm) ?? others[names.indexOf(arm) % others.length] ?? "--arm-sky";
  const label = (arm: string): string => all.arms.find(({ name }) => name === arm)?.label ?? arm;
  const charts = drawn.map((curve) => {
    const chart = h("div", { class: "chart forest" });
    onWidth(chart, (width) => chart.replaceChildren(draw(curve, width, names, colourOf, label)));
    return h("div", {}, h("p", { class: "chart-title" }, title(curve)), chart);
  });
  const key = legend(names.map((arm) => ({ name: label(arm), variable: colourOf(arm) })));
  if (drawn.some((curve) => curve.published.some(isWhole))) {
    key.append(
      h("li", {}, h("span", { class: "diamond", "aria-hidden": "true" }), "published, no interval"),
    );
  }
  if (drawn.some((curve) => curve.points.some((point) => isWhole(point) && point.unclaimed))) {
    const mark = h("span", { class: "hollow", "aria-hidden": "true" });
    key.append(h("li", {}, mark, "A/A not clean: no claim"));
  }
  return section(PAGE, "curves", "Dose curves", h("div", { class: "triple" }, ...charts), key);
}

function title(curve: Curve): string {
  const what = [curve.y_title, curve.unit].filter(Boolean).join(", ");
  return what === "" ? curve.title : `${curve.title}: ${what}`;
}

interface Whole extends CurvePoint {
  x: number;
  estimate: number;
}

function isWhole(point: CurvePoint): point is Whole {
  return point.x !== null && point.estimate !== null;
}

function draw(
  curve: Curve,
  width: number,
  names: string[],
  colourOf: (arm: string) => string,
  label: (arm: string) => string,
): SVGElement {
  const points = curve.points.filter(isWhole);
  const published = curve.published.filter(isWhole);
  const values = [
    ...points.flatMap(({ estimate, low, high }) => [low ?? estimate, high ?? estimate]),
    ...published.map(({ estimate }) => estimate),
  ];
  const y = scaleWithZero(values, 5);
  const at = across([...points, ...published], curve.x_log, width);
  const down = (value: number): number => TOP + (1 - position(y, value)) * (HEIGHT - TOP - BOTTOM);
  const root = svg(
    "svg",
    { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" },
    svg("title", {}, describe(curve, points, published, label)),
    ...frame(curve, y, at, down, width),
  );
  const present = names.filter((name) => points.some(({ arm }) => arm === name));
  present.forEach((name, index) => {
    const shift = (index - (present.length - 1) / 2) * DODGE;
    const own = points.filter(({ arm }) => arm === name).sort((a, b) => a.x - b.x);
    root.append(...series(curve, own, colourOf(name), (x) => at.x(x) + shift, down));
  });
  for (const point of published) {
    root.append(diamond(at.x(point.x), down(point.estimate), pointWords(curve, point, point.arm)));
  }
  return root;
}

interface Across {
  x: (value: number) => number;
  ticks: number[];
}

/** Where values stand along the bottom, and a tick at each that was measured. */
function across(points: Whole[], log: boolean, width: number): Across {
  const ticks = [...new Set(points.map(({ x }) => x))].sort((a, b) => a - b);
  const logarithmic = log && (ticks[0] ?? 0) > 0;
  const place = (x: number): number => (logarithmic ? Math.log2(x) : x);
  const low = place(ticks[0] ?? 0);
  const high = place(ticks[ticks.length - 1] ?? 1);
  const room = width - LEFT - RIGHT - 28;
  const x = (value: number): number =>
    LEFT + 14 + (high > low ? ((place(value) - low) / (high - low)) * room : room / 2);
  return { x, ticks };
}

function frame(
  curve: Curve,
  y: Scale,
  at: Across,
  down: (value: number) => number,
  width: number,
): SVGElement[] {
  const bottom = HEIGHT - BOTTOM;
  const rows = y.ticks.flatMap((tick) => [
    svg("line", {
      x1: LEFT,
      x2: width - RIGHT,
      y1: down(tick),
      y2: down(tick),
      class: tick === 0 ? "zero" : "grid",
    }),
    svg(
      "text",
      { x: LEFT - 6, y: down(tick) + 4, class: "tick", "text-anchor": "end" },
      `${signed(tick, Number.isInteger(tick) ? 0 : 1)}`,
    ),
  ]);
  let last = -Infinity;
  const columns = at.ticks.flatMap((tick) => {
    const x = at.x(tick);
    if (x - last < 22) return [];
    last = x;
    return [
      svg(
        "text",
        { x, y: bottom + 15, class: "tick", "text-anchor": "middle" },
        tick.toLocaleString("en-US"),
      ),
    ];
  });
  return [
    ...rows,
    ...columns,
    svg(
      "text",
      { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 5, class: "tick", "text-anchor": "middle" },
      curve.x_title,
    ),
  ];
}

function series(
  curve: Curve,
  points: Whole[],
  colour: string,
  x: (value: number) => number,
  down: (value: number) => number,
): SVGElement[] {
  const stroke = `stroke: var(${colour})`;
  const claimed = points.filter((point) => !point.unclaimed);
  const line = claimed.map((point) => `${x(point.x)},${down(point.estimate)}`).join(" ");
  return [
    svg("polyline", { points: line, class: "trend", style: stroke }),
    ...points.map((point) => {
      const [from, to] = [down(point.low ?? point.estimate), down(point.high ?? point.estimate)];
      const at = x(point.x);
      const ends = [from, to].map((end) =>
        svg("line", { x1: at - 3, x2: at + 3, y1: end, y2: end, class: "interval", style: stroke }),
      );
      return svg(
        "g",
        {},
        svg("line", { x1: at, x2: at, y1: from, y2: to, class: "interval", style: stroke }),
        ...ends,
        svg("circle", {
          cx: at,
          cy: down(point.estimate),
          r: 3.5,
          style: point.unclaimed ? `fill: var(--paper); ${stroke}` : `fill: var(${colour})`,
        }),
        svg("title", {}, pointWords(curve, point, point.arm)),
      );
    }),
  ];
}

function diamond(x: number, y: number, words: string): SVGElement {
  const path = `M ${x} ${y - 5} L ${x + 5} ${y} L ${x} ${y + 5} L ${x - 5} ${y} Z`;
  return svg("path", { d: path, class: "published" }, svg("title", {}, words));
}

function pointWords(curve: Curve, point: Whole, arm: string): string {
  const half = point.low === null || point.high === null ? 0 : (point.high - point.low) / 2;
  const digits = half > 0 ? decimals(half, 1) : 2;
  const interval =
    point.low === null || point.high === null
      ? "no interval"
      : `${signed(point.low, digits)} to ${signed(point.high, digits)}`;
  const estimate = `${signed(point.estimate, digits)} ${curve.unit}`;
  const claim = point.unclaimed ? "; A/A not clean, no claim" : "";
  return `${arm} at ${point.x} ${curve.x_title}: ${estimate} (${interval})${claim}`;
}

function describe(
  curve: Curve,
  points: Whole[],
  published: Whole[],
  label: (arm: string) => string,
): string {
  const ours = points.map((point) => pointWords(curve, point, label(point.arm)));
  const theirs = published.map((point) => `published: ${pointWords(curve, point, point.arm)}`);
  return `${curve.title}. ${curve.y_title}. ${[...ours, ...theirs].join("; ")}.`;
}
