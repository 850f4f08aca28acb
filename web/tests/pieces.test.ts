import { describe, expect, it } from "vitest";
import { address } from "@/api/client";
import { Problem, problemFrom } from "@/api/problem";
import { wayOf } from "@/chat/artifact-view";
import { readArguments } from "@/chat/call-card";
import { readChart } from "@/chat/charts";
import { toWanted, USUAL } from "@/chat/options";
import { splitPatch } from "@/chat/patch";
import { readSeparated, readTable } from "@/chat/tables";
import { match } from "@/router";
import { plainOutput } from "@/ui/ansi";
import { ago, bytes, duration, usd } from "@/ui/format";
import { sortedBy } from "@/ui/table";

describe("output of a terminal", () => {
  it("is shown without colours, titles and control characters", () => {
    expect(plainOutput("\u001b[1;32mgreen\u001b[0m \u001b]0;title\u0007on\u0000e\u0008")).toBe(
      "green one",
    );
  });
  it("is shown as its last form where a line was rewritten", () => {
    expect(plainOutput("10 %\r50 %\r100 %\r\ndone\r\n")).toBe("100 %\ndone\n");
  });
});

describe("tables", () => {
  it("have fields with separators, quotes and newlines in them", () => {
    expect(readSeparated('\ufeffa,b\r\n"x, ""y""","1\n2"\n,\n')).toEqual({
      columns: ["a", "b"],
      rows: [
        ['x, "y"', "1\n2"],
        ["", ""],
      ],
      isCut: false,
    });
  });
  it("guess their separator", () => {
    expect(readTable("a;b\n1;2", "text/csv", "x.csv").rows).toEqual([["1", "2"]]);
    expect(readTable("a\tb\n1\t2", "text/plain", "x.tsv").rows).toEqual([["1", "2"]]);
  });
  it("come as columns by name, of uneven length, and as nothing at all", () => {
    const kind = "application/vnd.crucible.data+json";
    expect(readTable('{"a":[1,2],"b":{"0":null}}', kind, "").rows).toEqual([
      ["1", ""],
      ["2", ""],
    ]);
    expect(readTable('[{"a":1},{"b":{}}]', kind, "").rows).toEqual([
      ["1", ""],
      ["", "{}"],
    ]);
    for (const odd of ["", "null", "3", "{", "[]", "{}"])
      expect(readTable(odd, kind, "").rows).toEqual([]);
  });
  it("are sorted by size or by word, with what is missing last", () => {
    const by = (one: number | string | null) => one;
    expect(sortedBy([10, null, 9], by, false)).toEqual([9, 10, null]);
    expect(sortedBy([10, null, 9], by, true)).toEqual([10, 9, null]);
    expect(sortedBy(["b10", "a", "b9"], by, false)).toEqual(["a", "b9", "b10"]);
  });
});

describe("artifacts", () => {
  it("are shown by what they are, and in a frame if they can run", () => {
    const way = (mediaType: string, name = "x", size = 10) => wayOf({ mediaType, name, size });
    expect(way("image/png")).toBe("picture");
    expect(way("image/svg+xml")).toBe("frame");
    expect(way("text/html; charset=utf-8")).toBe("frame");
    expect(way("application/vnd.plotly.v1+json")).toBe("plotly");
    expect(way("text/csv")).toBe("table");
    expect(way("application/json", "fig.plotly.json")).toBe("plotly");
    expect(way("application/pdf")).toBe("file");
    expect(way("text/csv", "x.csv", 1e9)).toBe("file");
  });
  it("are charts where numbers are known", () => {
    const line = {
      type: "line",
      title: "T",
      x_label: "x",
      elements: [
        {
          label: "a",
          points: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    };
    expect(readChart(line)?.data).toMatchObject([{ mode: "lines", x: [1, 3], y: [2, 4] }]);
    expect(
      readChart({ type: "bar", elements: [{ label: "a", group: "g", value: 1 }] })?.data,
    ).toHaveLength(1);
    for (const odd of [null, 3, {}, { type: "superchart" }, { type: "line", elements: "x" }])
      expect(readChart(odd)).toBeNull();
  });
});

describe("calls", () => {
  it("show their program as code and the rest by name", () => {
    const asked = readArguments({
      tool: "bash",
      arguments: '{"command":"ls -l\\nid","timeout":5}',
      subject: "",
    });
    expect(asked).toMatchObject({
      summary: "ls -l",
      code: "ls -l\nid",
      language: "bash",
      rest: [["timeout", "5"]],
    });
  });
  it("show what is no JSON as it is", () => {
    expect(readArguments({ tool: "x", arguments: "{", subject: "s" }).code).toBe("{");
    expect(readArguments({ tool: "x", arguments: "null", subject: "s" }).summary).toBe("s");
  });
});

describe("options of a new chat", () => {
  const used = { agent: "u:m", chat: "u:m", memory: "u:m" };
  const settings = {
    models: { agent: "", chat: "", memory: "m:small", used },
    policy: { allow: ["a"], ask: ["b"], deny: ["c"] },
  };
  it("leave the user's own rules in force", () => {
    expect(toWanted({ ...USUAL, asksFirst: true, model: "p:m" }, settings)).toMatchObject({
      models: { agent: "p:m", memory: "m:small" },
      policy: { allow: ["a", "publish"], deny: ["c"] },
    });
    const { policy } = toWanted({ ...USUAL, asksFirst: true }, settings) as {
      policy: { ask: string[] };
    };
    expect(policy.ask).toContain("b");
    expect(policy.ask).toContain("bash");
  });
  it("say nothing while the settings are not known", () => {
    expect(toWanted(USUAL, undefined)).toEqual({});
  });
});

it("a patch is known by its files", () => {
  const patch =
    "diff --git a/x y b/x y\n--- a/x y\n+++ b/x y\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n";
  const found = splitPatch(patch);
  expect([...found].map(([name, one]) => [name, one.hunks])).toEqual([
    ["x y", "@@ -1 +1 @@\n-a\n+b"],
    ["gone", "@@ -1 +0,0 @@\n-z"],
  ]);
  expect([...found.values()].map((one) => one.whole).join("")).toBe(patch);
});

it("an address has the pages' parameters", () => {
  expect(match("/runs/:id?", "/runs")).toEqual({});
  expect(match("/runs/:id?", "/runs/a%20b/")).toEqual({ id: "a b" });
  expect(match("/c/:id", "/c")).toBeNull();
  expect(match("/c/:id", "/c/%")).toBeNull();
  expect(match("/", "/x")).toBeNull();
});

it("a question has its query", () => {
  expect(address("/x", { a: "1 2", b: "", c: null, d: ["e", "f"] })).toBe(
    "/api/v1/x?a=1+2&d=e&d=f",
  );
});

it("a refusal says what to do, whatever it is made of", () => {
  expect(problemFrom({ code: "c", message: "m", hint: "h", status: 404 })).toMatchObject({
    code: "c",
    hint: "h",
    status: 404,
  });
  expect(problemFrom("nonsense", 500)).toBeInstanceOf(Problem);
});

it("sizes, times and sums read well", () => {
  expect([bytes(999), bytes(1500), bytes(2_000_000)]).toEqual(["999 B", "1.5 KB", "2.0 MB"]);
  expect([duration(0.004), duration(1.25), duration(90), duration(3700)]).toEqual([
    "4 ms",
    "1.3 s",
    "1 min 30 s",
    "1 h 1 min",
  ]);
  expect([usd(0), usd(0.00001), usd(0.0123), usd(2)]).toEqual([
    "$0",
    "< $0.0001",
    "$0.0123",
    "$2.00",
  ]);
  expect([ago(1000, 1010), ago(1000, 1000 + 300)]).toEqual(["just now", "5 min ago"]);
});
