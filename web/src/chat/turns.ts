/** A conversation as the page shows it. Made by the reducer alone. */

export interface Finding {
  rule: string;
  severity: string;
  line: number;
  why: string;
}

export interface Approval {
  id: string;
  tool: string;
  subject: string;
  arguments: Record<string, unknown>;
  where: string;
  reason: string;
  findings: Finding[];
  expiresAt: number;
  answer: { decision: string; by: string; note: string } | null;
}

export interface Artifact {
  blob: string;
  name: string;
  mediaType: string;
  size: number;
  call: string;
}

export interface Call {
  id: string;
  tool: string;
  state: "coming" | "asked" | "running" | "done";
  arguments: string;
  subject: string;
  decision: string;
  reason: string;
  findings: Finding[];
  output: string;
  isOutputCut: boolean;
  result: string;
  isError: boolean;
  exitStatus: number | null;
  askedAt: number;
  ranAt: number;
  durationS: number | null;
  approval: Approval | null;
}

export type Part = { key: string; step: number; isUndone: boolean } & (
  | { kind: "text"; text: string }
  | { kind: "thinking"; text: string; began: number; ended: number }
  | { kind: "call"; call: Call }
  | { kind: "artifact"; artifact: Artifact }
  | { kind: "checkpoint"; checkpointStep: number; kept: number }
  | { kind: "facts"; how: "recalled" | "remembered"; facts: string[] }
  | { kind: "notice"; tone: "info" | "warn"; text: string }
);

export interface Turn {
  number: number;
  prompt: string;
  isResumed: boolean;
  attachments: { name: string; size: number; mediaType: string }[];
  at: number;
  endedAt: number;
  parts: Part[];
  /** Empty while it is under way. */
  end: string;
  problem: { message: string; hint: string; code: string } | null;
  model: string;
  tokens: { input: number; output: number };
  costUsd: number;
  isCostWhole: boolean;
  /** The provider made us wait; gone with the next sign of life. */
  retrying: string;
}

export interface Chat {
  turns: Turn[];
  /** The number of the last event that is in here. */
  last: number;
  firstTurn: number;
  hasMore: boolean;
}
