// What waits were made of: the stages as a waterfall, their table, the slowest waits in full.

import { type Part, bar, key, partColour, stateColour } from "./bars";
import { PAGE, h, section } from "./dom";
import { count, latency, plain } from "./format";
import { figuresTable } from "./table";
import type { Doing, PipelineGroup, PipelineReport, PipelineWait } from "./trace";

export function pipelineParts(report: PipelineReport): (HTMLElement | null)[] {
  return [
    counts(report),
    report.decomposed === 0 ? null : waterfall(report),
    report.decomposed === 0 ? null : stages(report),
    doing(report),
    groups(report, "by-caller", "By caller", report.by_caller),
    groups(report, "by-role", "By role of the waiter", report.by_role),
    groups(report, "by-thread", "By thread", report.by_thread),
    slowest(report),
  ];
}

function counts(report: PipelineReport): HTMLElement {
  const share = (n: number): string =>
    report.seen === 0 ? count(n) : `${count(n)} (${plain((100 * n) / report.seen, 2)}%)`;
  const rows: [string, string][] = [
    ["Waits", count(report.seen)],
    ["Decomposed", share(report.decomposed)],
    ["Nothing to wait for", share(report.no_wait)],
    ["Flagged: records were lost", share(report.flagged)],
    ["Begun or ended unseen", count(report.torn)],
    ["Of these, the beginning may be lost", count(report.begin_lost)],
    ["Under way at the start or end", count(report.cut)],
    ["Of these, begun before the trace", count(report.begun_before)],
    ["Not adding up", count(report.inexact)],
    ["Woken in vain", count(report.spurious_wakes)],
  ];
  return section(
    PAGE,
    "waits",
    `${report.pipeline}: ${report.about}`,
    h(
      "dl",
      { class: "facts" },
      ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
  );
}

function parts(report: PipelineReport, sums: number[], waits: number): Part[] {
  return report.stages.map(({ name }, index) => ({
    name,
    ns: (sums[index] ?? 0) / Math.max(waits, 1),
    variable: partColour(index),
  }));
}

function waterfall(report: PipelineReport): HTMLElement {
  const mean = report.wait_sum_ns / Math.max(report.decomposed, 1);
  const own = report.stages.map(({ sum_ns }) => sum_ns);
  const slow = report.slowest_percent;
  const all = parts(report, own, report.decomposed);
  // Each stage begins where the one before ended.
  const falls = all.map((part, index) => {
    const before = all.slice(0, index).reduce((sum, { ns }) => sum + ns, 0);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, part.name),
      h(
        "td",
        { class: "fall" },
        h("span", {
          style:
            `margin-left:${(100 * before) / mean}%;width:${(100 * part.ns) / mean}%;` +
            `background:var(${part.variable})`,
        }),
      ),
      h("td", { class: "n" }, latency(part.ns / 1000)),
      h("td", { class: "n" }, `${plain((100 * part.ns) / mean, 1)}%`),
    );
  });
  return section(
    PAGE,
    "waterfall",
    "What a wait is made of",
    h(
      "p",
      { class: "caption" },
      `Mean of ${count(report.decomposed)} waits, ${latency(mean / 1000)}: the stages of every ` +
        "wait add up to it exactly.",
    ),
    h("table", { class: "waterfall" }, h("tbody", {}, ...falls)),
    ...(slow.waits === 0
      ? []
      : [
          h("p", { class: "chart-title" }, "All waits, and the slowest 1% of them, each as 100%"),
          bar(all, mean),
          bar(parts(report, slow.stages_ns, slow.waits), slow.sum_ns / slow.waits),
          key(all),
        ]),
  );
}

function stages(report: PipelineReport): HTMLElement {
  const us = (value: number): string => plain(value, value >= 100 ? 0 : 1);
  const row = (name: string, time: PipelineReport["wait_us"], rest: string[]) => ({
    label: [name],
    values: [
      ...[time.mean_us, time.p50_us, time.p95_us, time.p99_us, time.max_us].map(us),
      ...rest,
    ],
  });
  const of = (n: number): string => plain((100 * n) / Math.max(report.decomposed, 1), 1);
  return section(
    PAGE,
    "stages",
    "Stages",
    figuresTable({
      name: "study",
      caption: `Each stage in the same ${count(report.decomposed)} waits, those without it as 0.`,
      rowTitle: "stage",
      columns: [
        ...["mean", "p50", "p95", "p99", "max"].map((title) => ({ group: "", title, unit: "µs" })),
        { group: "", title: "share", unit: "% of time" },
        { group: "", title: "skipped", unit: "% of waits" },
        { group: "", title: "instant", unit: "% of waits" },
        { group: "", title: "carried out by", unit: "" },
      ],
      rows: [
        ...report.stages.map((stage) =>
          row(stage.name, stage.latency_us, [
            plain(100 * stage.share, 1),
            of(stage.skipped),
            of(stage.instant),
            Object.entries(stage.by_role)
              .sort(([, a], [, b]) => b - a)
              .slice(0, 2)
              .map(([role]) => role)
              .join(", "),
          ]),
        ),
        row("whole wait", report.wait_us, ["100.0", "", "", ""]),
      ],
      place: h("div", { class: "scroll" }),
    }),
  );
}

/** What a thread was doing, in parts; the names are those of the key. */
function states(what: Doing): Part[] {
  const all: [string, number][] = [
    ["queued", what.queued_ns],
    ["on CPU", what.on_cpu_ns],
    ["runnable", what.runnable_ns],
    ...Object.entries(what.blocked_ns),
    ["unknown", what.unknown_ns],
  ];
  return all
    .filter(([, ns]) => ns > 0)
    .map(([name, ns]) => ({ name, ns, variable: stateColour(name) }));
}

function doing(report: PipelineReport): HTMLElement | null {
  const shown = report.stages.filter(({ sum_ns }) => sum_ns > 0);
  if (shown.length === 0) return null;
  const widest = Math.max(...shown.map(({ sum_ns }) => sum_ns));
  const names = [...new Set(shown.flatMap((stage) => states(stage.doing).map(({ name }) => name)))];
  return section(
    PAGE,
    "doing",
    "What the threads that carried it out were doing",
    key(names.map((name) => ({ name, variable: stateColour(name) }))),
    ...shown.flatMap((stage) => [
      h("p", { class: "chart-title" }, stage.name),
      bar(states(stage.doing), widest),
    ]),
  );
}

function groups(
  report: PipelineReport,
  id: string,
  title: string,
  list: PipelineGroup[],
): HTMLElement | null {
  if (list.length === 0) return null;
  const us = (ns: number): string => plain(ns / 1000, ns >= 1e5 ? 0 : 1);
  const shown = list.slice(0, 20);
  return section(
    PAGE,
    id,
    title,
    figuresTable({
      name: "study",
      caption: shown.length < list.length ? `The first 20 of ${list.length}.` : "",
      rowTitle: "who",
      columns: [
        { group: "", title: "waits", unit: "" },
        ...["mean", "p50", "p95", "p99", "max"].map((name) => ({
          group: "",
          title: name,
          unit: "µs",
        })),
        { group: "", title: "stages", unit: "" },
      ],
      rows: shown.map((group) => ({
        label: [group.name],
        values: [
          count(group.waits),
          us(group.sum_ns / Math.max(group.waits, 1)),
          us(group.p50_ns),
          us(group.p95_ns),
          us(group.p99_ns),
          us(group.max_ns),
          bar(parts(report, group.stages_ns, 1), group.sum_ns),
        ],
      })),
      place: h("div", { class: "scroll" }),
    }),
  );
}

function slowest(report: PipelineReport): HTMLElement | null {
  if (report.slowest.length === 0) return null;
  const longest = Math.max(...report.slowest.map(({ wait_ns }) => wait_ns));
  return section(
    PAGE,
    "slowest",
    "The slowest waits",
    key(report.stages.map(({ name }, index) => ({ name, variable: partColour(index) }))),
    ...report.slowest.map((wait) => slowWait(report, wait, longest)),
  );
}

function slowWait(report: PipelineReport, wait: PipelineWait, longest: number): HTMLElement {
  const name = (index: number): string => report.stages[index]?.name ?? "";
  const own: Part[] = wait.stages.map((stage, index) => ({
    name: name(index),
    ns: stage.ns,
    variable: partColour(index),
  }));
  const lines = wait.stages.map((stage, index) => {
    const who = stage.thread === null ? "" : ` by ${stage.thread} (${stage.tid ?? ""})`;
    const did = states(stage.doing)
      .map((state) => `${state.name} ${latency(state.ns / 1000)}`)
      .join(", ");
    const what = stage.skipped ? "skipped" : latency(stage.ns / 1000);
    return h("li", {}, `${name(index)}: ${what}${who}${did === "" ? "" : `; ${did}`}`);
  });
  return h(
    "details",
    { class: "wait" },
    h(
      "summary",
      {},
      h("b", {}, latency(wait.wait_ns / 1000)),
      ` ${wait.thread} (${wait.tid}) for ${wait.key}`,
      wait.spurious_wakes > 0 ? `, woken in vain ${wait.spurious_wakes} times` : null,
      bar(own, longest),
    ),
    h("ul", {}, ...lines),
    h("ol", { class: "stack" }, ...wait.caller.map((frame) => h("li", {}, h("code", {}, frame)))),
  );
}
