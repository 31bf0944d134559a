// The table: one row an arm, every figure with its interval. On a narrow screen each row becomes a
// card of labelled figures; the roles keep it a table for assistive technology.

import { h, section } from "./dom";
import { ABSENT, bytes, count, decimals, percent, plain, signed } from "./format";
import type { Arm, Difference, LabReport, Ratio, Verdict } from "./lab";
import { armColours } from "./palette";

const VERDICTS: Record<Verdict, string> = {
  costs: "costs",
  saves: "saves",
  "no-difference": "no difference",
  "not-enough-evidence": "not enough evidence",
};

interface Column {
  group: string;
  title: string;
  unit: string;
  /** The whole name in a few words, for a card. */
  card: string;
  cell: (arm: Arm) => Node | string;
}

const COLUMNS: Column[] = [
  {
    group: "Server CPU per statement",
    title: "base",
    unit: "µs",
    card: "CPU base, µs",
    cell: (arm) => (arm.cpu_us_per_statement ? plain(arm.cpu_us_per_statement.base, 2) : ABSENT),
  },
  {
    group: "Server CPU per statement",
    title: "difference",
    unit: "µs, 95% CI",
    card: "CPU difference, µs",
    cell: (arm) => estimate(arm.cpu_us_per_statement),
  },
  {
    group: "Server CPU per statement",
    title: "change",
    unit: "%, 95% CI",
    card: "CPU change, %",
    cell: (arm) => change(arm.cpu_ratio),
  },
  {
    group: "Throughput",
    title: "change",
    unit: "%, 95% CI",
    card: "throughput, %",
    cell: (arm) => change(arm.qps_ratio),
  },
  {
    group: "Latency difference",
    title: "p50",
    unit: "µs, 95% CI",
    card: "p50, µs",
    cell: (arm) => estimate(arm.latency_us.p50),
  },
  {
    group: "Latency difference",
    title: "p95",
    unit: "µs, 95% CI",
    card: "p95, µs",
    cell: (arm) => estimate(arm.latency_us.p95),
  },
  {
    group: "Latency difference",
    title: "p99",
    unit: "µs, 95% CI",
    card: "p99, µs",
    cell: (arm) => estimate(arm.latency_us.p99),
  },
  {
    group: "The tool itself",
    title: "CPU",
    unit: "µs per stmt",
    card: "tool CPU, µs/stmt",
    cell: toolCpu,
  },
  { group: "The tool itself", title: "RSS", unit: "MiB", card: "tool RSS, MiB", cell: toolMemory },
  { group: "Statements", title: "executed", unit: "captured", card: "executed", cell: statements },
  { group: "Statements", title: "lost", unit: "", card: "lost", cell: lost },
];

export function armTable(report: LabReport): HTMLElement {
  const colours = armColours(report);
  const table = h(
    "table",
    { class: "arms", role: "table" },
    h(
      "caption",
      {},
      `Each arm against “${report.base.label}”, over pairs of neighbouring windows. ` +
        "Intervals are 95% confidence intervals; second lines give them.",
    ),
    head(),
    h(
      "tbody",
      { role: "rowgroup" },
      ...report.arms.map((arm) => row(arm, report, colours.get(arm.name) ?? "--arm-sky")),
    ),
  );
  return section(
    "arms",
    "Cost of each arm",
    h("div", { class: "scroll" }, table),
    ...armNotes(report),
  );
}

function head(): HTMLElement {
  const groups: HTMLElement[] = [];
  for (let index = 0; index < COLUMNS.length;) {
    const group = COLUMNS[index]?.group ?? "";
    const span = COLUMNS.filter((column) => column.group === group).length;
    groups.push(
      h(
        "th",
        { role: "columnheader", scope: "colgroup", colspan: span, class: "group" },
        h("span", {}, group),
      ),
    );
    index += span;
  }
  return h(
    "thead",
    { role: "rowgroup" },
    h(
      "tr",
      { role: "row" },
      h("th", { role: "columnheader", scope: "col", rowspan: 2, class: "name" }, "arm"),
      ...groups,
    ),
    h(
      "tr",
      { role: "row" },
      ...COLUMNS.map((column, index) =>
        h(
          "th",
          { role: "columnheader", scope: "col", class: first(index) },
          column.title,
          h("small", {}, column.unit),
        ),
      ),
    ),
  );
}

/** Class of the first column of a group, which stands a little apart. */
function first(index: number): string | null {
  return COLUMNS[index]?.group === COLUMNS[index - 1]?.group ? null : "first";
}

function row(arm: Arm, report: LabReport, colour: string): HTMLElement {
  const verdict = report.aa_clean ? VERDICTS[arm.verdict] : "not claimed";
  const kind = arm.kind === "server-lives" ? "pairs of server lives" : "pairs of windows";
  const name = h(
    "th",
    { role: "rowheader", scope: "row", class: "name" },
    h("span", { class: "swatch", style: `background: var(${colour})`, "aria-hidden": "true" }),
    h("span", { class: "label" }, arm.label),
    h(
      "small",
      {},
      h("span", { class: `verdict ${report.aa_clean ? arm.verdict : "unclaimed"}` }, verdict),
      ` · ${count(arm.windows)} ${kind}`,
    ),
  );
  return h(
    "tr",
    { role: "row", "data-arm": arm.name, class: arm.name === report.subject ? "subject" : null },
    name,
    ...COLUMNS.map((column, index) => cell(arm, column, index)),
  );
}

function cell(arm: Arm, column: Column, index: number): HTMLElement {
  const content = column.cell(arm);
  const classes = [first(index), content === ABSENT ? "absent" : null].filter(
    (name) => name !== null,
  );
  return h(
    "td",
    {
      role: "cell",
      class: classes.join(" ") || null,
      "data-label": column.card,
      "data-group": column.group,
    },
    content,
  );
}

function estimate(d: Difference | null): Node | string {
  if (!d) return ABSENT;
  const digits = decimals((d.high - d.low) / 2, 1);
  return interval(signed(d.delta, digits), signed(d.low, digits), signed(d.high, digits));
}

function change(ratio: Ratio | null): Node | string {
  if (!ratio) return ABSENT;
  return interval(percent(ratio.estimate), percent(ratio.low), percent(ratio.high));
}

function interval(value: string, low: string, high: string): Node {
  return h("span", { class: "figure" }, value, h("small", {}, `${low} to ${high}`));
}

function toolCpu(arm: Arm): Node | string {
  return arm.tool ? plain(arm.tool.cpu_us_per_statement, 2) : ABSENT;
}

function toolMemory(arm: Arm): Node | string {
  return arm.tool ? plain(arm.tool.rss_bytes / 1048576, 1) : ABSENT;
}

function statements(arm: Arm): Node {
  const captured =
    arm.captured === null
      ? "not captured"
      : arm.captured === arm.executed
        ? "all captured"
        : `${count(arm.captured)} captured`;
  return h("span", { class: "figure" }, count(arm.executed), h("small", {}, captured));
}

function lost(arm: Arm): string {
  if (arm.captured === null) return ABSENT;
  return count(Object.values(arm.lost).reduce((sum, n) => sum + n, 0));
}

function armNotes(report: LabReport): HTMLElement[] {
  const items: HTMLElement[] = [];
  for (const arm of report.arms) {
    const causes = Object.entries(arm.lost).filter(([, n]) => n > 0);
    for (const [cause, n] of causes) {
      items.push(h("li", {}, h("b", {}, arm.label), `: ${count(n)} statements lost: ${cause}`));
    }
    if (arm.note) items.push(h("li", {}, h("b", {}, arm.label), `: ${arm.note}`));
    if (arm.tool && arm.tool.rss_bytes > 0 && arm.name === report.subject) {
      items.push(
        h(
          "li",
          {},
          h("b", {}, arm.label),
          `: its own process used ${plain(arm.tool.cpu_s, 2)} s of CPU and ` +
            `${bytes(arm.tool.rss_bytes)} ` +
            "of memory (largest resident set)",
        ),
      );
    }
  }
  return items.length > 0 ? [h("ul", { class: "notes" }, ...items)] : [];
}
