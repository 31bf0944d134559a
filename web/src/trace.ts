// The documents of `waggle trace`, as crates/waggle-report/src/trace/ defines them: one type for
// each subject, told apart by `subject`. Times are nanoseconds unless a name says `us`.

export type TraceReport = FuncReport | LatchReport | PipelineReport | WaitsReport;

export interface TraceFacts {
  format_version: number;
  process: {
    pid: number;
    program: string;
    flavour: string | null;
    version: string | null;
    build_id: string | null;
  };
  process_ended: boolean;
  duration_s: number;
  slices?: TraceSlices | null;
  events: number;
  lost: Record<string, number>;
  probes: TraceProbe[];
  cost: {
    waggle_cpu_s: number;
    waggle_rss_bytes: number;
    hits_per_s: number;
    program_ns_per_hit: number | null;
    programs_s?: number | null;
    host_programs_s?: number | null;
    process_cpu_s?: number | null;
    counted_share?: number | null;
  };
  notes: string[];
}

/** The part of the time that was traced, if it was not all of it. */
export interface TraceSlices {
  share_asked: number;
  slice_ns: number;
  seed: number;
  count: number;
  refused: number;
  traced_ns: number;
  share: number;
  began: number;
  began_per_s: number;
  estimated: number;
  cut: number;
  cut_long: number;
  whole_at_p99: number | null;
}

export interface TraceProbe {
  name: string;
  place: string;
  refused: string | null;
  emulated: boolean | null;
  hits: number;
  program_ns_per_hit: number | null;
}

export interface Latency {
  count: number;
  mean_us: number;
  p50_us: number;
  p95_us: number;
  p99_us: number;
  max_us: number;
}

export interface FuncReport extends TraceFacts {
  subject: "func";
  functions: FuncRow[];
  calls: Record<string, number>;
  slower_ns: number | null;
  slow: FuncCall[];
  // The part of `cost` that is of this subject stands in `watching`.
  watching: {
    traps_ns: number | null;
    stepped_traps_ns: number | null;
    entered_ns: number | null;
    returned_ns: number | null;
    switched_ns: number | null;
    switches_per_s: number | null;
    call_ns: number | null;
    cpu_percent: number | null;
  };
}

export interface FuncCalls {
  name: string;
  per_s: number;
  latency_us: Latency;
  sum_ns: number;
  off_sum_ns: number;
  off_mean_us: number;
  off_us: Latency;
  off_by_reason_ns: Record<string, number>;
  queued_ns: number;
  cpu_percent: number;
  recursive: number;
  nested: number;
  nested_ns: number;
  unannounced: number;
  /** Low and high bound, calls that took so long, calls that were off so long. */
  histogram: [number, number, number, number][];
}

export interface FuncRow extends FuncCalls {
  signature: string;
  rest_ns: number | null;
  rest_off_ns: number | null;
  children: FuncCalls[];
  callers: FuncCalls[];
}

export interface FuncCall {
  name: string;
  tid: number;
  thread: string;
  start_ns: number;
  wall_ns: number;
  off_ns: number;
  off_by_reason_ns: Record<string, number>;
  queued_ns: number;
  children_ns: number;
  longest_off_ns: number;
  longest_off_reason: string;
  stack: string[];
}

export interface Doing {
  queued_ns: number;
  on_cpu_ns: number;
  runnable_ns: number;
  blocked_ns: Record<string, number>;
  unknown_ns: number;
}

export interface PipelineReport extends TraceFacts {
  subject: "pipeline";
  pipeline: string;
  about: string;
  seen: number;
  no_wait: number;
  flagged: number;
  decomposed: number;
  cut: number;
  begun_before: number;
  torn: number;
  begin_lost: number;
  inexact: number;
  resolution_ns: number;
  wait_us: Latency;
  wait_sum_ns: number;
  stages: PipelineStage[];
  spurious_wakes: number;
  slowest_percent: { waits: number; at_least_ns: number; sum_ns: number; stages_ns: number[] };
  by_role: PipelineGroup[];
  by_thread: PipelineGroup[];
  by_caller: PipelineGroup[];
  slowest: PipelineWait[];
}

export interface PipelineStage {
  name: string;
  latency_us: Latency;
  sum_ns: number;
  share: number;
  skipped: number;
  instant: number;
  doing: Doing;
  by_role: Record<string, number>;
}

export interface PipelineGroup {
  name: string;
  waits: number;
  sum_ns: number;
  p50_ns: number;
  p95_ns: number;
  p99_ns: number;
  max_ns: number;
  stages_ns: number[];
}

export interface PipelineWait {
  tid: number;
  thread: string;
  caller: string[];
  start_ns: number;
  wait_ns: number;
  key: number;
  spurious_wakes: number;
  stages: {
    ns: number;
    skipped: boolean;
    tid: number | null;
    thread: string | null;
    value: number | null;
    reached_ns: number | null;
    doing: Doing;
  }[];
}

export interface Spread {
  count: number;
  mean: number;
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

export interface LatchReport extends TraceFacts {
  subject: "latch";
  waits: number;
  flagged: number;
  torn: number;
  in_vain: number;
  still_waiting: number;
  conditions: number;
  wait_sum_ns: number;
  held_ns: number;
  handing_over_ns: number;
  unobserved_ns: number;
  word_agrees: number;
  word_differs: number;
  latches: LatchRow[];
  /** What, and why. */
  missing: [string, string][];
}

export interface LatchRow {
  name: string;
  kind: string;
  latches: number;
  waiters: number;
  wait_us: Spread;
  wait_sum_ns: number;
  contended_share: number;
  held_ns: number;
  handing_over_ns: number;
  unobserved_ns: number;
  hand_overs: number;
  asked: {
    at: string | null;
    mode: string;
    waits: number;
    wait_sum_ns: number;
    max_us: number;
    stack: string[];
  }[];
  holders: LatchHolder[];
}

export interface LatchHolder {
  role: string;
  threads: number;
  waits: number;
  blocked_ns: number;
  max_us: number;
  hold_us: Spread | null;
  stack: string[];
}

export interface WaitsReport extends TraceFacts {
  subject: "waits";
  ended: number;
  flagged: number;
  unannounced: number;
  still_waiting: number;
  requests: {
    count: number;
    flagged: number;
    latency_us: Latency;
    split_ns: Record<string, number>;
    path: { role: string; doing: string; ns: number; share: number }[];
    slowest: WaitsRequest[];
  };
  edges: WaitsEdge[];
  waits: WaitsRow[];
  stacks: { walked: number; cut: number; different: number; by_frame_pointers: string[] };
  files: Record<string, string>;
}

export interface WaitsRequest {
  thread: string;
  role: string;
  at_ns: number;
  ns: number;
  segments: {
    thread: string;
    role: string;
    doing: string;
    ns: number;
    depth: number;
    stack: string[];
  }[];
}

export interface WaitsSum {
  count: number;
  blocked_ns: number;
  runnable_ns: number;
  longest_ns: number;
}

export interface WaitsEdge {
  waiter: string;
  woken_by: string;
  all: WaitsSum;
  in_requests: WaitsSum;
}

export interface WaitsRow extends WaitsSum {
  role: string;
  kind: string;
  in_request: boolean;
  stack: string[];
  woken_by: string;
  waker_stack: string[];
}
