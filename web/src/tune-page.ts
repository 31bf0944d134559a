// The page of a tuning run: the answer, a response curve a stage, every configuration with its
// intervals and guards, what failed, every block in time.

import uPlot from "uplot";

import { AXIS, axis, chartPlace, keepChart } from "./charts";
import { PAGE, h, section } from "./dom";
import { csvCell, environment, facts, footer, list, notes, repeat } from "./facts";
import { ABSENT, count, decimals, percent, plain, seconds, signed, time } from "./format";
import { colour } from "./palette";
import { figuresTable, interval } from "./table";
import {
  type TuneConfiguration,
  type TuneGuardReading,
  type TuneReport,
  type TuneStage,
  ranked,
} from "./tune";
import { responseCurve } from "./tune-curve";

export function tunePage(report: TuneReport, place: HTMLElement): void {
  const { variables, ...server } = report.server;
  const parts = [
    heading(report),
    ...report.stages.map((stage, index) => stageSection(stage, report, index)),
    notes(report.error === null ? report.notes : [...report.notes, report.error], PAGE),
    environment(
      report.environment,
      { ...server, settings: variables },
      report.waggle_version,
      [],
    ),
    list("Options of the workload", Object.entries(report.workload.options)),
    repeat(report.command, [
      {
        label: "Save the data (JSON)",
        file: "waggle-tune.json",
        type: "application/json",
        text: () => `${JSON.stringify(report, null, 1)}\n`,
      },
      {
        label: "Save the blocks (CSV)",
        file: "waggle-blocks.csv",
        type: "text/csv",
        text: () => blocksCsv(report),
      },
    ]),
  ];
  place.append(...parts.filter((part) => part !== null));
  document.body.append(footer(report.waggle_version));
}

function heading(report: TuneReport): HTMLElement {
  const kicker = document.getElementById("kicker");
  if (kicker) kicker.textContent = `waggle tune ${report.name} · ${time(report.started)}`;
  if (report.answer.length > 140) document.querySelector("h1")?.classList.add("long");
  const { workload } = report;
  const rate = workload.rate === null ? "closed loop" : `${count(workload.rate)} a second`;
  const blocks = report.stages.reduce((sum, stage) => sum + stage.blocks, 0);
  const sweep = report.stages.reduce((sum, stage) => sum + stage.blocks_of_sweep, 0);
  return h(
    "div",
    { class: "heading" },
    h("p", { class: "question" }, report.question),
    facts(
      [
        ["Server", `${report.server.flavour} ${report.server.version}`.trim()],
        ["Load", `${workload.name}, ${workload.threads} threads, ${rate}`],
        ["Objective", `${report.objective.name}, ${report.objective.unit}`],
        ["Guards", report.guards.map(({ name }) => name).join(", ") || "none"],
        ["Strategy", report.strategy],
        ["Measured", `${count(blocks)} blocks in ${seconds(report.duration_s)}`],
        ["A sweep takes", `${count(sweep)} blocks`],
      ],
      report.error === null ? "strip" : "strip failed",
    ),
  );
}

function stageSection(stage: TuneStage, report: TuneReport, index: number): HTMLElement {
  const base = Object.entries(stage.base).map(([name, value]) => `${name} = ${value}`);
  const curve = responseCurve(stage, report);
  const blocks = timeline(stage, report);
  const failed = stage.configurations.filter(({ failure }) => failure !== null);
  return section(
    PAGE,
    `stage-${index}`,
    stage.name,
    h("p", {}, stage.answer),
    base.length > 0 ? h("p", { class: "caption" }, `With ${base.join(", ")} in place.`) : null,
    curve,
    table(stage, report),
    failed.length > 0
      ? h(
          "ul",
          { class: "notes" },
          ...failed.map(({ label, failure, why }) => h("li", {}, `${label} ${failure}: ${why}`)),
        )
      : null,
    h("p", { class: "caption" }, stageWords(stage)),
    blocks,
  );
}

function stageWords(stage: TuneStage): string {
  const seen =
    stage.smallest_detectable === null
      ? ""
      : ` A change of ${plain(100 * stage.smallest_detectable, 1)}% would have been seen.`;
  const noise =
    stage.noise === null ? "" : ` Blocks vary by ${plain(100 * stage.noise, 1)}% among themselves.`;
  return (
    `${count(stage.blocks)} blocks in ${count(stage.rounds)} rounds; a sweep of as many rounds ` +
    `as were allowed takes ${count(stage.blocks_of_sweep)}. ${stage.ended}${noise}${seen}`
  );
}

const PLACES: Record<string, string> = {
  best: "best",
  same: "same as best",
  "not-told-apart": "not told apart from best",
  behind: "behind",
  failed: "failed",
  unknown: "not enough blocks",
};

function table(stage: TuneStage, report: TuneReport): HTMLElement {
  const columns = [
    { group: "", title: report.objective.name, unit: `${report.objective.unit}, 95% CI` },
    { group: "", title: "against present", unit: "%, 95% CI" },
    { group: "", title: "against best", unit: "%, 95% CI" },
    { group: "", title: "blocks", unit: "" },
    { group: "", title: "place", unit: "" },
    ...report.guards.map(({ name }) => ({ group: "", title: name, unit: "against present" })),
  ];
  return figuresTable({
    caption: "Every configuration that was tried; intervals hold for all of them together.",
    rowTitle: stage.variables.join(" / ") || "configuration",
    columns,
    rows: ranked(stage).map((config) => ({
      label: [config.label],
      values: [
        level(config),
        ratio(config.ratio),
        ratio(config.to_best),
        count(config.blocks),
        config.failure ?? PLACES[config.place] ?? config.place,
        ...report.guards.map(({ name }) =>
          guard(config.guards.find((reading) => reading.name === name)),
        ),
      ],
      attributes: { class: stage.recommended === config.id ? "subject" : null },
    })),
    place: h("div", { class: "scroll" }),
  });
}

function level(config: TuneConfiguration): Node | string {
  if (config.level === null) return ABSENT;
  const { estimate, low, high } = config.level;
  const digits = decimals((high - low) / 2, 1);
  return interval(plain(estimate, digits), plain(low, digits), plain(high, digits));
}

function ratio(value: TuneConfiguration["ratio"]): Node | string {
  if (value === null) return ABSENT;
  return interval(percent(value.estimate), percent(value.low), percent(value.high));
}

function guard(reading: TuneGuardReading | undefined): string {
  if (!reading) return ABSENT;
  if (reading.change === null) return reading.verdict;
  const { estimate, low, high } = reading.change;
  const change = reading.is_ratio
    ? `${percent(estimate)}%`
    : signed(estimate, decimals((high - low) / 2, 1));
  return `${reading.verdict}, ${change}`;
}

const COLOURS = [
  "--arm-blue",
  "--arm-green",
  "--arm-orange",
  "--arm-purple",
  "--arm-red",
  "--arm-sky",
  "--arm-again",
];

/** Blocks in the order measured: how much the machine drifted, and what was dropped when. */
function timeline(stage: TuneStage, report: TuneReport): HTMLElement | null {
  if (stage.samples.length < 2) return null;
  const place = chartPlace(`Every block of ${stage.name} over time, ${report.objective.unit}`);
  const times = stage.samples.map(({ t_s }) => t_s);
  const shown = stage.configurations.filter(({ blocks }) => blocks > 0);
  const data: uPlot.AlignedData = [
    times,
    ...shown.map(({ id }) =>
      stage.samples.map(({ config, objective }) => (config === id ? objective : null)),
    ),
  ];
  keepChart(place, (width) => {
    const series = shown.map(({ label, present }, index) => ({
      label,
      stroke: colour(present ? "--arm-base" : (COLOURS[index % COLOURS.length] ?? "--arm-blue")),
      width: 1,
      spanGaps: true,
      points: { show: true, size: 5 },
    }));
    return new uPlot(
      {
        width,
        height: 240,
        scales: { x: { time: false } },
        series: [{ label: "s" }, ...series],
        axes: [axis({ label: "seconds since the start" }), axis({ size: AXIS })],
      },
      data,
    );
  });
  return h("div", {}, h("p", { class: "chart-title" }, "Every block, in time"), place);
}

function blocksCsv(report: TuneReport): string {
  const guards = report.guards.map(({ name }) => name);
  const head = ["stage", "round", "configuration", "t_s", "seconds", "objective", ...guards];
  const lines = report.stages.flatMap((stage) =>
    stage.samples.map((block) =>
      [
        csvCell(stage.name),
        block.round + 1,
        csvCell(stage.configurations.find(({ id }) => id === block.config)?.label ?? ""),
        block.t_s,
        block.seconds,
        block.objective,
        ...guards.map((name) => block.guards[name] ?? ""),
      ].join(","),
    ),
  );
  return `${[head.map(csvCell).join(","), ...lines].join("\n")}\n`;
}
