// The document of a lab run, as crates/waggle-report/src/lab/mod.rs defines it. A golden test there
// writes test/lab-example.ts, which the type checker compares with these types.

export interface LabReport {
  format_version: number;
  question: string;
  command: string;
  waggle_version: string;
  started: string;
  duration_s: number;
  server: LabServer;
  environment: HostFacts;
  workload: Workload;
  base: BaseArm;
  subject: string;
  arms: Arm[];
  aa_clean: boolean;
  /** Equivalence margin as a fraction of the base's CPU per statement. */
  margin: number;
  windows: LabWindow[];
  /** By arm: ascending upper bounds in microseconds, with the count in each bucket. */
  histograms: Record<string, [number, number][]>;
  latency_of: string;
  notes: string[];
  /** The outcome that the verdicts are about. */
  primary: Primary;
  types: TypeReport[];
  probes: ProbeFacts[];
}

export type Primary = "server-cpu" | "throughput" | "latency-p99";

/** One type of statement compared arm by arm. */
export interface TypeReport {
  name: string;
  arms: TypeArm[];
  histograms: Record<string, [number, number][]>;
}

export interface TypeArm {
  arm: string;
  executed: number;
  rate_ratio: Ratio | null;
  mean_us: Difference | null;
  p50_us: Difference | null;
  p95_us: Difference | null;
  p99_us: Difference | null;
}

/** One type of statement in one window; null where none was executed. */
export interface TypeWindow {
  statements: number;
  mean_us: number | null;
  p99_us: number | null;
}

export interface ProbeFacts {
  arm: string;
  place: string;
  mode: string | null;
  hits: number | null;
  program_ns: number | null;
}

export interface LabServer {
  flavour: string;
  version: string;
  build_id: string | null;
  settings: Record<string, string>;
}

export interface HostFacts {
  kernel: string | null;
  architecture: string;
  system: string | null;
  cpu_model: string | null;
  cores: number | null;
  smt: boolean | null;
  memory_bytes: number | null;
  clocksource: string | null;
  governor: string | null;
  transparent_huge_pages: string | null;
  virtualisation: string | null;
  lockdown: string | null;
  mitigations: Record<string, string>;
}

export interface Workload {
  name: string;
  threads: number;
  tables: number;
  table_size: number;
  /** Transactions a second asked for; null in closed loop. */
  rate: number | null;
  limits: string[];
}

export interface BaseArm {
  name: string;
  label: string;
}

export type Verdict = "costs" | "saves" | "no-difference" | "not-enough-evidence";

export interface Arm {
  name: string;
  label: string;
  kind: "in-life" | "server-lives";
  aa: boolean;
  windows: number;
  cpu_us_per_statement: Difference | null;
  cpu_ratio: Ratio | null;
  detectable_us: number | null;
  qps_ratio: Ratio | null;
  latency_us: { p50: Difference | null; p95: Difference | null; p99: Difference | null };
  tool: ToolCost | null;
  captured: number | null;
  executed: number;
  lost: Record<string, number>;
  verdict: Verdict;
  note: string | null;
  sees: string | null;
  switched_by: string[];
}

export interface Difference {
  base: number;
  delta: number;
  low: number;
  high: number;
}

export interface Ratio {
  estimate: number;
  low: number;
  high: number;
}

export interface ToolCost {
  cpu_us_per_statement: number;
  cpu_s: number;
  rss_bytes: number;
}

export interface LabWindow {
  t_s: number;
  duration_s: number;
  arm: string;
  statements: number;
  qps: number;
  server_cpu_us_per_statement: number | null;
  discarded: boolean;
  note: string | null;
  /** What the server did in it that is not the arm's doing, such as a checkpoint. */
  marks: string[];
  types: Record<string, TypeWindow>;
}
