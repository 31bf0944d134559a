// The page: reads the document embedded in it and draws the report of its kind.

/*! uPlot, Copyright (c) Leon Sorokin, MIT licence, https://github.com/leeoniya/uPlot */

import "uplot/dist/uPlot.min.css";
import "./page.css";
import "./trace.css";
import "./profile.css";

import type { BenchReport } from "./bench";
import { benchPage } from "./bench-page";
import type { LabReport } from "./lab";
import { labPage } from "./lab-page";
import type { ProfileData } from "./profile";
import { profileBeside, profilePage } from "./profile-page";
import type { StudyReport } from "./study";
import { studyPage } from "./study-page";
import { type TracePage, tracePage } from "./trace-page";
import type { TuneReport } from "./tune";
import { tunePage } from "./tune-page";

function main(): void {
  const place = document.getElementById("main");
  if (!place) throw new Error("the page has lost its place");
  const study = embedded("waggle-study-report");
  const lab = embedded("waggle-lab-report");
  const bench = embedded("waggle-bench-report");
  const trace = embedded("waggle-trace-report");
  const profile = embedded("waggle-profile-report");
  const tune = embedded("waggle-tune-report");
  if (study !== null) studyPage(study as StudyReport, place);
  else if (lab !== null) labPage(lab as LabReport, place);
  else if (bench !== null) benchPage(bench as BenchReport, place);
  else if (trace !== null) tracePage(trace as TracePage, place);
  else if (profile !== null) profilePage(profile as ProfileData, place);
  else if (tune !== null) tunePage(tune as TuneReport, place);
  else throw new Error("the page has lost its data element");
  if (profile !== null && (lab ?? bench ?? null) !== null)
    profileBeside(profile as ProfileData, place);
  document.documentElement.dataset["drawn"] = "yes";
}

function embedded(id: string): unknown {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent ?? "") : null;
}

main();
