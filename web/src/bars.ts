// Bars in which parts stand beside each other to scale: what a time was made of.

import { h } from "./dom";
import { latency } from "./format";

export interface Part {
  name: string;
  ns: number;
  /** CSS variable of its colour. */
  variable: string;
  title?: string;
}

const COLOURS = [
  "--arm-blue",
  "--arm-orange",
  "--arm-green",
  "--arm-purple",
  "--arm-red",
  "--arm-sky",
  "--arm-again",
  "--arm-base",
];

/** The colour of the part with this number. */
export function partColour(index: number): string {
  return COLOURS[index % COLOURS.length] ?? "--arm-base";
}

/** What a thread does has the same colour everywhere. */
const STATES: Record<string, string> = {
  "on CPU": "--arm-green",
  queued: "--arm-purple",
  runnable: "--arm-sky",
  futex: "--arm-blue",
  disk: "--arm-orange",
  network: "--arm-again",
  sleep: "--faint",
  other: "--arm-base",
  unknown: "--margin",
};

export function stateColour(state: string): string {
  return STATES[state] ?? "--arm-red";
}

/** Parts to scale; `whole_ns` is as wide as the page, so that bars of several rows compare. */
export function bar(parts: Part[], whole_ns: number): HTMLElement {
  const sum = parts.reduce((all, part) => all + part.ns, 0);
  const words = parts
    .filter(({ ns }) => ns > 0)
    .map(({ name, ns }) => `${name} ${latency(ns / 1000)}`)
    .join(", ");
  return h(
    "div",
    { class: "parts", role: "img", "aria-label": words === "" ? "nothing" : words },
    ...parts
      .filter(({ ns }) => ns > 0)
      .map(({ name, ns, variable, title }) =>
        h("span", {
          style: `width:${(100 * ns) / Math.max(whole_ns, sum, 1)}%;background:var(${variable})`,
          title: title ?? `${name}: ${latency(ns / 1000)}`,
        }),
      ),
  );
}

/** Names with their colours. */
export function key(parts: { name: string; variable: string }[]): HTMLElement {
  return h(
    "p",
    { class: "key" },
    ...parts.map(({ name, variable }) =>
      h("span", {}, h("i", { style: `background:var(${variable})` }), name),
    ),
  );
}
