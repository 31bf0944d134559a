// What a flame graph is made of, without a browser: the tree of calls of a choice of samples, its
// rectangles, what a search finds, and functions by their own and their whole time.

import type { ProfilePart } from "./profile";

export type Root = "all" | "role" | "digest" | "process" | "thread";

/** Which samples, and how they are shown. */
export interface Choice {
  /** 0: on CPU, 1: off CPU, 2: runnable. */
  kind: number;
  root: Root;
  /** Null: all processes. */
  process: string | null;
  /** Null: all statements. */
  digest: string | null;
  /** Innermost calls first: who calls what costs. */
  inverted: boolean;
}

/** A call within its callers. */
export interface Call {
  name: string;
  module: string;
  /** 1: inlined, 2: the kernel's, 4: calls that are missing, 8: no call but whose time it is. */
  flags: number;
  ns: number;
  samples: number;
  /** The same in the profile that it is compared with, scaled to the same whole. */
  before: number;
  children: Call[];
  parent: Call | null;
  depth: number;
}

export interface FunctionSum {
  name: string;
  module: string;
  self: number;
  total: number;
  samples: number;
}

const NO_STATEMENT = "[no statement]";

/** The tree of a choice; `against` is what it is compared with. */
export function tree(part: ProfilePart, choice: Choice, against: ProfilePart | null): Call {
  const root = call("all", "", 8, null);
  const index = new Map<Call, Map<string, Call>>();
  const whole = fill(root, index, part, choice, 1, false);
  if (against) {
    const other = total(against, choice);
    if (other > 0) fill(root, index, against, choice, whole / other, true);
  }
  order(root);
  return root;
}

function call(name: string, module: string, flags: number, parent: Call | null): Call {
  const depth = parent ? parent.depth + 1 : 0;
  return { name, module, flags, ns: 0, samples: 0, before: 0, children: [], parent, depth };
}

/** Adds the samples of a part, and returns their time. */
function fill(
  root: Call,
  index: Map<Call, Map<string, Call>>,
  part: ProfilePart,
  choice: Choice,
  scale: number,
  before: boolean,
): number {
  const names = part.digests.length > 0 ? fingerprints(part) : new Map<string, string>();
  let sum = 0;
  eachTaken(part, choice, (entry) => {
    const ns = (part.entries.ns[entry] ?? 0) * scale;
    const samples = before ? 0 : (part.entries.samples[entry] ?? 0);
    sum += ns;
    let at = root;
    add(at, ns, samples, before);
    const group = groupOf(part, part.entries.who[entry] ?? -1, choice.root, names);
    if (group !== null) {
      at = child(index, at, group, "", 8);
      add(at, ns, samples, before);
    }
    for (const frame of stack(part, part.entries.node[entry] ?? -1, choice.inverted)) {
      at = child(
        index,
        at,
        part.strings[part.frames.name[frame] ?? -1] ?? "[damaged]",
        part.strings[part.frames.module[frame] ?? -1] ?? "",
        part.frames.flags[frame] ?? 0,
      );
      add(at, ns, samples, before);
    }
  });
  return sum;
}

function add(at: Call, ns: number, samples: number, before: boolean): void {
  if (before) at.before += ns;
  else at.ns += ns;
  at.samples += samples;
}

function child(
  index: Map<Call, Map<string, Call>>,
  parent: Call,
  name: string,
  module: string,
  flags: number,
): Call {
  let known = index.get(parent);
  if (!known) index.set(parent, (known = new Map()));
  const key = `${flags}\0${module}\0${name}`;
  let found = known.get(key);
  if (!found) {
    found = call(name, module, flags, parent);
    parent.children.push(found);
    known.set(key, found);
  }
  return found;
}

/** Children by name, so that a function stands at the same place in every view. */
function order(root: Call): void {
  const open = [root];
  for (let at = open.pop(); at; at = open.pop()) {
    at.children.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    open.push(...at.children);
  }
}

/** Calls `each` with the number of every entry of the choice. */
function eachTaken(part: ProfilePart, choice: Choice, each: (entry: number) => void): void {
  const { kind, who, ns } = part.entries;
  for (let entry = 0; entry < ns.length; entry += 1) {
    if (kind[entry] !== choice.kind) continue;
    const whose = part.whos[who[entry] ?? -1];
    if (choice.process !== null && whose?.process !== choice.process) continue;
    if (choice.digest !== null && whose?.digest !== choice.digest) continue;
    each(entry);
  }
}

/** The time of a choice, ns. */
export function total(part: ProfilePart, choice: Choice): number {
  let sum = 0;
  eachTaken(part, choice, (entry) => (sum += part.entries.ns[entry] ?? 0));
  return sum;
}

/** Frames of a node, outermost first unless `inverted`. */
function stack(part: ProfilePart, node: number, inverted: boolean): number[] {
  const frames: number[] = [];
  const { parent, frame } = part.nodes;
  // A parent stands before its child, so this ends.
  for (let at = node; at >= 0 && at < frame.length; ) {
    frames.push(frame[at] ?? -1);
    const next = parent[at] ?? -1;
    at = next < at ? next : -1;
  }
  return inverted ? frames : frames.reverse();
}

export function fingerprints(part: ProfilePart): Map<string, string> {
  return new Map(part.digests.map(({ digest, fingerprint }) => [digest, fingerprint]));
}

function groupOf(
  part: ProfilePart,
  who: number,
  root: Root,
  names: Map<string, string>,
): string | null {
  const whose = part.whos[who];
  if (root === "all") return null;
  if (!whose) return "[damaged]";
  if (root === "role") return whose.role;
  if (root === "process") return whose.process;
  if (root === "thread") return whose.thread ?? whose.role;
  if (whose.digest === null) return NO_STATEMENT;
  return names.get(whose.digest) || whose.digest;
}

/** A rectangle of the drawing; `row` is counted from the first. */
export interface Rectangle {
  call: Call;
  x: number;
  width: number;
  row: number;
}

/** Narrower than this is not drawn: it cannot be seen. */
const WIDTH_MIN = 0.4;

/** The rectangles below `focus`, which is as wide as the drawing; its callers stand above it. */
export function layout(focus: Call, width: number): Rectangle[] {
  const shown: Rectangle[] = [];
  const callers: Call[] = [];
  for (let at = focus.parent; at; at = at.parent) callers.unshift(at);
  callers.forEach((at, row) => shown.push({ call: at, x: 0, width, row }));
  const scale = focus.ns > 0 ? width / focus.ns : 0;
  const open: Rectangle[] = [{ call: focus, x: 0, width, row: callers.length }];
  for (let at = open.pop(); at; at = open.pop()) {
    shown.push(at);
    let x = at.x;
    for (const next of at.call.children) {
      const wide = next.ns * scale;
      if (wide >= WIDTH_MIN) open.push({ call: next, x, width: wide, row: at.row + 1 });
      x += wide;
    }
  }
  return shown;
}

/** What names must have, ignoring case: a regular expression if it is one, else these letters. */
export function matcher(text: string): ((name: string) => boolean) | null {
  if (text.trim() === "") return null;
  try {
    const expression = new RegExp(text, "i");
    return (name) => expression.test(name);
  } catch {
    const wanted = text.toLowerCase();
    return (name) => name.toLowerCase().includes(wanted);
  }
}

/** Time in and below calls that match, each moment once. */
export function found(root: Call, matches: (name: string) => boolean): number {
  let sum = 0;
  const open = [root];
  for (let at = open.pop(); at; at = open.pop()) {
    if (at.depth > 0 && matches(at.name)) sum += at.ns;
    else open.push(...at.children);
  }
  return sum;
}

/** Functions of a choice, most time of their own first. */
export function functions(part: ProfilePart, choice: Choice): FunctionSum[] {
  const sums = new Map<string, FunctionSum>();
  const ofFrame = part.frames.name.map((name, frame) => {
    const words = part.strings[name] ?? "[damaged]";
    const module = part.strings[part.frames.module[frame] ?? -1] ?? "";
    const key = `${module}\0${words}`;
    let sum = sums.get(key);
    if (!sum) {
      sum = { name: words, module, self: 0, total: 0, samples: 0 };
      sums.set(key, sum);
    }
    return sum;
  });
  const none: FunctionSum = { name: "[no stack]", module: "", self: 0, total: 0, samples: 0 };
  eachTaken(part, choice, (entry) => {
    const ns = part.entries.ns[entry] ?? 0;
    const seen = new Set<FunctionSum>();
    const frames = stack(part, part.entries.node[entry] ?? -1, true);
    frames.forEach((frame) => {
      const sum = ofFrame[frame];
      // One that calls itself counts once.
      if (sum && !seen.has(sum)) sum.total += ns;
      if (sum) seen.add(sum);
    });
    const own = ofFrame[frames[0] ?? -1] ?? none;
    own.self += ns;
    own.samples += part.entries.samples[entry] ?? 0;
    if (own === none) own.total += ns;
  });
  return [...sums.values(), none]
    .filter(({ total }) => total > 0)
    .sort((a, b) => b.self - a.self || b.total - a.total);
}

/** Folded stacks of a tree, as other programs read them: a line each. */
export function folded(root: Call): string {
  const lines: string[] = [];
  const walk = (at: Call, path: string[]): void => {
    const own = at.ns - at.children.reduce((sum, { ns }) => sum + ns, 0);
    if (own >= 0.5 && path.length > 0) lines.push(`${path.join(";")} ${Math.round(own)}`);
    for (const next of at.children) walk(next, [...path, plain(next.name)]);
  };
  walk(root, []);
  return `${lines.join("\n")}\n`;
}

/** A name that neither ends a call, nor a line, nor looks like a weight. */
function plain(name: string): string {
  // Control characters are what this is for.
  // eslint-disable-next-line no-control-regex
  const safe = name.replace(/;/g, ":").replace(/[\u0000-\u001f\u007f-\u009f\s]+/g, " ").trim();
  if (safe === "") return "[unknown]";
  return /(^# | [\d.]+$)/.test(safe) ? safe.replace(/ /g, "_") : safe;
}
