// The chart of the intervals: a row an arm, a panel an outcome, zero and the margin marked.

import { type Place, h, onWidth, section, svg } from "./dom";
import { percent, signed } from "./format";
import type { Arm, Difference, LabReport, Primary, Ratio } from "./lab";
import { armColours } from "./palette";
import { type Scale, position, scaleWithZero } from "./scale";

interface Panel {
  outcome: Primary;
  title: string;
  value: (arm: Arm) => Ratio | null;
  margin: number | null;
}

interface Box {
  left: number;
  width: number;
}

const ROW = 30;
const HEAD = 26;
const FOOT = 26;
/** Room for an estimate and its interval beside the marks. */
const FIGURES = 165;
/** Below this width, panels stand under each other and labels above their rows. */
const NARROW = 720;

/** An outcome of an arm as a ratio to the base. */
export const OUTCOMES: Record<Primary, { title: string; value: (arm: Arm) => Ratio | null }> = {
  "server-cpu": { title: "Server CPU per statement, %", value: (arm) => arm.cpu_ratio },
  throughput: { title: "Throughput, %", value: (arm) => arm.qps_ratio },
  "latency-p99": { title: "p99 latency, %", value: (arm) => relative(arm.latency_us.p99) },
};

export function forest(report: LabReport, place: Place): HTMLElement {
  // The outcome that the verdicts are about stands first, and alone has the margin.
  const outcomes = (Object.keys(OUTCOMES) as Primary[]).sort(
    (a, b) => Number(b === report.primary) - Number(a === report.primary),
  );
  const panels: Panel[] = outcomes.map((outcome) => ({
    outcome,
    ...OUTCOMES[outcome],
    margin: outcome === report.primary ? report.margin : null,
  }));
  const shown = panels.filter((panel) => report.arms.some((arm) => panel.value(arm)));
  if (shown.length === 0) {
    const none = "Too little was measured for an interval.";
    return section(place, "intervals", "Intervals", h("p", { class: "caption" }, none));
  }
  const chart = h("div", { class: "chart forest" });
  onWidth(chart, (width) =>
    chart.replaceChildren(
      ...(width < NARROW
        ? shown.map((panel) => draw(report, [panel], width, true))
        : [draw(report, shown, width, false)]),
    ),
  );
  return section(place, "intervals", "Intervals", chart, caption(report));
}

function caption(report: LabReport): HTMLElement {
  return h(
    "p",
    { class: "caption" },
    `Change against “${report.base.label}”, estimate and 95% interval. The line is no change; the `,
    `band is the margin of ±${Number((report.margin * 100).toFixed(2))}% within which arms are `,
    "called equal. ",
    "Filled: costs or saves. Open: no difference. Dashed: not enough evidence.",
  );
}

function relative(d: Difference | null): Ratio | null {
  if (!d || !(d.base > 0)) return null;
  return { estimate: 1 + d.delta / d.base, low: 1 + d.low / d.base, high: 1 + d.high / d.base };
}

function draw(report: LabReport, panels: Panel[], width: number, narrow: boolean): SVGElement {
  const rowHeight = narrow ? ROW + 14 : ROW;
  const height = HEAD + report.arms.length * rowHeight + FOOT;
  const labels = narrow ? 0 : 170;
  const gap = narrow ? 0 : 36;
  // The primary outcome has its figures beside it, and so more room.
  const share = narrow ? [1] : panels.map((_, index) => (index === 0 ? 2 : 1));
  const unit = (width - labels - gap * (panels.length - 1)) / share.reduce((a, b) => a + b, 0);
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    svg("title", {}, describe(report, panels)),
  );
  report.arms.forEach((arm, index) => {
    const top = HEAD + index * rowHeight;
    root.append(rule(0, width, top), label(arm, 0, narrow ? top + 12 : top + ROW / 2));
  });
  let left = labels;
  panels.forEach((panel, index) => {
    const box = { left, width: unit * (share[index] ?? 1) };
    const figures = narrow ? "above" : index === 0 ? "beside" : "none";
    root.append(...drawPanel(report, panel, box, rowHeight, figures));
    left += box.width + gap;
  });
  return root;
}

/** Where the figures of a panel stand: in the label's line, in their own column, or nowhere. */
type Figures = "above" | "beside" | "none";

function drawPanel(
  report: LabReport,
  panel: Panel,
  box: Box,
  rowHeight: number,
  figures: Figures,
): SVGElement[] {
  const bottom = HEAD + report.arms.length * rowHeight;
  const values = report.arms.flatMap((arm) => {
    const ratio = panel.value(arm);
    return ratio ? [(ratio.low - 1) * 100, (ratio.high - 1) * 100] : [];
  });
  const margin = panel.margin === null ? null : panel.margin * 100;
  if (margin !== null) values.push(-margin, margin);
  const axis = {
    left: box.left,
    width: Math.max(80, box.width - (figures === "beside" ? FIGURES : 0)),
  };
  const scale = scaleWithZero(values, Math.max(2, axis.width / 72));
  const x = (value: number): number => axis.left + position(scale, value) * axis.width;
  const parts = [svg("text", { x: box.left, y: 14, class: "title" }, panel.title)];
  // Where words stand above the marks, lines keep out of the words.
  const spans: Span[] =
    figures === "above"
      ? report.arms.map((_, index) => [
          HEAD + index * rowHeight + 19,
          HEAD + (index + 1) * rowHeight - 3,
        ])
      : [[HEAD, bottom]];
  if (margin !== null) {
    parts.push(
      ...spans.map(([top, end]) =>
        svg("rect", {
          x: x(-margin),
          y: top,
          width: x(margin) - x(-margin),
          height: end - top,
          class: "margin",
        }),
      ),
    );
  }
  parts.push(...ticks(scale, x, spans));
  report.arms.forEach((arm, index) => {
    const top = HEAD + index * rowHeight;
    const middle = figures === "above" ? top + 30 : top + ROW / 2;
    const ratio = panel.value(arm);
    const colour = armColours(report).get(arm.name) ?? "--arm-sky";
    const verdict = report.aa_clean ? arm.verdict : "not-enough-evidence";
    if (ratio)
      parts.push(...mark(ratio, x, middle, colour, panel.margin === null ? "plain" : verdict));
    if (figures !== "none" || !ratio) {
      parts.push(figure(ratio, box.left + box.width, figures === "above" ? top + 12 : middle));
    }
  });
  return parts;
}

type Span = [top: number, end: number];

function ticks(scale: Scale, x: (value: number) => number, spans: Span[]): SVGElement[] {
  const bottom = spans[spans.length - 1]?.[1] ?? HEAD;
  return scale.ticks.flatMap((tick) => [
    ...spans.map(([top, end]) =>
      svg("line", {
        x1: x(tick),
        x2: x(tick),
        y1: top,
        y2: end,
        class: tick === 0 ? "zero" : "grid",
      }),
    ),
    svg(
      "text",
      { x: x(tick), y: bottom + 16, class: "tick", "text-anchor": "middle" },
      signed(tick, Number.isInteger(tick) ? 0 : 1),
    ),
  ]);
}

/** An interval with its estimate: open or dashed where the verdict is not a difference. */
export function mark(
  ratio: Ratio,
  x: (value: number) => number,
  y: number,
  colour: string,
  verdict: string,
): SVGElement[] {
  const [low, estimate, high] = [ratio.low, ratio.estimate, ratio.high].map((value) =>
    x((value - 1) * 100),
  );
  if (low === undefined || estimate === undefined || high === undefined) return [];
  const stroke = `stroke: var(${colour})`;
  const ends = [low, high].map((end) =>
    svg("line", { x1: end, x2: end, y1: y - 4, y2: y + 4, class: "interval", style: stroke }),
  );
  const dash = verdict === "not-enough-evidence" ? " unsure" : "";
  const open = verdict === "no-difference" || dash !== "";
  return [
    svg("line", { x1: low, x2: high, y1: y, y2: y, class: `interval${dash}`, style: stroke }),
    ...ends,
    svg("circle", {
      cx: estimate,
      cy: y,
      r: 4,
      class: "estimate",
      style: `${stroke}; fill: ${open ? "var(--paper)" : `var(${colour})`}`,
    }),
  ];
}

function figure(ratio: Ratio | null, right: number, y: number): SVGElement {
  const text = svg("text", { x: right, y: y + 4, class: "value", "text-anchor": "end" });
  if (!ratio) {
    text.append("not measured");
    return text;
  }
  text.append(
    svg("tspan", { class: "strong" }, percent(ratio.estimate)),
    ` ${percent(ratio.low)} to ${percent(ratio.high)}`,
  );
  return text;
}

function label(arm: Arm, x: number, y: number): SVGElement {
  return svg("text", { x, y: y + 4, class: "label" }, arm.label);
}

function rule(left: number, right: number, y: number): SVGElement {
  return svg("line", { x1: left, x2: right, y1: y, y2: y, class: "rule" });
}

function describe(report: LabReport, panels: Panel[]): string {
  const sentences = panels.map((panel) => {
    const arms = report.arms.map((arm) => {
      const ratio = panel.value(arm);
      if (!ratio) return `${arm.label} not measured`;
      const interval = `${percent(ratio.low)} to ${percent(ratio.high)}`;
      return `${arm.label} ${percent(ratio.estimate)} (${interval})`;
    });
    return `${panel.title}: ${arms.join("; ")}.`;
  });
  return `Intervals against ${report.base.label}. ${sentences.join(" ")}`;
}
