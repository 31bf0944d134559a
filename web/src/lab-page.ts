// The page of a lab run; and the same parts again for a cell of a study.

import { armTable } from "./arms";
import { distributions } from "./distributions";
import { PAGE, type Place } from "./dom";
import { CPU_NOTE, environment, footer, heading, notes, repeat, windowsCsv } from "./facts";
import { forest } from "./forest";
import type { LabReport } from "./lab";
import { sight } from "./sight";
import { timeline } from "./timeline";
import { statementTypes } from "./types";

export function labPage(report: LabReport, place: HTMLElement): void {
  place.append(
    heading(report),
    ...evidence(report, PAGE),
    ...[sight(report.arms, report.probes, PAGE)].filter((part) => part !== null),
    notes(report.primary === "server-cpu" ? [CPU_NOTE, ...report.notes] : report.notes, PAGE),
    environment(report.environment, report.server, report.waggle_version, report.probes),
    repeat(report.command, [
      {
        label: "Save the data (JSON)",
        file: "waggle-lab.json",
        type: "application/json",
        text: () => `${JSON.stringify(report, null, 1)}\n`,
      },
      {
        label: "Save the windows (CSV)",
        file: "waggle-windows.csv",
        type: "text/csv",
        text: () => windowsCsv([{ cell: null, windows: report.windows }]),
      },
    ]),
  );
  document.body.append(footer(report.waggle_version));
}

/** The table of arms and every chart of one experiment. */
export function evidence(report: LabReport, place: Place): HTMLElement[] {
  return [
    armTable(report, place),
    forest(report, place),
    timeline(report, place),
    distributions(report, place),
    ...statementTypes(report, place),
  ];
}
