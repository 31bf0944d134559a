// The page of profiles: the flame graph with its switches, functions, roles, statements, losses;
// and the same as sections of another run's page.

import { PAGE, type Place, h, section } from "./dom";
import { type Fact, facts, footer, repeat } from "./facts";
import { type Choice, type Root, folded, functions, matcher, total, tree } from "./flame";
import { flameView } from "./flame-view";
import { ABSENT, count, latency, plain, seconds, signed, time } from "./format";
import { KINDS, type ProfileData, type ProfilePart } from "./profile";
import { figuresTable } from "./table";

const ROWS = 40;
const NAME_MAX = 240;

export function profilePage(data: ProfileData, place: HTMLElement): void {
  const kicker = document.getElementById("kicker");
  if (kicker) kicker.textContent = `waggle ${data.verb} · ${time(data.started)}`;
  const sections = profileSections(data, PAGE);
  place.append(
    h("div", { class: "heading" }, facts(strip(data), "strip")),
    ...sections.parts,
    repeat(data.command, [
      {
        label: "Save the data (JSON)",
        file: "waggle-profile.json",
        type: "application/json",
        text: () => `${JSON.stringify(data)}\n`,
      },
      {
        label: "Save the stacks shown (folded)",
        file: "waggle-profile.folded",
        type: "text/plain",
        text: sections.folded,
      },
    ]),
  );
  document.body.append(footer(data.waggle_version));
}

/** Profiles beside another report, before its last section. */
export function profileBeside(data: ProfileData, main: HTMLElement): void {
  const { parts } = profileSections(data, { prefix: "profile-", heading: "h2" });
  const last = main.querySelector("#environment") ?? main.querySelector("#repeat");
  for (const part of parts) main.insertBefore(part, last);
}

function strip(data: ProfileData): Fact[] {
  const first = data.parts[data.shown] ?? data.parts[0];
  if (!first) return [];
  const processes = [...new Set(first.whos.map(({ process }) => process))];
  const lost = data.parts.some(({ lost }) => losses(lost).length > 0);
  return [
    ["Process", processes.slice(0, 3).join(", ")],
    ["Profiled", seconds(first.duration_s)],
    ["Sampled", first.frequency_hz > 0 ? `${first.frequency_hz} times a second` : null],
    ...KINDS.map((name, kind): Fact => {
      const ns = total(first, everything(kind));
      return [name, ns > 0 ? latency(ns / 1000) : null];
    }),
    ["Lost", lost ? "see below" : "nothing"],
  ];
}

function everything(kind: number): Choice {
  return { kind, root: "all", process: null, digest: null, inverted: false };
}

interface Sections {
  parts: HTMLElement[];
  /** Folded stacks of what the graph shows. */
  folded: () => string;
}

function profileSections(data: ProfileData, place: Place): Sections {
  const first = data.parts[data.shown] ?? data.parts[0];
  if (!first) return { parts: [], folded: () => "" };
  const state: State = {
    part: first,
    against: data.against === null ? null : (data.parts[data.against] ?? null),
    choice: everything(firstKind(first)),
    wanted: "",
  };
  const view = flameView();
  const tables = h("div");
  const own = (at: State): void => {
    const root = tree(at.part, at.choice, at.against);
    view.show(root, at.choice.kind, at.against !== null);
    tables.replaceChildren(functionTable(at));
  };
  const redraw = (): void => own(state);
  const switches = controls(data, state, redraw, (text) => {
    state.wanted = text;
    view.search(text);
    tables.replaceChildren(functionTable(state));
  });
  const reset = h("button", { type: "button" }, "Show all");
  reset.addEventListener("click", () => view.reset());
  switches.append(reset);
  const graph = section(
    place,
    "flame",
    "Where the time went",
    h("p", { class: "caption" }, EXPLAINED),
    switches,
    view.place,
  );
  redraw();
  const parts = [
    graph,
    section(place, "functions", "Functions", tables),
    ...data.parts.flatMap((part, index) => whose(part, place, index, data.parts.length)),
    lost(data, place),
    ...(data.notes.length > 0 ? [how(data, place)] : []),
  ];
  return { parts, folded: () => folded(tree(state.part, state.choice, null)) };
}

const EXPLAINED =
  "A box is as wide as the time in a call and in what it calls; callers stand above what they " +
  "call. On CPU: sampled while it ran. Off CPU: from when it blocked until it was woken. " +
  "Runnable: from then on until it ran.";

interface State {
  part: ProfilePart;
  against: ProfilePart | null;
  choice: Choice;
  wanted: string;
}

function firstKind(part: ProfilePart): number {
  const kind = KINDS.findIndex((_, at) => total(part, everything(at)) > 0);
  return Math.max(kind, 0);
}

function controls(
  data: ProfileData,
  state: State,
  redraw: () => void,
  search: (text: string) => void,
): HTMLElement {
  const { choice } = state;
  const row = h("div", { class: "switches" });
  const add = (
    label: string,
    options: [string, string][],
    pick: (value: string) => void,
    now?: string,
  ): void => {
    if (options.length < 2) return;
    const list = h(
      "select",
      {},
      ...options.map(([value, words]) => h("option", { value }, short(words, 60))),
    );
    if (now !== undefined) list.value = now;
    list.addEventListener("change", () => {
      pick(list.value);
      redraw();
    });
    row.append(h("label", {}, `${label} `, list));
  };
  const named = data.parts.map((part, at): [string, string] => [
    String(at),
    part.name === "" ? `profile ${at + 1}` : part.name,
  ]);
  const pickPart = (at: string): void => {
    state.part = data.parts[Number(at)] ?? state.part;
  };
  add("Profile", named, pickPart, String(data.parts.indexOf(state.part)));
  if (data.parts.length > 1)
    add(
      "against",
      [["", "nothing"], ...named],
      (at) => (state.against = at === "" ? null : (data.parts[Number(at)] ?? null)),
      data.against === null ? "" : String(data.against),
    );
  const kinds = KINDS.map((words, at): [string, string] => [String(at), words]).filter(([at]) =>
    data.parts.some((part) => total(part, everything(Number(at))) > 0),
  );
  add("Time", kinds, (at) => (choice.kind = Number(at)), String(choice.kind));
  add("By", roots(data), (root) => (choice.root = root as Root));
  const whos = data.parts.flatMap(({ whos }) => whos);
  const processes = [...new Set(whos.map(({ process }) => process))];
  if (processes.length > 1)
    add("Process", [["", "all"], ...processes.map((p): [string, string] => [p, p])], (name) => {
      choice.process = name === "" ? null : name;
    });
  const statements = new Map(
    data.parts.flatMap(({ digests }) => digests.map((d) => [d.digest, d.fingerprint])),
  );
  add(
    "Statement",
    [["", "all"], ...[...statements].map(([d, words]): [string, string] => [d, words || d])],
    (digest) => (choice.digest = digest === "" ? null : digest),
  );
  row.append(turnedOver(choice, redraw));
  const field = h("input", { type: "search", placeholder: "Search", "aria-label": "Search calls" });
  field.addEventListener("input", () => search(field.value));
  row.append(field);
  return row;
}

function turnedOver(choice: Choice, redraw: () => void): HTMLElement {
  const inverted = h("input", { type: "checkbox" });
  inverted.addEventListener("change", () => {
    choice.inverted = inverted.checked;
    redraw();
  });
  return h("label", {}, inverted, " innermost calls first");
}

function roots(data: ProfileData): [Root, string][] {
  const whos = data.parts.flatMap(({ whos }) => whos);
  const all: [Root, string, boolean][] = [
    ["all", "all together", true],
    ["role", "role", true],
    ["digest", "statement", whos.some(({ digest }) => digest !== null)],
    ["process", "process", new Set(whos.map(({ process }) => process)).size > 1],
    ["thread", "thread", whos.some(({ thread }) => thread !== null)],
  ];
  return all.filter(([, , has]) => has).map(([root, words]) => [root, words]);
}

function functionTable(state: State): HTMLElement {
  const { part, against, choice } = state;
  const whole = Math.max(total(part, choice), 1);
  const matches = matcher(state.wanted);
  const all = functions(part, choice).filter(({ name }) => !matches || matches(name));
  const before = new Map<string, number>();
  const other = against ? Math.max(total(against, choice), 1) : 1;
  if (against)
    for (const sum of functions(against, choice))
      before.set(`${sum.module}\0${sum.name}`, (100 * sum.self) / other);
  const share = (ns: number): string => plain((100 * ns) / whole, 1);
  return figuresTable({
    name: "study functions",
    caption:
      `${Math.min(ROWS, all.length)} of ${count(all.length)} functions ` +
      `${KINDS[choice.kind] ?? ""}, most time of their own first.`,
    rowTitle: "function",
    columns: [
      { group: "itself", title: "share", unit: "%" },
      { group: "itself", title: "time", unit: "" },
      ...(against ? [{ group: "itself", title: "change", unit: "points" }] : []),
      { group: "with what it calls", title: "share", unit: "%" },
      { group: "with what it calls", title: "time", unit: "" },
      { group: "", title: "file", unit: "" },
    ],
    rows: all.slice(0, ROWS).map((sum) => {
      const was = before.get(`${sum.module}\0${sum.name}`) ?? 0;
      return {
        label: [short(sum.name, NAME_MAX)],
        values: [
          share(sum.self),
          latency(sum.self / 1000),
          ...(against ? [signed((100 * sum.self) / whole - was, 1)] : []),
          share(sum.total),
          latency(sum.total / 1000),
          sum.module === "" ? ABSENT : short(sum.module, 40),
        ],
      };
    }),
    place: h("div", { class: "scroll" }),
  });
}

/** Roles and statements of a part. */
function whose(part: ProfilePart, place: Place, index: number, parts: number): HTMLElement[] {
  const of = parts > 1 ? `: ${part.name === "" ? `profile ${index + 1}` : part.name}` : "";
  const sections = [
    section(place, `roles${index}`, `Roles of threads${of}`, rolesTable(part)),
  ];
  if (part.whos.some(({ digest }) => digest !== null))
    sections.push(
      section(place, `statements${index}`, `Statements${of}`, statementsTable(part)),
    );
  return sections;
}

/** Time by kind of each name. */
function sums(part: ProfilePart, name: (who: number) => string | null): Map<string, number[]> {
  const all = new Map<string, number[]>();
  const { who, kind, ns } = part.entries;
  for (let entry = 0; entry < ns.length; entry += 1) {
    const key = name(who[entry] ?? -1);
    if (key === null) continue;
    let times = all.get(key);
    if (!times) all.set(key, (times = [0, 0, 0]));
    const at = kind[entry] ?? 0;
    times[at] = (times[at] ?? 0) + (ns[entry] ?? 0);
  }
  return new Map([...all].sort(([, a], [, b]) => (b[0] ?? 0) - (a[0] ?? 0)));
}

function rolesTable(part: ProfilePart): HTMLElement {
  const all = sums(part, (who) => part.whos[who]?.role ?? null);
  const wholes = KINDS.map((_, kind) => Math.max(total(part, everything(kind)), 1));
  return figuresTable({
    name: "study",
    caption: "What threads are there for, and their time.",
    rowTitle: "role",
    columns: KINDS.flatMap((group) => [
      { group, title: "time", unit: "" },
      { group, title: "share", unit: "%" },
    ]),
    rows: [...all].slice(0, ROWS).map(([role, times]) => ({
      label: [short(role, NAME_MAX)],
      values: times.flatMap((ns, kind) =>
        ns === 0
          ? [ABSENT, ABSENT]
          : [latency(ns / 1000), plain((100 * ns) / (wholes[kind] ?? 1), 1)],
      ),
    })),
    place: h("div", { class: "scroll" }),
  });
}

function statementsTable(part: ProfilePart): HTMLElement {
  const all = sums(part, (who) => part.whos[who]?.digest ?? null);
  const known = new Map(part.digests.map((digest) => [digest.digest, digest]));
  const whole = Math.max(total(part, everything(0)), 1);
  return figuresTable({
    name: "study",
    caption:
      "What the samples say each statement cost; beside it the CPU time by the agent's own " +
      "accounting, where it was on.",
    rowTitle: "statement",
    columns: [
      { group: "on CPU", title: "time", unit: "" },
      { group: "on CPU", title: "share", unit: "%" },
      { group: "on CPU", title: "each", unit: "" },
      { group: "", title: "off CPU", unit: "" },
      { group: "", title: "executed", unit: "" },
      { group: "", title: "accounted CPU", unit: "" },
    ],
    rows: [...all].slice(0, ROWS).map(([name, times]) => {
      const digest = known.get(name);
      const cpu = times[0] ?? 0;
      const each = digest && digest.statements > 0 ? latency(cpu / 1000 / digest.statements) : null;
      return {
        label: [
          short(digest?.fingerprint || name, NAME_MAX),
          h("small", {}, digest?.fingerprint ? name : ""),
        ],
        values: [
          latency(cpu / 1000),
          plain((100 * cpu) / whole, 1),
          each ?? ABSENT,
          (times[1] ?? 0) > 0 ? latency((times[1] ?? 0) / 1000) : ABSENT,
          digest ? count(digest.statements) : ABSENT,
          digest && digest.cpu_ns > 0 ? latency(digest.cpu_ns / 1000) : ABSENT,
        ],
      };
    }),
    place: h("div", { class: "scroll" }),
  });
}

/** What is missing, in words. */
function losses(lost: ProfilePart["lost"]): string[] {
  const known: [number, string][] = [
    [lost.samples, "samples did not arrive"],
    [lost.stacks, "samples have no stack"],
    [lost.truncated, "stacks lack their outermost calls"],
    [lost.unknown_frames, "calls have no name"],
    ...Object.entries(lost.by_cause).map(([cause, many]): [number, string] => [
      many,
      short(cause, NAME_MAX),
    ]),
  ];
  return known.filter(([many]) => many > 0).map(([many, what]) => `${count(many)} ${what}`);
}

function lost(data: ProfileData, place: Place): HTMLElement {
  const lines = data.parts.flatMap((part) =>
    losses(part.lost).map((line) => (part.name === "" ? line : `${part.name}: ${line}`)),
  );
  const all = lines.length === 0 ? ["Nothing was lost."] : lines;
  return section(
    place,
    "lost",
    "What was lost",
    h("ul", { class: "notes" }, ...all.map((line) => h("li", {}, line))),
  );
}

function how(data: ProfileData, place: Place): HTMLElement {
  return section(
    place,
    "how",
    "How it was profiled",
    h("ul", { class: "notes" }, ...data.notes.map((note) => h("li", {}, note))),
  );
}

function short(name: string, most: number): string {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}
