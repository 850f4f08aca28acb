import { describe, expect, it } from "vitest";
import { withStage } from "@/pages/settings/provider";
import { limitOf, linesOf } from "@/pages/settings/settings";

describe("rules that are typed", () => {
  it("are one a line, each once", () => {
    expect(linesOf(" a \n\nb\r\na\n  ")).toEqual(["a", "b"]);
    expect(linesOf("")).toEqual([]);
  });
});

describe("a limit that is typed", () => {
  it.each([
    ["", null],
    ["  ", null],
    ["0", 0],
    ["2.50", 2.5],
    ["-1", undefined],
    ["many", undefined],
    ["1e999", undefined],
  ])("%j is %j", (text, limit) => {
    expect(limitOf(text)).toBe(limit);
  });
});

describe("stages of a probe", () => {
  const stage = (name: string, state: string) => ({ name, state, detail: "", seconds: 0 });

  it("are told when they begin and again when they end, and keep their place", () => {
    const begun = withStage([stage("create", "done")], stage("run", "running"));
    expect(withStage(begun, stage("create", "failed")).map((one) => one.state)).toEqual([
      "failed",
      "running",
    ]);
  });
});
