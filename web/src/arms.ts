// The table of arms: one row an arm, every figure with its interval.

import { type Place, h, section } from "./dom";
import { ABSENT, bytes, count, plain } from "./format";
import type { Arm, LabReport, Verdict } from "./lab";
import { armColours } from "./palette";
import { type Column, change, estimate, figuresTable } from "./table";

export const VERDICTS: Record<Verdict, string> = {
  costs: "costs",
  saves: "saves",
  "no-difference": "no difference",
  "not-enough-evidence": "not enough evidence",
};

interface ArmColumn extends Column {
  cell: (arm: Arm) => Node | string;
}

const COLUMNS: ArmColumn[] = [
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

export function armTable(report: LabReport, place: Place): HTMLElement {
  const colours = armColours(report);
  const columns = COLUMNS.filter(({ cell }) => report.arms.some((arm) => cell(arm) !== ABSENT));
  const table = figuresTable({
    name: "arms",
    caption:
      `Each arm against “${report.base.label}”, over pairs of neighbouring windows. ` +
      "Intervals are 95% confidence intervals; second lines give them.",
    rowTitle: "arm",
    columns,
    rows: report.arms.map((arm) => ({
      label: armName(arm, report, colours.get(arm.name) ?? "--arm-sky"),
      values: columns.map((column) => column.cell(arm)),
      attributes: {
        "data-arm": arm.name,
        class: arm.name === report.subject ? "subject" : null,
      },
    })),
    place: h("div", { class: "scroll" }),
  });
  return section(place, "arms", "Cost of each arm", table, ...armNotes(report));
}

function armName(arm: Arm, report: LabReport, colour: string): HTMLElement[] {
  const verdict = report.aa_clean ? VERDICTS[arm.verdict] : "not claimed";
  const kind = arm.kind === "server-lives" ? "pairs of server lives" : "pairs of windows";
  return [
    h("span", { class: "swatch", style: `background: var(${colour})`, "aria-hidden": "true" }),
    h("span", { class: "label" }, arm.label),
    h(
      "small",
      {},
      h("span", { class: `verdict ${report.aa_clean ? arm.verdict : "unclaimed"}` }, verdict),
      ` · ${count(arm.windows)} ${kind}`,
    ),
  ];
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
