// What the agent itself used: a bar of cores for every condition, and the figures beside it.

import { PAGE, h, onWidth, section, svg } from "./dom";
import { ABSENT, bytes, count, plain } from "./format";
import type { AgentCost } from "./study";
import { position, scaleWithZero } from "./scale";
import { figuresTable } from "./table";

const ROW = 26;
const FOOT = 34;

/** Null when the study did not measure the agent. */
export function agentCost(agent: AgentCost[]): HTMLElement | null {
  if (agent.length === 0) return null;
  const chart = h("div", { class: "chart forest" });
  onWidth(chart, (width) => chart.replaceChildren(draw(agent, width)));
  const measured = agent.some(({ cores }) => cores !== null);
  return section(
    PAGE,
    "agent",
    "The agent's own cost",
    ...(measured ? [chart] : []),
    table(agent),
    ...remarks(agent),
  );
}

function draw(agent: AgentCost[], width: number): SVGElement {
  const labels = Math.min(230, Math.max(110, width * 0.34));
  const height = agent.length * ROW + FOOT;
  const bottom = agent.length * ROW;
  const values = agent.flatMap(({ cores, cores_high }) => [cores ?? 0, cores_high ?? 0]);
  const axis = width - labels - 14;
  const scale = scaleWithZero(values, Math.max(2, axis / 90));
  const x = (value: number): number => labels + position(scale, value) * axis;
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    svg("title", {}, describe(agent)),
  );
  for (const tick of scale.ticks) {
    root.append(
      svg("line", {
        x1: x(tick),
        x2: x(tick),
        y1: 0,
        y2: bottom,
        class: tick === 0 ? "zero" : "grid",
      }),
      svg(
        "text",
        { x: x(tick), y: bottom + 14, class: "tick", "text-anchor": "middle" },
        String(tick),
      ),
    );
  }
  agent.forEach((cost, index) => {
    const middle = index * ROW + ROW / 2;
    const room = Math.floor(labels / 6.4);
    const text = cost.label.length > room ? `${cost.label.slice(0, room - 1)}…` : cost.label;
    root.append(svg("text", { x: 0, y: middle + 4, class: "row" }, text));
    if (cost.cores === null) {
      root.append(svg("text", { x: x(0) + 6, y: middle + 4, class: "value" }, "not measured"));
      return;
    }
    root.append(
      svg("rect", {
        x: x(0),
        y: middle - 6,
        width: Math.max(1, x(cost.cores) - x(0)),
        height: 12,
        class: "bar",
      }),
    );
    if (cost.cores_low !== null && cost.cores_high !== null) {
      const [from, to] = [x(cost.cores_low), x(cost.cores_high)];
      root.append(
        svg("line", { x1: from, x2: to, y1: middle, y2: middle, class: "whisker" }),
        ...[from, to].map((end) =>
          svg("line", { x1: end, x2: end, y1: middle - 4, y2: middle + 4, class: "whisker" }),
        ),
      );
    }
  });
  root.append(
    svg(
      "text",
      { x: labels + axis / 2, y: height - 4, class: "tick", "text-anchor": "middle" },
      "cores of the agent's process",
    ),
  );
  return root;
}

function table(agent: AgentCost[]): HTMLElement {
  return figuresTable({
    name: "study",
    caption: "CPU and memory of the agent's own process; what it costs the server is above.",
    rowTitle: "condition",
    columns: [
      { group: "", title: "statements", unit: "per s" },
      { group: "The agent's CPU", title: "cores", unit: "95% CI" },
      { group: "The agent's CPU", title: "per statement", unit: "µs" },
      { group: "", title: "memory", unit: "largest" },
      { group: "Statements", title: "executed", unit: "" },
      { group: "Statements", title: "captured", unit: "" },
    ],
    rows: agent.map((cost) => ({
      label: [h("span", { class: "label" }, cost.label)],
      values: [
        whole(cost.statements_per_s),
        cores(cost),
        cost.cpu_us_per_statement === null ? ABSENT : plain(cost.cpu_us_per_statement, 2),
        cost.rss_bytes === null ? ABSENT : bytes(cost.rss_bytes),
        whole(cost.executed),
        captured(cost),
      ],
    })),
    place: h("div", { class: "scroll" }),
  });
}

function cores(cost: AgentCost): Node | string {
  if (cost.cores === null) return ABSENT;
  const { cores: used, cores_low: low, cores_high: high } = cost;
  const half = low === null || high === null ? used / 20 : (high - low) / 2;
  const digits = half > 0 ? Math.min(5, Math.max(2, 1 - Math.floor(Math.log10(half)))) : 3;
  const interval =
    low === null || high === null
      ? "no interval"
      : `${plain(low, digits)} to ${plain(high, digits)}`;
  return h("span", { class: "figure" }, plain(used, digits), h("small", {}, interval));
}

function captured(cost: AgentCost): Node | string {
  if (cost.captured === null) return ABSENT;
  if (cost.captured === cost.executed) return "all";
  const share =
    cost.executed !== null && cost.executed > 0
      ? `${plain((cost.captured / cost.executed) * 100, 2)}%`
      : "";
  return h("span", { class: "figure" }, count(cost.captured), h("small", {}, share));
}

function whole(value: number | null): string {
  return value === null ? ABSENT : count(value);
}

function remarks(agent: AgentCost[]): HTMLElement[] {
  const told = agent.filter(({ note }) => note !== "");
  if (told.length === 0) return [];
  const items = told.map(({ label, note }) => h("li", {}, h("b", {}, label), `: ${note}`));
  return [h("ul", { class: "notes" }, ...items)];
}

function describe(agent: AgentCost[]): string {
  const list = agent.map(({ label, cores: used }) =>
    used === null ? `${label}: not measured` : `${label}: ${plain(used, 3)} cores`,
  );
  return `Cores of the agent's process. ${list.join("; ")}.`;
}
