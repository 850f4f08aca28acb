import { describe, expect, it } from "vitest";
import { begins, daysOf, type Entry, spans, type Total } from "@/pages/runs/runs";

function total(day: string, tokens = 0): Total {
  return {
    day,
    model: "",
    runs: 1,
    steps: 2,
    model_calls: 1,
    tool_calls: 1,
    tokens_in: tokens,
    tokens_out: 1,
    tokens_cached: 0,
    cost_usd: 0.5,
    unpriced: 0,
    duration_s: 1,
  };
}

describe("days of totals", () => {
  const now = Date.parse("2026-11-03T15:00:00Z") / 1000;

  it("fills the days in which nothing was done, until today", () => {
    const days = daysOf([total("2026-11-02", 7), total("2026-10-30", 4)], 1, now);
    expect(days.map((one) => one.day)).toEqual([
      "2026-10-28",
      "2026-10-29",
      "2026-10-30",
      "2026-10-31",
      "2026-11-01",
      "2026-11-02",
      "2026-11-03",
    ]);
    expect(days.map((one) => one.tokens)).toEqual([0, 0, 5, 0, 0, 8, 0]);
  });

  it("has the whole period, and never more than a season", () => {
    expect(daysOf([], 30, now)).toHaveLength(30);
    const days = daysOf([total("2020-01-01"), total("2026-11-03")], 0, now);
    expect(days).toHaveLength(92);
    expect(days.at(-1)?.day).toBe("2026-11-03");
    expect(days.at(-1)?.tokens).toBe(1);
  });
});

describe("the begin of a period", () => {
  it("is the same all through an hour, so that nothing is asked anew", () => {
    const hour = 1_000 * 3600;
    expect(begins(7, hour + 10)).toBe(begins(7, hour + 3500));
    expect(begins(1, hour)).toBe(hour - 86_400);
    expect(begins(0, hour)).toBeUndefined();
  });
});

describe("where steps lie in their run", () => {
  const step = (started_at: number, duration_s: number) => ({ started_at, duration_s }) as Entry;

  it("is told as shares of the whole", () => {
    expect(spans([step(10, 5), step(15, 15), step(20, 0)])).toEqual([
      { left: 0, width: 0.25 },
      { left: 0.25, width: 0.75 },
      { left: 0.5, width: 0 },
    ]);
  });

  it("is finite for a single moment", () => {
    for (const { left, width } of spans([step(10, 0)])) {
      expect(Number.isFinite(left) && Number.isFinite(width)).toBe(true);
    }
  });
});
