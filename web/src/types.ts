// Statements of each type apart: what an arm costs ADD_LINK need not be what it costs a read.

import { density } from "./distributions";
import { type Place, h, section } from "./dom";
import { count } from "./format";
import type { Difference, LabReport, Ratio, TypeReport } from "./lab";
import { armColours } from "./palette";
import { type Column, change, estimate, figuresTable } from "./table";
import { typeTimeline } from "./timeline";

/** A section for each type of statement; none where the workload names no types. */
export function statementTypes(report: LabReport, place: Place): HTMLElement[] {
  return report.types.map((type, index) => {
    const own = { ...place, prefix: `${place.prefix}type${index}-` };
    const timed = report.windows.some((window) => window.types[type.name]);
    const colours = armColours(report);
    const histograms = [...colours]
      .map(([name, variable]) => ({ name, variable, buckets: type.histograms[name] ?? [] }))
      .filter(({ buckets }) => buckets.length > 0);
    return section(
      own,
      "type",
      type.name,
      table(report, type),
      ...(timed ? typeTimeline(report, own, type.name) : []),
      ...(histograms.length > 0 ? density(histograms, type.name) : []),
    );
  });
}

function table(report: LabReport, type: TypeReport): HTMLElement {
  const label = (arm: string): string => report.arms.find(({ name }) => name === arm)?.label ?? arm;
  const columns: Column[] = [
    { group: "", title: "executed", unit: "" },
    { group: "", title: "rate", unit: "%, 95% CI" },
    ...["mean", "p50", "p95", "p99"].map((title) => ({
      group: "Latency difference",
      title,
      unit: "%, 95% CI",
    })),
  ];
  return figuresTable({
    caption: `${type.name} under each arm, against “${report.base.label}”.`,
    rowTitle: "arm",
    columns,
    rows: type.arms.map((arm) => ({
      label: [label(arm.arm)],
      values: [
        count(arm.executed),
        change(arm.rate_ratio),
        ...[arm.mean_us, arm.p50_us, arm.p95_us, arm.p99_us].map(relativeChange),
      ],
    })),
    place: h("div", { class: "scroll" }),
  });
}

function relativeChange(d: Difference | null): Node | string {
  if (!d) return estimate(null);
  if (!(d.base > 0)) return estimate(d);
  const ratio: Ratio = {
    estimate: 1 + d.delta / d.base,
    low: 1 + d.low / d.base,
    high: 1 + d.high / d.base,
  };
  return change(ratio);
}
