import { describe, expect, it } from "vitest";
import { decisionsOf, ruleFor, textOf, tidyPath } from "@/pages/sandboxes/sandboxes";

const line = (fields: object) =>
  JSON.stringify({ time: 1, outcome: "denied", name: "a.test", address: "", port: 443, ...fields });

describe("the network's log", () => {
  it("is read newest first, and no further than wanted", () => {
    const log = [line({ time: 1 }), line({ time: 2 }), line({ time: 3 }), ""].join("\n");
    expect(decisionsOf(log, 2).map((one) => one.time)).toEqual([3, 2]);
  });

  it("is read also where it was cut, or holds what is no decision", () => {
    const log = [line({}).slice(5), "{", "[]", "{}", "null", line({ port: "x" }), '{"outcome"'];
    const found = decisionsOf(log.join("\n"), 10);
    expect(found).toHaveLength(1);
    expect(found[0]?.port).toBe(0);
    expect(found[0]?.times).toBe(1);
  });

  it("tells the rule that would let it through", () => {
    const [web, other, bare] = decisionsOf(
      [
        line({ name: "", address: "198.51.100.7", port: 22 }),
        line({ port: 5432 }),
        line({ port: 443 }),
      ].join("\n"),
      3,
    );
    expect(web && ruleFor(web)).toBe("a.test");
    expect(other && ruleFor(other)).toBe("a.test:5432");
    expect(bare && ruleFor(bare)).toBe("198.51.100.7:22");
  });
});

describe("a path", () => {
  it.each([
    ["/workspace//a/./b", "/workspace/a/b"],
    ["/workspace/../etc", "/etc"],
    ["/../../x", "/x"],
    ["", "/"],
  ])("%s is %s", (given, tidy) => {
    expect(tidyPath(given)).toBe(tidy);
  });
});

describe("bytes", () => {
  const bytes = (...values: number[]) => new Uint8Array(values).buffer as ArrayBuffer;

  it("are text if they can be", () => {
    expect(textOf(bytes(0xc3, 0xa4))).toBe("ä");
    expect(textOf(bytes())).toBe("");
    expect(textOf(bytes(0xef, 0xbb, 0xbf, 0x61))).toBe("\ufeffa");
  });

  it("are none with a NUL or a broken character", () => {
    expect(textOf(bytes(0x61, 0, 0x62))).toBeNull();
    expect(textOf(bytes(0xff, 0xfe))).toBeNull();
  });
});
