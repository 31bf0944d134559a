// The document of a bench run, as crates/waggle-report/src/bench/mod.rs defines it. A golden test
// there writes test/bench-example.ts, which the type checker compares with these types.

import type { HostFacts, LabServer } from "./lab";

export interface BenchReport {
  workload: string;
  threads: number | null;
  /** Transactions a second asked for; null in closed loop. */
  offered_rate: number | null;
  command: string;
  waggle_version: string;
  started: string;
  ended: string;
  server: LabServer;
  environment: HostFacts;
  settings: Record<string, string>;
  duration_s: number | null;
  figures: BenchFigure[];
  latencies: BenchLatency[];
  intervals: BenchInterval[];
  /** By what was timed: ascending upper bounds in microseconds, with the count in each bucket. */
  histograms: Record<string, [number, number][]>;
  checks: BenchCheck[];
  notes: string[];
}

export interface BenchFigure {
  name: string;
  value: number | null;
  per_second: number | null;
  unit: string;
}

export interface BenchLatency {
  kind: string;
  name: string;
  count: number | null;
  per_second: number | null;
  mean: number | null;
  max: number | null;
  quantiles: [name: string, us: number | null][];
}

export interface BenchInterval {
  kind: string;
  at_s: number;
  duration_s: number;
  qps: number | null;
  tps: number | null;
  errors: number | null;
  p50_us: number | null;
  p95_us: number | null;
  p99_us: number | null;
  backlog: number | null;
}

export interface BenchCheck {
  name: string;
  value: number | null;
  unit: string;
  ok: boolean | null;
  note: string;
}
