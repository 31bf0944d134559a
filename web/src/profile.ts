// The document of a page of profiles, as crates/waggle-report/src/profile/compact.rs defines it. A
// golden test there writes test/profile-example.ts, which the type checker compares with these
// types.

export interface ProfileData {
  parts: ProfilePart[];
  command: string;
  waggle_version: string;
  started: string;
  verb: string;
  notes: string[];
  /** The part that is shown first, and the one that it is compared with. */
  shown: number;
  against: number | null;
}

/** One profile: names once, calls and time in columns, stacks as a tree. */
export interface ProfilePart {
  /** What it is of; empty if it is the only one. */
  name: string;
  duration_s: number;
  frequency_hz: number;
  strings: string[];
  frames: {
    name: number[];
    module: number[];
    /** -1: not known. */
    file: number[];
    line: number[];
    /** 1: inlined, 2: the kernel's, 4: it stands for calls that are missing. */
    flags: number[];
  };
  /** The stack of a node is the way to it from a node without a parent (-1). */
  nodes: { parent: number[]; frame: number[] };
  whos: { process: string; role: string; thread: string | null; digest: string | null }[];
  entries: {
    who: number[];
    /** 0: on CPU, 1: off CPU, 2: runnable. */
    kind: number[];
    node: number[];
    samples: number[];
    ns: number[];
  };
  digests: { digest: string; fingerprint: string; statements: number; cpu_ns: number }[];
  lost: {
    samples: number;
    stacks: number;
    truncated: number;
    unknown_frames: number;
    by_cause: Record<string, number>;
  };
}

export const KINDS = ["on CPU", "off CPU", "runnable"] as const;
