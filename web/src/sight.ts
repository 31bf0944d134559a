// What each arm lets one see, and what switches it on: a cost means little without its yield.

import { type Place, h, section } from "./dom";
import { count, plain } from "./format";
import type { Arm, ProbeFacts } from "./lab";

/** The arms with what they see; null when nobody said. */
export function sight(arms: Arm[], probes: ProbeFacts[], place: Place): HTMLElement | null {
  const told = arms.filter(
    (arm) =>
      arm.sees !== null ||
      arm.switched_by.length > 0 ||
      probes.some((probe) => probe.arm === arm.name),
  );
  if (told.length === 0) return null;
  const rows = told.map((arm) =>
    h(
      "div",
      {},
      h("dt", {}, arm.label),
      h("dd", {}, arm.sees ?? "Not stated.", ...switches(arm), ...probeLines(arm, probes)),
    ),
  );
  return section(place, "sight", "What each arm can see", h("dl", { class: "sight" }, ...rows));
}

function switches(arm: Arm): HTMLElement[] {
  return arm.switched_by.length === 0
    ? []
    : [h("p", { class: "caption" }, "On by ", ...codes(arm.switched_by))];
}

function codes(list: string[]): (HTMLElement | string)[] {
  return list.flatMap((text, index) =>
    index === 0 ? [h("code", {}, text)] : [", ", h("code", {}, text)],
  );
}

function probeLines(arm: Arm, probes: ProbeFacts[]): HTMLElement[] {
  const seen = new Set<string>();
  return probes
    .filter((probe) => {
      const isNew = probe.arm === arm.name && !seen.has(probe.place);
      if (isNew) seen.add(probe.place);
      return isNew;
    })
    .map((probe) => {
      const facts = [
        probe.mode ?? "mode unknown",
        probe.hits === null ? null : `${count(probe.hits)} hits`,
        probe.program_ns === null
          ? null
          : `${plain(probe.program_ns, 0)} ns a hit in its program, the trap not counted`,
      ].filter((fact) => fact !== null);
      return h(
        "p",
        { class: "caption" },
        "Probe at ",
        h("code", {}, probe.place),
        `: ${facts.join(", ")}`,
      );
    });
}
