import type { components } from "@/api/schema";

export type Run = components["schemas"]["RunTold"];
export type RunPage = components["schemas"]["Page_RunTold_"];
export type Entry = components["schemas"]["EntryTold"];
export type EntryPage = components["schemas"]["Page_EntryTold_"];
export type Total = components["schemas"]["TotalTold"];
export type Verdict = components["schemas"]["VerdictTold"];
export type Replay = components["schemas"]["ReplayTold"];

export const PERIODS = [
  { id: "1", label: "Last 24 hours", days: 1 },
  { id: "7", label: "Last 7 days", days: 7 },
  { id: "30", label: "Last 30 days", days: 30 },
  { id: "all", label: "All time", days: 0 },
] as const;

const DAY_S = 86_400;

/** Seconds since 1970 at which a period begins; undefined for all time. Whole hours, so that the same is asked again. */
export function begins(days: number, now = Date.now() / 1000): number | undefined {
  return days ? Math.floor((now - days * DAY_S) / 3600) * 3600 : undefined;
}

export interface Day {
  day: string;
  tokens: number;
  cost: number;
  steps: number;
}

const MOST_DAYS = 92;

/** Every day from the first to the last that is told, also those without any step, and no more than a season. */
export function daysOf(totals: readonly Total[]): Day[] {
  const known = new Map(totals.map((one) => [one.day, one]));
  const names = [...known.keys()].sort();
  const [first, last] = [names[0], names.at(-1)];
  if (!first || !last) return [];
  const days: Day[] = [];
  const end = Date.parse(`${last}T00:00:00Z`);
  const start = Math.max(Date.parse(`${first}T00:00:00Z`), end - (MOST_DAYS - 1) * DAY_S * 1000);
  for (let at = start; at <= end; at += DAY_S * 1000) {
    const day = new Date(at).toISOString().slice(0, 10);
    const one = known.get(day);
    days.push({
      day,
      tokens: one ? one.tokens_in + one.tokens_out : 0,
      cost: one?.cost_usd ?? 0,
      steps: one?.steps ?? 0,
    });
  }
  return days;
}

/** Where each step lies between the first's begin and the last's end, as shares of the whole. */
export function spans(entries: readonly Entry[]): { left: number; width: number }[] {
  const first = Math.min(...entries.map((one) => one.started_at));
  const last = Math.max(...entries.map((one) => one.started_at + one.duration_s));
  const whole = Math.max(last - first, 1e-6);
  return entries.map((one) => ({
    left: (one.started_at - first) / whole,
    width: one.duration_s / whole,
  }));
}

/** As the ledger calls them; a record of a later version may have others. */
export const KINDS = [
  "session",
  "model-call",
  "tool-call",
  "policy-decision",
  "approval",
  "hook",
  "budget",
  "memory-write",
  "compaction",
  "rewind",
  "erasure",
];
