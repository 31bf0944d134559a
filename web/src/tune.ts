// The document of a tuning run, as waggle writes it (crates/waggle-report/src/tune/mod.rs).

import type { HostFacts } from "./lab";

export interface TuneInterval {
  estimate: number;
  low: number;
  high: number;
}

export interface TuneGuardReading {
  name: string;
  verdict: string;
  level: number | null;
  change: TuneInterval | null;
  is_ratio: boolean;
}

export interface TuneConfiguration {
  id: number;
  label: string;
  values: Record<string, string>;
  x: number | null;
  present: boolean;
  rank: number | null;
  place: string;
  blocks: number;
  restarted: boolean;
  level: TuneInterval | null;
  ratio: TuneInterval | null;
  to_best: TuneInterval | null;
  guards: TuneGuardReading[];
  dropped_after: number | null;
  failure: string | null;
  why: string | null;
}

export interface TuneBlock {
  t_s: number;
  seconds: number;
  round: number;
  config: number;
  objective: number;
  guards: Record<string, number>;
  restarted: boolean;
}

export interface TuneStage {
  name: string;
  variables: string[];
  base: Record<string, string>;
  configurations: TuneConfiguration[];
  best: number | null;
  equal_to_best: number[];
  recommended: number | null;
  verdict: string;
  answer: string;
  ended: string;
  smallest_detectable: number | null;
  noise: number | null;
  rounds: number;
  blocks: number;
  blocks_of_sweep: number;
  samples: TuneBlock[];
}

export interface TuneReport {
  format_version: number;
  name: string;
  question: string;
  answer: string;
  command: string;
  waggle_version: string;
  started: string;
  duration_s: number;
  environment: HostFacts;
  server: {
    flavour: string;
    version: string;
    build_id: string | null;
    variables: Record<string, string>;
  };
  workload: {
    name: string;
    options: Record<string, string>;
    threads: number;
    rate: number | null;
  };
  objective: { name: string; unit: string; more_is_better: boolean };
  guards: { name: string; unit: string; tolerance: number; limit: number | null }[];
  strategy: string;
  margin: number;
  seed: number;
  stages: TuneStage[];
  notes: string[];
  error: string | null;
}

/** Configurations in the order of their ranks, those without one last. */
export function ranked(stage: TuneStage): TuneConfiguration[] {
  const rank = (one: TuneConfiguration): number => one.rank ?? Number.MAX_SAFE_INTEGER;
  return [...stage.configurations].sort((a, b) => rank(a) - rank(b) || a.id - b.id);
}
