// Every cell of a study with its whole evidence, folded: drawn when it is opened, for a study may
// have dozens with thousands of windows each.

import { PAGE, h, section } from "./dom";
import { list, load } from "./facts";
import { count } from "./format";
import { evidence } from "./lab-page";
import { type StudyCell, type StudyReport, cellAsLab } from "./study";
import { cellAnchor } from "./study-tables";

/** Null when the study has no cells. */
export function cells(study: StudyReport): HTMLElement | null {
  if (study.cells.length === 0) return null;
  const folded = study.cells.map((cell, index) => ({ cell, element: fold(study, cell, index) }));
  openTheNamed();
  return section(
    PAGE,
    "cells",
    "Every cell",
    h(
      "p",
      { class: "caption" },
      "Arms, intervals, windows and latencies of each; open one to see.",
    ),
    ...folded.flatMap(({ cell, element }, index) =>
      cell.part !== "" && cell.part !== study.cells[index - 1]?.part
        ? [h("h3", { class: "part" }, cell.part), element]
        : [element],
    ),
  );
}

function fold(study: StudyReport, cell: StudyCell, index: number): HTMLDetailsElement {
  const used = cell.windows.filter((window) => !window.discarded).length;
  const state = cell.aa_clean ? "A/A clean" : "A/A not clean: nothing is claimed";
  const element = h(
    "details",
    { class: cell.aa_clean ? "cell" : "cell unclean", id: cellAnchor(cell.id) },
    h(
      "summary",
      {},
      h("span", { class: "label" }, cell.title || cell.id),
      h("small", {}, ` ${load(cell.workload)} · ${count(used)} windows · ${state}`),
    ),
  );
  element.addEventListener("toggle", () => element.append(...inside(study, cell, index)), {
    once: true,
  });
  return element;
}

function inside(study: StudyReport, cell: StudyCell, index: number): HTMLElement[] {
  const report = cellAsLab(study, cell);
  const limits = cell.workload.limits.length > 0 ? `${cell.workload.limits.join("; ")}.` : "";
  const remarks = cell.notes.map((note) => h("li", {}, note));
  const settings = list("Settings of this cell", Object.entries(cell.settings));
  return [
    ...(limits === "" ? [] : [h("p", { class: "caption" }, limits)]),
    ...(remarks.length === 0 ? [] : [h("ul", { class: "notes" }, ...remarks)]),
    ...(settings === null ? [] : [settings]),
    ...evidence(report, { prefix: `c${index}-`, heading: "h3" }),
  ];
}

/** A link to a cell opens it. */
function openTheNamed(): void {
  const open = (): void => {
    const named = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (named instanceof HTMLDetailsElement) {
      named.open = true;
      named.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  addEventListener("DOMContentLoaded", open);
}
