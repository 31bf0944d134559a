// Who waits for whom: the graph of roles, what requests were made of, waits by stack.

import { type Part, bar, key, stateColour } from "./bars";
import { PAGE, h, onWidth, section, svg } from "./dom";
import { count, latency, plain } from "./format";
import { figuresTable } from "./table";
import type { WaitsEdge, WaitsReport, WaitsRequest, WaitsRow } from "./trace";

/** Edges that are drawn; the table below has as many again. */
const DRAWN = 16;
const ROWS = 30;
const LINE = 30;

export function waitsParts(report: WaitsReport): (HTMLElement | null)[] {
  return [summary(report), graph(report), requests(report), slowest(report), waits(report)];
}

function summary(report: WaitsReport): HTMLElement {
  const rows: [string, string][] = [
    ["Waits that ended", count(report.ended)],
    ["Flagged: records were lost", count(report.flagged)],
    ["Ended unannounced", count(report.unannounced)],
    ["Still waiting at the end", count(report.still_waiting)],
    ["Stacks", `${count(report.stacks.different)} different, ${count(report.stacks.cut)} cut`],
    ...Object.entries(report.files).map(([what, file]): [string, string] => [what, file]),
  ];
  return section(
    PAGE,
    "summary",
    "What was seen",
    h(
      "dl",
      { class: "facts" },
      ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
  );
}

/** Waiters to the left, who woke them to the right; a line is as wide as its share of the time. */
function graph(report: WaitsReport): HTMLElement | null {
  const edges = report.edges.filter(({ all }) => all.blocked_ns > 0).slice(0, DRAWN);
  if (edges.length === 0) return null;
  const place = h("div", { class: "graph" });
  onWidth(place, (width) => place.replaceChildren(drawn(edges, width)));
  return section(
    PAGE,
    "graph",
    "Who waits for whom",
    h(
      "p",
      { class: "caption" },
      "To the left who waited, to the right who ended it; a line is as wide as the time blocked. ",
      "Orange: within requests.",
    ),
    place,
    figuresTable({
      name: "study",
      caption: `The first ${Math.min(ROWS, report.edges.length)} of ${report.edges.length} pairs.`,
      rowTitle: "waiter",
      columns: [
        { group: "", title: "woken by", unit: "" },
        { group: "all waits", title: "count", unit: "" },
        { group: "all waits", title: "blocked", unit: "" },
        { group: "all waits", title: "then runnable", unit: "" },
        { group: "all waits", title: "longest", unit: "" },
        { group: "within requests", title: "count", unit: "" },
        { group: "within requests", title: "blocked", unit: "" },
      ],
      rows: report.edges.slice(0, ROWS).map((edge) => ({
        label: [edge.waiter],
        values: [
          edge.woken_by,
          count(edge.all.count),
          latency(edge.all.blocked_ns / 1000),
          latency(edge.all.runnable_ns / 1000),
          latency(edge.all.longest_ns / 1000),
          count(edge.in_requests.count),
          latency(edge.in_requests.blocked_ns / 1000),
        ],
      })),
      place: h("div", { class: "scroll" }),
    }),
  );
}

function drawn(edges: WaitsEdge[], width: number): SVGElement {
  const left = [...new Set(edges.map(({ waiter }) => waiter))];
  const right = [...new Set(edges.map(({ woken_by }) => woken_by))];
  const height = LINE * Math.max(left.length, right.length) + 8;
  const label = Math.min(230, Math.floor(width * 0.32));
  const most = Math.max(...edges.map(({ all }) => all.blocked_ns));
  const y = (index: number, of: number): number => ((index + 0.5) * (height - 8)) / of + 4;
  const lines = edges.map((edge) => {
    const from = y(left.indexOf(edge.waiter), left.length);
    const to = y(right.indexOf(edge.woken_by), right.length);
    const [x1, x2] = [label + 6, width - label - 6];
    const middle = (x1 + x2) / 2;
    const inside = edge.in_requests.blocked_ns > edge.all.blocked_ns / 2;
    const words =
      `${edge.waiter} waited ${latency(edge.all.blocked_ns / 1000)} ` +
      `in ${count(edge.all.count)} waits until ${edge.woken_by} woke it`;
    return svg(
      "path",
      {
        d: `M${x1},${from} C${middle},${from} ${middle},${to} ${x2},${to}`,
        fill: "none",
        stroke: inside ? "var(--arm-orange)" : "var(--arm-blue)",
        "stroke-opacity": 0.55,
        "stroke-width": Math.max(1, (14 * edge.all.blocked_ns) / most),
      },
      svg("title", {}, words),
    );
  });
  const text = (name: string, x: number, at: number, anchor: string): SVGElement =>
    svg("text", { x, y: at + 4, "text-anchor": anchor }, fit(name, label), svg("title", {}, name));
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(edges) },
    ...lines,
    ...left.map((name, index) => text(name, label, y(index, left.length), "end")),
    ...right.map((name, index) => text(name, width - label, y(index, right.length), "start")),
  );
}

/** A name that fits the room, at about 7 pixels a letter. */
function fit(name: string, room: number): string {
  const most = Math.max(4, Math.floor(room / 7));
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

function spoken(edges: WaitsEdge[]): string {
  const first = edges
    .slice(0, 3)
    .map((edge) => [edge.waiter, "for", edge.woken_by, latency(edge.all.blocked_ns / 1000)])
    .map((words) => words.join(" "));
  return `Who waits for whom, most first: ${first.join("; ")}.`;
}

function state(name: string): Part {
  const shown = name === "on-cpu" ? "on CPU" : name === "unseen" ? "unknown" : name;
  return { name: shown, ns: 0, variable: stateColour(shown) };
}

function requests(report: WaitsReport): HTMLElement | null {
  const { count: number, latency_us: time, split_ns, path, flagged } = report.requests;
  if (number === 0) return null;
  const split = Object.entries(split_ns)
    .filter(([, ns]) => ns > 0)
    .map(([name, ns]) => ({ ...state(name), ns }));
  const whole = split.reduce((sum, { ns }) => sum + ns, 0);
  return section(
    PAGE,
    "requests",
    "Requests",
    h(
      "p",
      { class: "caption" },
      `${count(number)} requests (${count(flagged)} flagged): `,
      `${latency(time.mean_us)} on average, p50 ${latency(time.p50_us)}, `,
      `p99 ${latency(time.p99_us)}, at most ${latency(time.max_us)}.`,
    ),
    bar(split, whole),
    key(split),
    path.length === 0
      ? null
      : figuresTable({
          name: "study",
          caption: "Whose doing the time of the slowest requests was: the critical path.",
          rowTitle: "who",
          columns: [
            { group: "", title: "did what", unit: "" },
            { group: "", title: "time", unit: "" },
            { group: "", title: "share", unit: "%" },
          ],
          rows: path.slice(0, ROWS).map((part) => ({
            label: [part.role],
            values: [part.doing, latency(part.ns / 1000), plain(100 * part.share, 1)],
          })),
          place: h("div", { class: "scroll" }),
        }),
  );
}

function slowest(report: WaitsReport): HTMLElement | null {
  const list = report.requests.slowest;
  if (list.length === 0) return null;
  const longest = Math.max(...list.map(({ ns }) => ns));
  const names = [...new Set(list.flatMap(({ segments }) => segments.map(({ doing }) => doing)))];
  return section(
    PAGE,
    "slowest",
    "The slowest requests",
    key(names.map(state)),
    ...list.map((request) => slow(request, longest)),
  );
}

function slow(request: WaitsRequest, longest: number): HTMLElement {
  const parts = request.segments.map((part) => ({
    ...state(part.doing),
    ns: part.ns,
    title: `${part.thread}: ${part.doing} ${latency(part.ns / 1000)}`,
  }));
  return h(
    "details",
    { class: "wait" },
    h(
      "summary",
      {},
      h("b", {}, latency(request.ns / 1000)),
      ` ${request.thread} (${request.role})`,
      bar(parts, longest),
    ),
    h(
      "ul",
      {},
      ...request.segments.map((part) =>
        h(
          "li",
          { style: `margin-left:${part.depth * 18}px` },
          `${latency(part.ns / 1000)} ${part.thread} (${part.role}): ${part.doing}`,
          part.stack.length === 0 ? "" : h("small", {}, ` ${part.stack.slice(0, 4).join(" < ")}`),
        ),
      ),
    ),
  );
}

function waits(report: WaitsReport): HTMLElement | null {
  if (report.waits.length === 0) return null;
  const shown = report.waits.slice(0, ROWS);
  const most = Math.max(...shown.map(({ blocked_ns }) => blocked_ns));
  return section(
    PAGE,
    "stacks",
    "Waits by where they were",
    h("p", { class: "caption" }, `The first ${shown.length} of ${count(report.waits.length)}.`),
    ...shown.map((row) => wait(row, most)),
  );
}

function wait(row: WaitsRow, most: number): HTMLElement {
  const frames = (list: string[]): HTMLElement =>
    h("ol", { class: "stack" }, ...list.map((frame) => h("li", {}, h("code", {}, frame))));
  const part = { name: row.kind, ns: row.blocked_ns, variable: stateColour(row.kind) };
  return h(
    "details",
    { class: "wait" },
    h(
      "summary",
      {},
      h("b", {}, latency(row.blocked_ns / 1000)),
      ` ${row.role}: ${row.kind}, ${count(row.count)} waits, woken by ${row.woken_by}`,
      row.in_request ? ", within requests" : "",
      bar([part], most),
    ),
    frames(row.stack),
    h("p", { class: "chart-title" }, "Who ended it was at"),
    frames(row.waker_stack),
  );
}
