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

const LEAST_DAYS = 7;
const MOST_DAYS = 92;

/** Every day until today, also those without any step: at least a week or the period, and no more than a season. */
export function daysOf(totals: readonly Total[], period: number, now = Date.now() / 1000): Day[] {
  const known = new Map(totals.map((one) => [one.day, one]));
  const today = Math.floor(now / DAY_S);
  const first = Math.min(today, ...totals.map((one) => Date.parse(one.day) / 1000 / DAY_S));
  const length = Math.min(Math.max(LEAST_DAYS, period, today - first + 1), MOST_DAYS);
  return Array.from({ length }, (_, at) => {
    const moment = new Date((today - length + 1 + at) * DAY_S * 1000);
    const day = moment.toISOString().slice(0, 10);
    const one = known.get(day);
    return {
      day,
      tokens: one ? one.tokens_in + one.tokens_out : 0,
      cost: one?.cost_usd ?? 0,
      steps: one?.steps ?? 0,
    };
  });
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
