// The page of a trace: what all subjects share, and which drawing is whose.

import { PAGE, h, section } from "./dom";
import { type Fact, facts, footer, list, notes, repeat } from "./facts";
import { bytes, count, plain, seconds, time } from "./format";
import type { TraceReport } from "./trace";
import { funcParts } from "./trace-func";
import { latchParts } from "./trace-latch";
import { pipelineParts } from "./trace-pipeline";
import { waitsParts } from "./trace-waits";

/** The document, and the run it belongs to. */
export interface TracePage {
  report: TraceReport;
  command: string;
  waggle_version: string;
  started: string;
}

export function tracePage(page: TracePage, place: HTMLElement): void {
  const { report } = page;
  const kicker = document.getElementById("kicker");
  if (kicker) kicker.textContent = `waggle trace ${report.subject} · ${time(page.started)}`;
  const parts = [
    heading(report),
    slices(report),
    ...subject(report),
    report.notes.length > 0 ? notes(report.notes, PAGE) : null,
    probes(report),
    repeat(page.command, [
      {
        label: "Save the data (JSON)",
        file: `waggle-trace-${report.subject}.json`,
        type: "application/json",
        text: () => `${JSON.stringify(report, null, 1)}\n`,
      },
    ]),
  ];
  place.append(...parts.filter((part) => part !== null));
  document.body.append(footer(page.waggle_version));
}

function subject(report: TraceReport): (HTMLElement | null)[] {
  switch (report.subject) {
    case "func":
      return funcParts(report);
    case "latch":
      return latchParts(report);
    case "pipeline":
      return pipelineParts(report);
    case "waits":
      return waitsParts(report);
  }
}

/** What the kernel's half took: of the process's CPU time, and of a processor for the host. */
function programs({ cost, duration_s }: TraceReport): string {
  const share = (part: number, whole: number) => `${plain((100 * part) / whole, 2)}%`;
  const parts: string[] = [];
  if (cost.programs_s != null && cost.process_cpu_s) {
    parts.push(`${share(cost.programs_s, cost.process_cpu_s)} of its CPU time`);
  }
  if (cost.host_programs_s != null && duration_s > 0) {
    parts.push(`${share(cost.host_programs_s, duration_s)} of a processor for the whole host`);
  }
  return parts.length === 0 ? "their time was not counted" : parts.join(", ");
}

function heading(report: TraceReport): HTMLElement {
  const { process, cost } = report;
  const lost = Object.entries(report.lost).filter(([, n]) => n > 0);
  const name = process.flavour ?? process.program;
  const strip: Fact[] = [
    ["Process", `${name} ${process.version ?? ""} (${process.pid})`.replace("  ", " ")],
    ["Traced", `${seconds(report.duration_s)}${report.process_ended ? ", until it ended" : ""}`],
    ["Hits", `${count(cost.hits_per_s)} a ${report.slices ? "traced second" : "second"}`],
    ["Programs", programs(report)],
    ["waggle", `${plain(cost.waggle_cpu_s, 2)} s of CPU, ${bytes(cost.waggle_rss_bytes)}`],
    [
      "Lost",
      lost.length === 0
        ? "nothing"
        : lost.map(([why, n]) => `${count(n)} ${why.replace(/_/g, " ")}`).join(", "),
    ],
  ];
  return h(
    "div",
    { class: "heading" },
    facts(strip, lost.length === 0 ? "strip" : "strip failed"),
  );
}

/** A lesser share of the waits that are seen whole, and the figure is flagged. */
const WHOLE_MIN = 0.9;

/** The part of the time that was traced, and what that means for the figures. */
function slices(report: TraceReport): HTMLElement | null {
  const own = report.slices;
  if (own == null) return null;
  const rows: [string, string][] = [
    ["Traced", `${plain(100 * own.share, 2)}% of the time: ${seconds(own.traced_ns / 1e9)}`],
    ["Slices", `${count(own.count)} of ${plain(own.slice_ns / 1e6, 0)} ms`],
    ["Waits that began in them", `${count(own.began)}, ${plain(own.began_per_s, 1)} a second`],
    ["All waits, an estimate", count(own.estimated)],
    ["Cut by an edge", count(own.cut)],
    ["Of these, after half a slice or more", count(own.cut_long)],
  ];
  if (own.refused > 0) {
    rows.push(["Left out: could not be attached again", count(own.refused)]);
  }
  const whole = own.whole_at_p99;
  const isLow = own.cut_long > 0 || (whole !== null && whole < WHOLE_MIN);
  const share = whole === null ? "" : `, as ${plain(100 * whole, 0)}% of those as long as p99 do`;
  return section(
    PAGE,
    "slices",
    "The part of the time that was traced",
    h(
      "dl",
      { class: "facts" },
      ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    ...(isLow
      ? [
          h(
            "p",
            { class: "caption" },
            "p99, max and the slowest 1% are too low: a wait counts if it ends in its slice" +
              `${share}. A longer slice shows them.`,
          ),
        ]
      : []),
  );
}

function probes(report: TraceReport): HTMLElement | null {
  if (report.probes.length === 0) return null;
  const words = (at: TraceReport["probes"][number]): string =>
    at.refused !== null
      ? `refused: ${at.refused}`
      : [
          at.emulated === null ? "" : at.emulated ? "emulated" : "single-stepped",
          at.hits > 0 ? `${count(at.hits)} hits` : "",
        ]
          .filter((part) => part !== "")
          .join(", ");
  return list(
    "Probes",
    report.probes.map((at) => [`${at.name}: ${at.place}`, words(at)]),
  );
}
