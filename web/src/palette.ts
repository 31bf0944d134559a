// One colour an arm, told apart also by those who see few colours. Values live in page.css, where
// they differ for light and dark; colour is never the only mark of an arm.

import type { LabReport } from "./lab";

const KNOWN: Record<string, string> = {
  "probe-empty": "--arm-green",
  watch: "--arm-blue",
  perfschema: "--arm-orange",
  "general-log": "--arm-red",
  "slow-log-all": "--arm-purple",
};
const OTHERS = ["--arm-sky", "--arm-green", "--arm-purple", "--arm-orange", "--arm-red"];

/** Every arm with the CSS variable of its colour: the base first, then in the report's order. */
export function armColours(report: Pick<LabReport, "base" | "arms">): Map<string, string> {
  const colours = new Map([[report.base.name, "--arm-base"]]);
  let other = 0;
  for (const arm of report.arms) {
    if (colours.has(arm.name)) continue;
    const colour = arm.aa ? "--arm-again" : KNOWN[arm.name];
    colours.set(arm.name, colour ?? OTHERS[other++ % OTHERS.length] ?? "--arm-sky");
  }
  return colours;
}

/** The value of a colour variable as it is now (light, dark or print). */
export function colour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim() || "#888";
}
