// A flame graph on the page: drawn, zoomed by a click, searched, explained below the pointer.

import { h, onWidth, svg } from "./dom";
import { type Call, type Rectangle, found, layout, matcher } from "./flame";
import { count, latency, plain, signed } from "./format";

const ROW = 18;
/** Pixels of a letter, about. */
const LETTER = 6.4;
const TEXT_MIN = 22;

/** Hue and saturation by kind: warm on CPU, blue off CPU, violet runnable. */
const HUES: [from: number, to: number, saturation: number][] = [
  [12, 52, 84],
  [195, 232, 66],
  [262, 300, 48],
];

export interface FlameView {
  place: HTMLElement;
  /** Shows another tree; `compared` colours by the difference. */
  show: (root: Call, kind: number, compared: boolean) => void;
  search: (text: string) => void;
  reset: () => void;
}

export function flameView(): FlameView {
  const drawing = h("div", { class: "graph flame" });
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  let root: Call | null = null;
  let focus: Call | null = null;
  let [kind, compared, width, wanted] = [0, false, 0, ""];
  let shown: Rectangle[] = [];

  const draw = (): void => {
    if (!root || !focus || width === 0) return;
    if (root.ns <= 0) {
      shown = [];
      drawing.replaceChildren(h("p", { class: "caption" }, "Nothing was sampled of this choice."));
      readout.replaceChildren();
      return;
    }
    shown = layout(focus, width);
    drawing.replaceChildren(drawn(shown, { root, focus, kind, compared, width, wanted }));
    explain(null);
  };
  const explain = (call: Call | null): void => {
    if (!root) return;
    readout.replaceChildren(call ? words(call, root, compared) : resting(root, wanted));
  };
  const callAt = (event: Event): Call | null => {
    const target = event.target instanceof Element ? event.target.closest("[data-at]") : null;
    return target ? (shown[Number(target.getAttribute("data-at"))]?.call ?? null) : null;
  };
  drawing.addEventListener("mousemove", (event) => explain(callAt(event)));
  drawing.addEventListener("mouseleave", () => explain(null));
  drawing.addEventListener("click", (event) => {
    const call = callAt(event);
    if (!call) return;
    focus = call;
    draw();
    explain(call);
  });
  onWidth(drawing, (now) => {
    width = now;
    draw();
  });
  return {
    place: h("div", {}, drawing, readout),
    show: (tree, ofKind, isCompared) => {
      [root, focus, kind, compared] = [tree, tree, ofKind, isCompared];
      draw();
    },
    search: (text) => {
      wanted = text;
      draw();
    },
    reset: () => {
      focus = root;
      draw();
    },
  };
}

interface Look {
  root: Call;
  focus: Call;
  kind: number;
  compared: boolean;
  width: number;
  wanted: string;
}

function drawn(shown: Rectangle[], look: Look): SVGElement {
  const rows = shown.reduce((most, { row }) => Math.max(most, row), 0) + 1;
  const height = rows * ROW + 1;
  const matches = matcher(look.wanted);
  return svg(
    "svg",
    {
      width: look.width,
      height,
      viewBox: `0 0 ${look.width} ${height}`,
      role: "img",
      "aria-label": spoken(look),
    },
    ...shown.map((at, index) => {
      const hit = matches !== null && at.call.depth > 0 && matches(at.call.name);
      const box = svg("rect", {
        x: at.x,
        y: at.row * ROW,
        width: Math.max(at.width - 0.6, 0.3),
        height: ROW - 1,
        fill: hit ? "#d63ad6" : fill(at.call, look),
        "fill-opacity": at.row < look.focus.depth ? 0.5 : 1,
      });
      const label =
        at.width < TEXT_MIN
          ? null
          : svg("text", { x: at.x + 3, y: at.row * ROW + 13 }, fit(at.call.name, at.width));
      return svg("g", { "data-at": index }, box, label);
    }),
  );
}

function fit(name: string, width: number): string {
  const most = Math.floor((width - 6) / LETTER);
  return name.length <= most ? name : `${name.slice(0, Math.max(most - 1, 0))}…`;
}

function fill(call: Call, look: Look): string {
  if (look.compared && call.depth > 0) return difference(call, look.root);
  if (call.flags & 8) return "hsl(210 8% 78%)";
  if (call.flags & 4) return "hsl(0 0% 70%)";
  const [from, to, saturation] = HUES[look.kind] ?? [12, 52, 84];
  const place = hash(call.name);
  const hue = from + (to - from) * place;
  // The kernel's calls are paler than those of programs.
  const light = 66 + 8 * hash(`${call.module} ${call.name}`) + (call.flags & 2 ? 9 : 0);
  const strong = call.flags & 2 ? saturation * 0.6 : saturation;
  return `hsl(${hue.toFixed(0)} ${strong.toFixed(0)}% ${light.toFixed(0)}%)`;
}

/** Red: a larger share than before, blue: a smaller one; white: the same. */
function difference(call: Call, root: Call): string {
  const change = (call.ns - call.before) / Math.max(call.ns, call.before, root.ns / 1000);
  const light = 94 - 34 * Math.min(1, Math.abs(change));
  return `hsl(${change > 0 ? 6 : 214} 82% ${light.toFixed(0)}%)`;
}

/** A number from 0 to 1 that a name always has. */
function hash(name: string): number {
  let value = 2166136261;
  for (let at = 0; at < name.length; at += 1)
    value = Math.imul(value ^ name.charCodeAt(at), 16777619);
  return (value >>> 8) / 0xffffff;
}

function share(ns: number, of: Call): string {
  return `${plain((100 * ns) / Math.max(of.ns, 1), 2)}%`;
}

function words(call: Call, root: Call, compared: boolean): HTMLElement {
  const own = call.ns - call.children.reduce((sum, { ns }) => sum + ns, 0);
  const module = call.module === "" ? "" : ` (${call.module})`;
  const inlined = call.flags & 1 ? ", inlined" : "";
  const points = (100 * (call.ns - call.before)) / Math.max(root.ns, 1);
  return h(
    "span",
    {},
    h("b", {}, call.name),
    `${module}${inlined}: ${latency(call.ns / 1000)}, ${share(call.ns, root)} of all; `,
    `itself ${latency(Math.max(0, own) / 1000)}; ${count(call.samples)} samples`,
    compared ? `; ${signed(points, 2)} points of the whole` : "",
  );
}

function resting(root: Call, wanted: string): HTMLElement {
  const all = `${latency(root.ns / 1000)} in ${count(root.samples)} samples`;
  const matches = matcher(wanted);
  if (!matches) return h("span", {}, `${all}. Click a call to enlarge it.`);
  const ns = found(root, matches);
  return h("span", {}, `${all}; “${wanted}” is in ${share(ns, root)} of it.`);
}

function spoken(look: Look): string {
  const widest = [...look.focus.children].sort((a, b) => b.ns - a.ns).slice(0, 3);
  const parts = widest.map((call) => `${call.name} ${share(call.ns, look.root)}`);
  return `Flame graph of ${latency(look.root.ns / 1000)}. Widest: ${parts.join("; ")}.`;
}
