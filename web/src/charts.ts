// What every uPlot chart of the page shares: its colours, its redrawing, its axes.

import uPlot from "uplot";

import { h, onWidth } from "./dom";
import { colour } from "./palette";

/** Width of the left axis, the same in every chart so that stacked ones align. */
export const AXIS = 84;

/** Where a chart goes, with what it shows in words. */
export function chartPlace(alt: string): HTMLElement {
  return h("div", { class: "chart", role: "img", "aria-label": alt });
}

type Build = (width: number) => uPlot;

/**
 * Keeps a chart in `place`: built when its width is known, resized with it, and built anew when the
 * colours change (dark mode, printing), because a canvas does not follow the style sheet.
 */
export function keepChart(place: HTMLElement, build: Build): void {
  let chart: uPlot | null = null;
  let width = 0;
  const rebuild = (): void => {
    if (width === 0) return;
    chart?.destroy();
    place.replaceChildren();
    chart = build(width);
    place.append(chart.root);
  };
  onWidth(place, (now) => {
    width = now;
    if (chart) chart.setSize({ width: now, height: chart.height });
    else rebuild();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  matchMedia("print").addEventListener("change", rebuild);
}

const FONT =
  '11px -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", ' +
  '"Liberation Sans", sans-serif';

/** An axis in the page's colours; `values` makes the labels. */
export function axis(options: uPlot.Axis): uPlot.Axis {
  const line = colour("--line");
  return {
    font: FONT,
    stroke: colour("--muted"),
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1, size: 4 },
    gap: 4,
    ...options,
  };
}
