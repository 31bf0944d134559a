// Words and facts around the charts: what ran where, what to know, how to repeat it, the data.

import { h, section } from "./dom";
import { bytes, count, seconds, signed, decimals, time } from "./format";
import type { LabReport } from "./lab";

type Fact = [name: string, value: string | null];

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
        ["Load", `${workload.name}, ${workload.threads} threads`],
        ["Data", `${workload.tables} × ${count(workload.table_size)} rows`],
        ["Measured", `${count(used)} windows in ${seconds(report.duration_s)}`],
        ["A/A check", check(report)],
      ],
      report.aa_clean ? "strip" : "strip failed",
    ),
  );
}

function check(report: LabReport): string {
  const cpu = report.arms.find((arm) => arm.aa)?.cpu_us_per_statement;
  if (!cpu) return report.aa_clean ? "clean" : "not measured: nothing is claimed";
  const digits = decimals((cpu.high - cpu.low) / 2, 1);
  const interval = `${signed(cpu.low, digits)} to ${signed(cpu.high, digits)}`;
  const figures = `${signed(cpu.delta, digits)} µs (${interval})`;
  return report.aa_clean ? `clean, ${figures}` : `not clean, ${figures}: nothing is claimed`;
}

function facts(list: Fact[], name: string): HTMLElement {
  const known = list.filter((fact): fact is [string, string] => fact[1] !== null);
  return h(
    "dl",
    { class: name },
    ...known.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** What a reader must know before quoting a figure. */
export function notes(report: LabReport): HTMLElement {
  const standing = [
    "CPU in the server per statement is the primary outcome. It is the CPU time of the whole " +
      "server process over the statements executed in the window; it moves less with the " +
      "machine than throughput does.",
  ];
  return section(
    "notes",
    "What to know",
    h("ul", { class: "notes" }, ...[...standing, ...report.notes].map((note) => h("li", {}, note))),
  );
}

export function environment(report: LabReport): HTMLElement {
  const { environment: host, server } = report;
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
    ["Server build id", server.build_id],
    ["waggle", report.waggle_version],
  ];
  return section(
    "environment",
    "Environment",
    facts(machine, "facts"),
    list("Mitigations", Object.entries(host.mitigations)),
    list(`${server.flavour} settings`, Object.entries(server.settings)),
  );
}

function list(title: string, entries: [string, string][]): HTMLElement | null {
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

export function repeat(report: LabReport): HTMLElement {
  const json = h("button", { type: "button" }, "Save the data (JSON)");
  json.addEventListener("click", () => {
    save("waggle-lab.json", "application/json", `${JSON.stringify(report, null, 1)}\n`);
  });
  const csv = h("button", { type: "button" }, "Save the windows (CSV)");
  csv.addEventListener("click", () => save("waggle-windows.csv", "text/csv", windowsCsv(report)));
  return section(
    "repeat",
    "Repeat it",
    h("pre", { tabindex: "0" }, h("code", {}, report.command)),
    h("p", { class: "buttons" }, json, " ", csv),
  );
}

/** The windows as CSV; empty where nothing was measured. */
export function windowsCsv(report: LabReport): string {
  const cell = (value: string | number | boolean | null): string => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const head = "t_s,duration_s,arm,statements,qps,server_cpu_us_per_statement,discarded,note";
  const rows = report.windows.map((w) =>
    [
      w.t_s,
      w.duration_s,
      w.arm,
      w.statements,
      w.qps,
      w.server_cpu_us_per_statement,
      w.discarded,
      w.note,
    ]
      .map(cell)
      .join(","),
  );
  return `${[head, ...rows].join("\n")}\n`;
}

function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  // Some browsers read the data after the click has returned.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function footer(report: LabReport): HTMLElement {
  return h(
    "footer",
    {},
    `waggle ${report.waggle_version} · this page holds all its data and needs no network`,
  );
}
