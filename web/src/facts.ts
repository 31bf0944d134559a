// Words and facts around the charts: what ran where, what to know, how to repeat it, the data.

import { PAGE, type Place, h, section } from "./dom";
import { bytes, count, decimals, plain, seconds, signed, time } from "./format";
import type { HostFacts, LabReport, LabServer, LabWindow, ProbeFacts } from "./lab";

export type Fact = [name: string, value: string | null];

/** The strip under the answer: the run at a glance, and whether the method holds. */
export function heading(report: LabReport): HTMLElement {
  const { server, workload } = report;
  const kicker = document.getElementById("kicker");
  if (kicker) kicker.textContent = `waggle lab · ${time(report.started)}`;
  const used = report.windows.filter((window) => !window.discarded).length;
  return h(
    "div",
    { class: "heading" },
    h("p", { class: "question" }, report.question),
    facts(
      [
        ["Server", `${server.flavour} ${server.version}`],
        ["Load", load(workload)],
        ["Data", `${workload.tables} × ${count(workload.table_size)} rows`],
        ["Measured", `${count(used)} windows in ${seconds(report.duration_s)}`],
        ["A/A check", check(report)],
      ],
      report.aa_clean ? "strip" : "strip failed",
    ),
  );
}

/** What drove the server, in a few words. */
export function load(workload: LabReport["workload"]): string {
  const plural = workload.threads === 1 ? "thread" : "threads";
  const threads = `${workload.name}, ${workload.threads} ${plural}`;
  return workload.rate === null ? threads : `${threads}, ${count(workload.rate)} a second`;
}

function check(report: LabReport): string {
  const cpu = report.arms.find((arm) => arm.aa)?.cpu_us_per_statement;
  if (!cpu) return report.aa_clean ? "clean" : "not measured: nothing is claimed";
  const digits = decimals((cpu.high - cpu.low) / 2, 1);
  const interval = `${signed(cpu.low, digits)} to ${signed(cpu.high, digits)}`;
  const figures = `${signed(cpu.delta, digits)} µs (${interval})`;
  return report.aa_clean ? `clean, ${figures}` : `not clean, ${figures}: nothing is claimed`;
}

/** Names and values; what is null was not known and is left out. */
export function facts(list: Fact[], name: string): HTMLElement {
  const known = list.filter((fact): fact is [string, string] => fact[1] !== null);
  return h(
    "dl",
    { class: name },
    ...known.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** What a reader must know before quoting a figure. */
export function notes(list: string[], place: Place): HTMLElement {
  return section(
    place,
    "notes",
    "What to know",
    h("ul", { class: "notes" }, ...list.map((note) => h("li", {}, note))),
  );
}

export const CPU_NOTE =
  "CPU in the server per statement is the primary outcome. It is the CPU time of the whole " +
  "server process over the statements executed in the window; it moves less with the machine " +
  "than throughput does.";

/** The machine and the server: what decides whether a figure is true elsewhere. */
export function environment(
  host: HostFacts,
  server: LabServer,
  version: string,
  probes: ProbeFacts[],
): HTMLElement {
  const machine: Fact[] = [
    ["Processor", host.cpu_model],
    [
      "Cores",
      host.cores === null
        ? null
        : `${host.cores}${host.smt === null ? "" : host.smt ? ", SMT on" : ", SMT off"}`,
    ],
    ["Memory", host.memory_bytes === null ? null : bytes(host.memory_bytes)],
    ["Virtualisation", host.virtualisation],
    ["System", host.system],
    ["Kernel", host.kernel === null ? null : `${host.kernel} ${host.architecture}`],
    ["Clock source", host.clocksource],
    ["Frequency governor", host.governor ?? "not set by this machine"],
    ["Huge pages", host.transparent_huge_pages],
    ["Lockdown", host.lockdown],
    ["Probes", modes(probes)],
    ["Server build id", server.build_id],
    ["waggle", version],
  ];
  return section(
    PAGE,
    "environment",
    "Environment",
    facts(machine, "facts"),
    list("Mitigations", Object.entries(host.mitigations)),
    list(`${server.flavour} settings`, Object.entries(server.settings)),
    list("Probes", distinct(probes)),
  );
}

/** How the kernel runs the probes: the difference between 0.6 and 12 µs a hit. */
function modes(probes: ProbeFacts[]): string | null {
  const known = new Set(probes.map((probe) => probe.mode ?? "mode unknown"));
  return known.size === 0 ? null : [...known].sort().join(", ");
}

function distinct(probes: ProbeFacts[]): [string, string][] {
  const seen = new Map<string, string>();
  for (const probe of probes) {
    const parts = [
      probe.mode ?? "mode unknown",
      probe.hits === null ? "" : `${count(probe.hits)} hits`,
      probe.program_ns === null ? "" : `${plain(probe.program_ns, 0)} ns a hit in the program`,
    ].filter((part) => part !== "");
    const name = `${probe.arm}: ${probe.place}`;
    if (!seen.has(name)) seen.set(name, parts.join(", "));
  }
  return [...seen];
}

/** A list that is folded away, because it is long. */
export function list(title: string, entries: [string, string][]): HTMLElement | null {
  if (entries.length === 0) return null;
  return h(
    "details",
    {},
    h("summary", {}, `${title} (${entries.length})`),
    h(
      "dl",
      { class: "settings" },
      ...entries.flatMap(([name, value]) => [
        h("dt", {}, name),
        h("dd", {}, value === "" ? "(empty)" : value),
      ]),
    ),
  );
}

/** A file that the page can write from what it holds. */
export interface Download {
  label: string;
  file: string;
  type: string;
  /** Made when it is asked for. */
  text: () => string;
}

/** The command, and the data behind every figure. */
export function repeat(command: string, downloads: Download[]): HTMLElement {
  const buttons = downloads.map(({ label, file, type, text }) => {
    const button = h("button", { type: "button" }, label);
    button.addEventListener("click", () => save(file, type, text()));
    return button;
  });
  return section(
    PAGE,
    "repeat",
    "Repeat it",
    h("pre", { tabindex: "0" }, h("code", {}, command)),
    h("p", { class: "buttons" }, ...buttons.flatMap((button) => [button, " "])),
    h(
      "p",
      { class: "caption" },
      "The page holds every window it shows: the files are written from it, without a network.",
    ),
  );
}

/** One value of a CSV file. */
export function csvCell(value: string | number | boolean | null): string {
  const text = value === null ? "" : String(value);
  // A spreadsheet would run what begins like a formula; foreign strings are in the data.
  const tame = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(tame) ? `"${tame.replace(/"/g, '""')}"` : tame;
}

const WINDOW_COLUMNS = "t_s,duration_s,arm,statements,qps,server_cpu_us_per_statement,discarded";

/** The windows as CSV; empty where nothing was measured. */
export function windowsCsv(groups: { cell: string | null; windows: LabWindow[] }[]): string {
  const cells = groups.some(({ cell }) => cell !== null);
  const types = [
    ...new Set(groups.flatMap(({ windows }) => windows.flatMap((w) => Object.keys(w.types)))),
  ];
  const typed = types.flatMap((type) => [
    `${type} statements`,
    `${type} mean_us`,
    `${type} p99_us`,
  ]);
  const head = [
    ...(cells ? ["cell"] : []),
    ...WINDOW_COLUMNS.split(","),
    "marks",
    "note",
    ...typed,
  ];
  const rows = groups.flatMap(({ cell, windows }) =>
    windows.map((w) => [
      ...(cells ? [cell] : []),
      w.t_s,
      w.duration_s,
      w.arm,
      w.statements,
      w.qps,
      w.server_cpu_us_per_statement,
      w.discarded,
      w.marks.join("; "),
      w.note,
      ...types.flatMap((type) => {
        const reading = w.types[type];
        return reading ? [reading.statements, reading.mean_us, reading.p99_us] : [null, null, null];
      }),
    ]),
  );
  return `${[head, ...rows].map((row) => row.map(csvCell).join(",")).join("\n")}\n`;
}

function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  // Some browsers read the data after the click has returned.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function footer(version: string): HTMLElement {
  return h("footer", {}, `waggle ${version} · this page holds all its data and needs no network`);
}
