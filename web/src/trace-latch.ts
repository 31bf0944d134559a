// Who held which latch: the table of latches, and for each who asked and who held it.

import { type Part, bar, key } from "./bars";
import { PAGE, h, section } from "./dom";
import { count, latency, plain } from "./format";
import { figuresTable } from "./table";
import type { LatchHolder, LatchReport, LatchRow } from "./trace";

/** Latches whose askers and holders are shown; the table has all. */
const DETAILED = 12;

const PARTS: [name: string, variable: string][] = [
  ["held by a thread that is known", "--arm-blue"],
  ["handed over", "--arm-green"],
  ["not observed", "--faint"],
];

export function latchParts(report: LatchReport): (HTMLElement | null)[] {
  return [summary(report), table(report), ...details(report), missing(report)];
}

function parts(of: { held_ns: number; handing_over_ns: number; unobserved_ns: number }): Part[] {
  const sums = [of.held_ns, of.handing_over_ns, of.unobserved_ns];
  return PARTS.map(([name, variable], index) => ({ name, variable, ns: sums[index] ?? 0 }));
}

function summary(report: LatchReport): HTMLElement {
  const rows: [string, string][] = [
    ["Waits", count(report.waits)],
    ["Waited, all threads together", latency(report.wait_sum_ns / 1000)],
    ["Flagged: records were lost", count(report.flagged)],
    ["Begun or ended unseen", count(report.torn)],
    ["In vain: it had become free", count(report.in_vain)],
    ["Still waiting at the end", count(report.still_waiting)],
    ["For conditions, which are no latches", count(report.conditions)],
    [
      "Holder by release and by the latch's word",
      `${count(report.word_agrees)} agree, ${count(report.word_differs)} differ`,
    ],
  ];
  return section(
    PAGE,
    "waits",
    "What the waiting was",
    h(
      "dl",
      { class: "facts" },
      ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    bar(parts(report), report.wait_sum_ns),
    key(PARTS.map(([name, variable]) => ({ name, variable }))),
  );
}

function table(report: LatchReport): HTMLElement | null {
  if (report.latches.length === 0) return null;
  const us = (value: number): string => plain(value, value >= 100 ? 0 : 1);
  return section(
    PAGE,
    "latches",
    "Latches",
    figuresTable({
      name: "study",
      caption: "Most waiting first. Contended: share of the trace in which a thread waited.",
      rowTitle: "latch",
      columns: [
        { group: "", title: "kind", unit: "" },
        { group: "", title: "waits", unit: "" },
        { group: "", title: "threads", unit: "" },
        ...["mean", "p50", "p95", "p99", "max"].map((title) => ({
          group: "a wait",
          title,
          unit: "µs",
        })),
        { group: "all waits", title: "sum", unit: "" },
        { group: "all waits", title: "contended", unit: "%" },
        { group: "all waits", title: "of what", unit: "" },
      ],
      rows: report.latches.map((own) => ({
        label: [own.name, own.latches > 1 ? h("small", {}, ` ${own.latches} latches`) : ""],
        values: [
          own.kind,
          count(own.wait_us.count),
          count(own.waiters),
          ...[own.wait_us.mean, own.wait_us.p50, own.wait_us.p95, own.wait_us.p99].map(us),
          us(own.wait_us.max),
          latency(own.wait_sum_ns / 1000),
          plain(100 * own.contended_share, 2),
          bar(parts(own), own.wait_sum_ns),
        ],
      })),
      place: h("div", { class: "scroll" }),
    }),
  );
}

function details(report: LatchReport): HTMLElement[] {
  const shown = report.latches.slice(0, DETAILED);
  if (shown.length === 0) return [];
  return [
    section(PAGE, "holders", "Who held them, and who asked", ...shown.flatMap((own) => one(own))),
  ];
}

function one(own: LatchRow): HTMLElement[] {
  const most = Math.max(1, ...own.holders.map(({ blocked_ns }) => blocked_ns));
  return [
    h("h3", {}, own.name),
    ...own.holders.map((holder) => held(holder, most)),
    ...(own.holders.length === 0
      ? [h("p", { class: "caption" }, "No holder was observed.")]
      : []),
    ...own.asked.slice(0, 5).map((asked) =>
      h(
        "details",
        { class: "wait" },
        h(
          "summary",
          {},
          `asked ${count(asked.waits)} times ${asked.mode}`.trim(),
          asked.at === null ? "" : ` at ${asked.at}`,
          `, waited ${latency(asked.wait_sum_ns / 1000)}, at most ${latency(asked.max_us)}`,
        ),
        stack(asked.stack),
      ),
    ),
  ];
}

function held(holder: LatchHolder, most: number): HTMLElement {
  const hold = holder.hold_us;
  const kept = hold === null ? "" : `; held for ${latency(hold.p50)} (p50), ${latency(hold.p99)}`;
  const name = `${holder.role}, ${count(holder.threads)} threads`;
  return h(
    "details",
    { class: "wait" },
    h(
      "summary",
      {},
      h("b", {}, holder.role),
      ` (${count(holder.threads)} threads) kept ${count(holder.waits)} waits waiting for `,
      `${latency(holder.blocked_ns / 1000)}, at most ${latency(holder.max_us)}${kept}`,
      bar([{ name, ns: holder.blocked_ns, variable: "--arm-blue" }], most),
    ),
    stack(holder.stack),
  );
}

function stack(frames: string[]): HTMLElement {
  return h(
    "ol",
    { class: "stack" },
    ...frames.map((frame) => h("li", {}, h("code", {}, frame))),
  );
}

function missing(report: LatchReport): HTMLElement | null {
  if (report.missing.length === 0) return null;
  return section(
    PAGE,
    "missing",
    "What cannot be seen of this process",
    h(
      "dl",
      { class: "settings" },
      ...report.missing.flatMap(([what, why]) => [h("dt", {}, what), h("dd", {}, why)]),
    ),
  );
}
