// The document of a study, as crates/waggle-report/src/study/mod.rs defines it. A golden test there
// writes test/study-example.ts, which the type checker compares with these types.
//
// A number that could not be had is null: serde writes NaN so, and the page shows a dash.

import type {
  Arm,
  BaseArm,
  HostFacts,
  LabReport,
  LabServer,
  LabWindow,
  Primary,
  ProbeFacts,
  TypeReport,
  Workload,
} from "./lab";

export interface StudyReport {
  format_version: number;
  name: string;
  title: string;
  question: string;
  answer: string;
  command: string;
  waggle_version: string;
  started: string;
  duration_s: number | null;
  server: LabServer;
  environment: HostFacts;
  cells: StudyCell[];
  tables: StudyTable[];
  curves: Curve[];
  agent: AgentCost[];
  published: Published[];
  notes: string[];
}

export interface StudyCell {
  id: string;
  part: string;
  title: string;
  workload: Workload;
  settings: Record<string, string>;
  base: BaseArm;
  subject: string;
  arms: Arm[];
  aa_clean: boolean;
  margin: number | null;
  primary: Primary;
  windows: LabWindow[];
  histograms: Record<string, [number, number][]>;
  latency_of: string;
  types: TypeReport[];
  probes: ProbeFacts[];
  notes: string[];
}

export interface StudyTable {
  id: string;
  title: string;
  caption: string;
  row_title: string;
  columns: { group: string; title: string; unit: string }[];
  rows: { label: string; cell: string | null; values: StudyValue[] }[];
}

type Figure = number | null;

export type StudyValue =
  | { kind: "estimate"; value: Figure; low: Figure; high: Figure; unclaimed: boolean }
  /** A level and no change: shown without a plus. */
  | { kind: "level"; value: Figure; low: Figure; high: Figure }
  | { kind: "plain"; value: Figure; digits: number }
  | { kind: "published"; value: Figure; digits: number }
  | { kind: "text"; text: string }
  | { kind: "absent"; why: string };

export interface Curve {
  id: string;
  title: string;
  x_title: string;
  x_log: boolean;
  y_title: string;
  unit: string;
  points: CurvePoint[];
  published: CurvePoint[];
}

export interface CurvePoint {
  cell: string;
  arm: string;
  x: Figure;
  estimate: Figure;
  low: Figure;
  high: Figure;
  /** Its cell's A/A check was not clean. */
  unclaimed?: boolean;
}

export interface AgentCost {
  label: string;
  cell: string | null;
  statements_per_s: Figure;
  cores: Figure;
  cores_low: Figure;
  cores_high: Figure;
  cpu_us_per_statement: Figure;
  rss_bytes: Figure;
  captured: Figure;
  executed: Figure;
  note: string;
}

export interface Published {
  what: string;
  value: Figure;
  unit: string;
  source: string;
  cell: string | null;
  ours: StudyValue | null;
}

/** A cell as a lab report of its own, with what the study's cells share put back. */
export function cellAsLab(study: StudyReport, cell: StudyCell): LabReport {
  return {
    ...cell,
    margin: cell.margin ?? 0,
    format_version: 1,
    question: study.question,
    command: study.command,
    waggle_version: study.waggle_version,
    started: study.started,
    duration_s: cell.windows.reduce((sum, window) => sum + window.duration_s, 0),
    server: { ...study.server, settings: { ...study.server.settings, ...cell.settings } },
    environment: study.environment,
  };
}

/** Part and title of a cell as one line. */
export function cellTitle(cell: StudyCell): string {
  return [cell.part, cell.title].filter((part) => part !== "").join(", ");
}

/** Every arm of every cell once, in the order met, for colours and lists. */
export function allArms(study: StudyReport): { base: BaseArm; arms: Arm[] } {
  const arms = new Map<string, Arm>();
  for (const cell of study.cells) {
    for (const arm of cell.arms) if (!arms.has(arm.name)) arms.set(arm.name, arm);
  }
  const base = study.cells[0]?.base ?? { name: "none", label: "nothing attached" };
  return { base, arms: [...arms.values()] };
}
