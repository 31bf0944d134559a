// The page of a lab run: reads the report embedded in the document and draws it.

/*! uPlot, Copyright (c) Leon Sorokin, MIT licence, https://github.com/leeoniya/uPlot */

import "uplot/dist/uPlot.min.css";
import "./page.css";

import { armTable } from "./arms";
import { distributions } from "./distributions";
import { environment, footer, heading, notes, repeat } from "./facts";
import { forest } from "./forest";
import type { LabReport } from "./lab";
import { timeline } from "./timeline";

function main(): void {
  const data = document.getElementById("waggle-lab-report");
  const place = document.getElementById("main");
  if (!data || !place) throw new Error("the page has lost its data element");
  const report = JSON.parse(data.textContent ?? "") as LabReport;
  place.append(
    heading(report),
    armTable(report),
    forest(report),
    timeline(report),
    distributions(report),
    notes(report),
    environment(report),
    repeat(report),
  );
  document.body.append(footer(report));
  document.documentElement.dataset["drawn"] = "yes";
}

main();
