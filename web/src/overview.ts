// Every cell at a glance: a row a cell, a panel an arm, the primary outcome with its interval.

import { PAGE, h, onWidth, section, svg } from "./dom";
import { OUTCOMES, mark } from "./forest";
import { percent, signed } from "./format";
import type { Arm, Primary, Ratio } from "./lab";
import { armColours } from "./palette";
import { type Scale, position, scaleWithZero } from "./scale";
import { type StudyCell, type StudyReport, allArms, cellTitle } from "./study";
import { cellAnchor } from "./study-tables";

const ROW = 21;
const HEAD = 24;
const FOOT = 24;
const GAP = 26;
const PANEL_MIN = 150;
const LABELS = 200;
const NARROW = 640;
/** Cells stand in a little from the heading of their part. */
const INDENT = 10;

/** Null when there is nothing to lay side by side. */
export function overview(study: StudyReport): HTMLElement | null {
  const measured = study.cells.filter((cell) =>
    cell.arms.some((arm) => OUTCOMES[cell.primary].value(arm)),
  );
  if (study.cells.length < 2 || measured.length === 0) return null;
  const primaries = [...new Set(measured.map(({ primary }) => primary))];
  const charts = primaries.flatMap((primary) => {
    const cells = study.cells.filter((cell) => cell.primary === primary);
    const chart = h("div", { class: "chart forest" });
    onWidth(chart, (width) => chart.replaceChildren(...draw(study, cells, primary, width)));
    return [h("p", { class: "chart-title" }, OUTCOMES[primary].title), chart];
  });
  return section(
    PAGE,
    "overview",
    "Every cell at a glance",
    ...charts,
    h(
      "p",
      { class: "caption" },
      "Change against the base of each cell, estimate and 95% interval. Filled: costs or saves. " +
        "Open: no difference within the margin (the band). Dashed: not enough evidence, or not " +
        "claimed because the cell's A/A check failed. The same scale in every panel.",
    ),
  );
}

interface Panel {
  arm: Arm;
  left: number;
  width: number;
}

function draw(
  study: StudyReport,
  cells: StudyCell[],
  primary: Primary,
  width: number,
): SVGElement[] {
  const { arms } = allArms({ ...study, cells });
  const shown = arms.filter((arm) => cells.some((cell) => ratioOf(cell, arm.name, primary)));
  const narrow = width < NARROW;
  const labels = narrow ? 118 : LABELS;
  const most = Math.max(1, Math.floor((width - labels + GAP) / (PANEL_MIN + GAP)));
  const scale = scaleOf(cells, primary, narrow ? 3 : 4);
  const drawings: SVGElement[] = [];
  for (let from = 0; from < shown.length; from += most) {
    const row = shown.slice(from, from + most);
    const unit =
      (width - labels - GAP * (Math.min(most, shown.length) - 1)) / Math.min(most, shown.length);
    const panels = row.map((arm, index) => ({
      arm,
      left: labels + index * (unit + GAP),
      width: unit,
    }));
    drawings.push(block(study, cells, primary, { width, labels, panels, scale }));
  }
  return drawings;
}

interface Block {
  width: number;
  labels: number;
  panels: Panel[];
  scale: Scale;
}

function block(
  study: StudyReport,
  cells: StudyCell[],
  primary: Primary,
  { width, labels, panels, scale }: Block,
): SVGElement {
  const rows = rowsOf(cells);
  const bottom = HEAD + rows.length * ROW;
  const height = bottom + FOOT;
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    svg("title", {}, describe(cells, panels, primary)),
  );
  rows.forEach((row, index) => {
    const y = HEAD + index * ROW;
    root.append(
      svg("line", { x1: 0, x2: width, y1: y, y2: y, class: row.cell ? "rule" : "part" }),
      row.cell
        ? label(row.cell, labels, y)
        : svg("text", { x: 0, y: y + ROW / 2 + 4, class: "row strong" }, row.part),
    );
  });
  const colours = armColours(allArms(study));
  for (const panel of panels) {
    root.append(...panelMarks(rows, primary, panel, scale, colours.get(panel.arm.name)));
  }
  return root;
}

/** A row of the chart: a cell, or the heading of a part. */
interface Row {
  part: string;
  cell: StudyCell | null;
}

function rowsOf(cells: StudyCell[]): Row[] {
  return cells.flatMap((cell, index) => {
    const row = { part: cell.part, cell };
    const begins = cell.part !== "" && cell.part !== cells[index - 1]?.part;
    return begins ? [{ part: cell.part, cell: null }, row] : [row];
  });
}

function label(cell: StudyCell, labels: number, top: number): SVGElement {
  const own = cell.title || cell.id;
  // About 6.4 px a character at this size; the whole title is in the link's own.
  const room = Math.floor((labels - INDENT) / 6.4);
  const text = own.length > room ? `${own.slice(0, room - 1)}…` : own;
  return svg(
    "a",
    { href: `#${cellAnchor(cell.id)}` },
    svg("text", { x: INDENT, y: top + ROW / 2 + 4, class: "row" }, text),
    svg("title", {}, cellTitle(cell)),
  );
}

function panelMarks(
  rows: Row[],
  primary: Primary,
  panel: Panel,
  scale: Scale,
  colour = "--arm-sky",
): SVGElement[] {
  const x = (value: number): number => panel.left + position(scale, value) * panel.width;
  const bottom = HEAD + rows.length * ROW;
  const parts = [svg("text", { x: panel.left, y: 14, class: "title" }, panel.arm.label)];
  rows.forEach(({ cell }, index) => {
    const margin = (cell?.margin ?? 0) * 100;
    if (!(margin > 0)) return;
    const [from, to] = [Math.max(-margin, scale.low), Math.min(margin, scale.high)];
    parts.push(
      svg("rect", {
        x: x(from),
        y: HEAD + index * ROW,
        width: Math.max(0, x(to) - x(from)),
        height: ROW,
        class: "margin",
      }),
    );
  });
  for (const tick of scale.ticks) {
    parts.push(
      svg("line", {
        x1: x(tick),
        x2: x(tick),
        y1: HEAD,
        y2: bottom,
        class: tick === 0 ? "zero" : "grid",
      }),
      svg(
        "text",
        { x: x(tick), y: bottom + 15, class: "tick", "text-anchor": "middle" },
        signed(tick, Number.isInteger(tick) ? 0 : 1),
      ),
    );
  }
  rows.forEach(({ cell }, index) => {
    if (!cell) return;
    const middle = HEAD + index * ROW + ROW / 2;
    const ratio = ratioOf(cell, panel.arm.name, primary);
    const arm = cell.arms.find(({ name }) => name === panel.arm.name);
    if (!ratio || !arm) return;
    const verdict = cell.aa_clean ? arm.verdict : "not-enough-evidence";
    const group = svg("g", {}, ...mark(ratio, x, middle, colour, verdict));
    group.append(svg("title", {}, `${cellTitle(cell)}, ${arm.label}: ${words(ratio)}`));
    parts.push(group);
  });
  return parts;
}

function ratioOf(cell: StudyCell, arm: string, primary: Primary): Ratio | null {
  const found = cell.arms.find(({ name }) => name === arm);
  return found ? OUTCOMES[primary].value(found) : null;
}

/** One scale for all panels. The widest intervals may run off it rather than flatten the rest. */
function scaleOf(cells: StudyCell[], primary: Primary, ticks: number): Scale {
  const ratios = cells.flatMap((cell) =>
    cell.arms.flatMap((arm) => OUTCOMES[primary].value(arm) ?? []),
  );
  return scaleWithZero(
    ratios.flatMap(({ low, high }) => [(low - 1) * 100, (high - 1) * 100]),
    ticks,
  );
}

function words(ratio: Ratio): string {
  return `${percent(ratio.estimate)}% (${percent(ratio.low)} to ${percent(ratio.high)})`;
}

function describe(cells: StudyCell[], panels: Panel[], primary: Primary): string {
  const sentences = panels.map(({ arm }) => {
    const list = cells.flatMap((cell) => {
      const ratio = ratioOf(cell, arm.name, primary);
      return ratio ? [`${cellTitle(cell)} ${words(ratio)}`] : [];
    });
    return `${arm.label}: ${list.join("; ")}.`;
  });
  return `${OUTCOMES[primary].title}. ${sentences.join(" ")}`;
}
