// The page of a study: the answer, the article's tables measured again, the curves, every cell.

import { agentCost } from "./agent";
import { cells } from "./cells";
import { curves } from "./curves";
import { PAGE, h } from "./dom";
import { CPU_NOTE, environment, facts, footer, notes, repeat, windowsCsv } from "./facts";
import { count, seconds, time } from "./format";
import { OUTCOMES } from "./forest";
import { overview } from "./overview";
import { sight } from "./sight";
import { type StudyCell, type StudyReport, allArms, cellTitle } from "./study";
import { publishedFigures, studyTables, tablesCsv } from "./study-tables";

export function studyPage(study: StudyReport, place: HTMLElement): void {
  const probes = study.cells.flatMap((cell) => cell.probes);
  const parts = [
    heading(study),
    ...studyTables(study),
    curves(study),
    overview(study),
    agentCost(study.agent),
    sight(allArms(study).arms, probes, PAGE),
    publishedFigures(study),
    cells(study),
    notes(study.cells.length > 0 ? [CPU_NOTE, ...study.notes] : study.notes, PAGE),
    environment(study.environment, study.server, study.waggle_version, probes),
    repeat(study.command, [
      {
        label: "Save the data (JSON)",
        file: `waggle-${study.name || "study"}.json`,
        type: "application/json",
        text: () => `${JSON.stringify(study, null, 1)}\n`,
      },
      {
        label: "Save the windows (CSV)",
        file: "waggle-windows.csv",
        type: "text/csv",
        text: () => windowsCsv(study.cells.map(({ id, windows }) => ({ cell: id, windows }))),
      },
      {
        label: "Save the tables (CSV)",
        file: "waggle-tables.csv",
        type: "text/csv",
        text: () => tablesCsv(study),
      },
    ]),
  ];
  place.append(...parts.filter((part) => part !== null));
  document.body.append(footer(study.waggle_version));
}

/** The cells of which nothing is claimed, by reason. */
function unclaimed(cells: StudyCell[]): HTMLElement[] {
  const tested = (cell: StudyCell): boolean =>
    cell.arms.some((arm) => arm.aa && OUTCOMES[cell.primary].value(arm) !== null);
  const groups: [StudyCell[], string][] = [
    [cells.filter(tested), "the base compared with itself came out different"],
    [
      cells.filter((cell) => !tested(cell)),
      "too little was measured to compare the base with itself",
    ],
  ];
  return groups
    .filter(([own]) => own.length > 0)
    .map(([own, why]) =>
      h(
        "p",
        { class: "caption" },
        `Nothing is claimed of ${own.map(cellTitle).join("; ")}: ${why}.`,
      ),
    );
}

function heading(study: StudyReport): HTMLElement {
  const kicker = document.getElementById("kicker");
  // An answer of several sentences is read, not shouted.
  if (study.answer.length > 140) document.querySelector("h1")?.classList.add("long");
  if (kicker) kicker.textContent = `waggle lab study ${study.name} · ${time(study.started)}`;
  const windows = study.cells.flatMap((cell) => cell.windows);
  const used = windows.filter((window) => !window.discarded).length;
  const spent = study.duration_s === null ? "unknown time" : seconds(study.duration_s);
  const unclean = study.cells.filter((cell) => !cell.aa_clean);
  const clean = study.cells.length - unclean.length;
  return h(
    "div",
    { class: "heading" },
    h("p", { class: "question" }, [study.title, study.question].filter(Boolean).join(". ")),
    facts(
      [
        ["Server", `${study.server.flavour} ${study.server.version}`],
        ["Cells", count(study.cells.length)],
        ["Measured", `${count(used)} windows in ${spent}`],
        ["Published figures", study.published.length > 0 ? count(study.published.length) : null],
        ["A/A check", `clean in ${clean} of ${study.cells.length} cells`],
      ],
      unclean.length === 0 ? "strip" : "strip failed",
    ),
    ...unclaimed(unclean),
  );
}
