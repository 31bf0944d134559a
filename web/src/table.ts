// A table of figures with intervals. On a narrow screen each row becomes a card of labelled
// figures; the roles keep it a table for assistive technology.

import { h } from "./dom";
import { ABSENT, decimals, percent, signed } from "./format";
import type { Difference, Ratio } from "./lab";

export interface Column {
  group: string;
  title: string;
  unit: string;
  /** The whole name in a few words, for a card; group, title and unit if left out. */
  card?: string;
}

export interface Row {
  label: (Node | string)[];
  values: (Node | string)[];
  attributes?: Record<string, string | null>;
}

interface Spec {
  caption: string;
  rowTitle: string;
  columns: Column[];
  rows: Row[];
  /** What the table is put into: it may be wider than the page. */
  place: HTMLElement;
  name?: string;
}

export function figuresTable(spec: Spec): HTMLElement {
  const { columns } = spec;
  spec.place.append(
    h(
      "table",
      { class: `figures ${spec.name ?? ""}`.trim(), role: "table" },
      h("caption", {}, spec.caption),
      head(spec),
      h(
        "tbody",
        { role: "rowgroup" },
        ...spec.rows.map((row) =>
          h(
            "tr",
            { role: "row", ...row.attributes },
            h(
              "th",
              { role: "rowheader", scope: "row", class: "name", "data-title": spec.rowTitle },
              ...row.label,
            ),
            ...columns.map((column, index) => cell(columns, column, index, row.values[index])),
          ),
        ),
      ),
    ),
  );
  return spec.place;
}

function head(spec: Spec): HTMLElement {
  const { columns } = spec;
  const grouped = columns.some(({ group }) => group !== "");
  const name = h(
    "th",
    { role: "columnheader", scope: "col", rowspan: grouped ? 2 : null, class: "name" },
    spec.rowTitle,
  );
  const titles = columns.map((column, index) =>
    h(
      "th",
      { role: "columnheader", scope: "col", class: first(columns, index) },
      column.title,
      h("small", {}, column.unit),
    ),
  );
  const rows = grouped ? [[name, ...groups(columns)], titles] : [[name, ...titles]];
  return h(
    "thead",
    { role: "rowgroup" },
    ...rows.map((cells) => h("tr", { role: "row" }, ...cells)),
  );
}

function groups(columns: Column[]): HTMLElement[] {
  const cells: HTMLElement[] = [];
  for (let index = 0; index < columns.length;) {
    const group = columns[index]?.group ?? "";
    let span = 1;
    while (columns[index + span]?.group === group && index + span < columns.length) span += 1;
    const classes = group === "" ? "group bare" : "group";
    cells.push(
      h(
        "th",
        { role: "columnheader", scope: "colgroup", colspan: span, class: classes },
        h("span", {}, group),
      ),
    );
    index += span;
  }
  return cells;
}

/** Class of the first column of a group, which stands a little apart. */
function first(columns: Column[], index: number): string | null {
  return columns[index]?.group === columns[index - 1]?.group ? null : "first";
}

function cell(
  columns: Column[],
  column: Column,
  index: number,
  content: Node | string | undefined,
): HTMLElement {
  const shown = content ?? ABSENT;
  const words = typeof shown === "string" ? shown : (shown.textContent ?? "");
  const classes = [first(columns, index), words === ABSENT ? "absent" : null].filter(
    (name) => name !== null,
  );
  // That the second line is the interval goes without saying on a card.
  const plainUnit = column.unit.replace(/,? ?95% CI$/, "");
  const unit = plainUnit === "" ? "" : `, ${plainUnit}`;
  return h(
    "td",
    {
      role: "cell",
      class: classes.join(" ") || null,
      "data-label": column.card ?? `${column.group} ${column.title}${unit}`.trim(),
      "data-group": column.group,
    },
    shown,
  );
}

/** A difference with its interval below it. */
export function estimate(d: Difference | null): Node | string {
  if (!d) return ABSENT;
  const digits = decimals((d.high - d.low) / 2, 1);
  return interval(signed(d.delta, digits), signed(d.low, digits), signed(d.high, digits));
}

/** A ratio as percent of change, with its interval below it. */
export function change(ratio: Ratio | null): Node | string {
  if (!ratio) return ABSENT;
  return interval(percent(ratio.estimate), percent(ratio.low), percent(ratio.high));
}

/** A figure with its interval below it. */
export function interval(value: string, low: string, high: string): Node {
  return h("span", { class: "figure" }, value, h("small", {}, `${low} to ${high}`));
}
