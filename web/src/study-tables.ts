// The article's tables with our figures in them, and the list of what was published.

import { PAGE, h, section } from "./dom";
import { csvCell } from "./facts";
import { ABSENT, decimals, plain, signed } from "./format";
import type { Published, StudyReport, StudyTable, StudyValue } from "./study";
import { figuresTable, interval } from "./table";

export function studyTables(study: StudyReport): HTMLElement[] {
  const known = new Set(study.cells.map(({ id }) => id));
  return study.tables.map((table, index) =>
    section(
      PAGE,
      `table${index}`,
      table.title,
      ...(table.rows.length === 0
        ? [h("p", { class: "caption" }, "Nothing was measured for this table.")]
        : filled(table, known)),
    ),
  );
}

function filled(table: StudyTable, known: Set<string>): HTMLElement[] {
  return [
    figuresTable({
      name: "study",
      caption: table.caption,
      rowTitle: table.row_title,
      columns: table.columns,
      rows: table.rows.map((row) => ({
        label: [label(row.label, row.cell, known)],
        values: table.columns.map((_, at) => show(row.values[at])),
      })),
      place: h("div", { class: "scroll" }),
    }),
    ...reasons(table),
  ];
}

/** A row's label; it leads to the cell its figures come from. */
function label(text: string, cell: string | null, known: Set<string>): Node | string {
  return cell !== null && known.has(cell)
    ? h("a", { href: `#${cellAnchor(cell)}`, class: "label" }, text)
    : h("span", { class: "label" }, text);
}

/** The id of a cell's element; cells may be named by anything. */
export function cellAnchor(id: string): string {
  return `cell-${encodeURIComponent(id)}`;
}

/** A value as it stands in a table. */
export function show(value: StudyValue | null | undefined): Node | string {
  if (!value) return ABSENT;
  switch (value.kind) {
    case "estimate":
    case "level": {
      const { value: middle, low, high } = value;
      if (middle === null || low === null || high === null) return ABSENT;
      const digits = decimals((high - low) / 2, 1);
      const print = value.kind === "level" ? plain : signed;
      const parts = [middle, low, high].map((part) => print(part, digits));
      const figure = interval(parts[0] ?? "", parts[1] ?? "", parts[2] ?? "");
      return value.kind === "estimate" && value.unclaimed
        ? h("span", { class: "unclaimed", title: "not claimed: the A/A check failed" }, figure)
        : figure;
    }
    case "plain":
      return value.value === null ? ABSENT : plain(value.value, Math.min(value.digits, 6));
    case "published":
      return value.value === null
        ? ABSENT
        : h("span", { class: "published" }, plain(value.value, Math.min(value.digits, 6)));
    case "text":
      return value.text;
    default:
      return ABSENT;
  }
}

/** Why figures are missing, each reason once with the rows it holds for. */
function reasons(table: StudyTable): HTMLElement[] {
  const why = new Map<string, string[]>();
  for (const row of table.rows) {
    for (const value of row.values) {
      if (value.kind !== "absent" || value.why === "") continue;
      const rows = why.get(value.why) ?? [];
      if (!rows.includes(row.label)) rows.push(row.label);
      why.set(value.why, rows);
    }
  }
  if (why.size === 0) return [];
  const items = [...why].map(([reason, rows]) => {
    const where = rows.length === table.rows.length ? "every row" : rows.join("; ");
    return h("li", {}, `${ABSENT} ${reason} `, h("small", {}, `(${where})`));
  });
  return [h("ul", { class: "reasons" }, ...items)];
}

/** What others published, with their words and ours beside it; null when there is none. */
export function publishedFigures(study: StudyReport): HTMLElement | null {
  if (study.published.length === 0) return null;
  const sources = [...new Set(study.published.map(({ source }) => source))];
  return section(
    PAGE,
    "published",
    "Published figures",
    figuresTable({
      name: "study",
      caption:
        "What others measured, on their machines, beside what this run measured on this one. " +
        "Theirs are single means; none was published with an interval.",
      rowTitle: "figure",
      columns: [
        { group: "", title: "published", unit: "" },
        { group: "", title: "here", unit: "95% CI" },
      ],
      rows: study.published.map((figure) => ({
        label: [
          h("span", { class: "label" }, figure.what),
          h("small", {}, `${figure.unit} · source ${sources.indexOf(figure.source) + 1}`),
        ],
        values: [published(figure), show(figure.ours)],
      })),
      place: h("div", { class: "scroll" }),
    }),
    h("ol", { class: "sources" }, ...sources.map((source) => h("li", {}, source))),
  );
}

function published(figure: Published): Node | string {
  if (figure.value === null) return ABSENT;
  // As many digits as were printed, which is as many as the number needs.
  return h("span", { class: "published" }, String(figure.value).replace("-", "−"));
}

/** Every value of every table on a line of its own, for other programs. */
export function tablesCsv(study: StudyReport): string {
  const head = ["table", "row", "cell", "column", "unit", "kind", "value", "low", "high", "text"];
  const rows = study.tables.flatMap((table) =>
    table.rows.flatMap((row) =>
      table.columns.map((column, index) => [
        table.id,
        row.label,
        row.cell,
        [column.group, column.title].filter(Boolean).join(" "),
        column.unit,
        ...parts(row.values[index]),
      ]),
    ),
  );
  return `${[head, ...rows].map((row) => row.map(csvCell).join(",")).join("\n")}\n`;
}

function parts(value: StudyValue | undefined): (string | number | null)[] {
  if (!value) return ["absent", null, null, null, null];
  switch (value.kind) {
    case "estimate":
      return [value.kind, value.value, value.low, value.high, value.unclaimed ? "unclaimed" : null];
    case "level":
      return [value.kind, value.value, value.low, value.high, null];
    case "plain":
    case "published":
      return [value.kind, value.value, null, null, null];
    case "text":
      return [value.kind, null, null, null, value.text];
    default:
      return ["absent", null, null, null, value.kind === "absent" ? value.why : null];
  }
}
