import { describe, expect, it } from "vitest";
import { EventParser } from "@/api/events";

const STREAM =
  'event: text\nid: 4\ndata: {"text":"a"}\n\n: ping\n\nevent: text\r\nid: 5\r\ndata: {"text":"b"}\r\n\r\n';
const TOLD = [
  { kind: "text", id: "4", data: { text: "a" } },
  { kind: "text", id: "5", data: { text: "b" } },
];

describe("server-sent events", () => {
  it("are the same in whatever pieces they come", () => {
    for (let size = 1; size <= STREAM.length; size += 1) {
      const parser = new EventParser();
      const heard = [];
      for (let at = 0; at < STREAM.length; at += size) {
        heard.push(...parser.feed(STREAM.slice(at, at + size)));
      }
      expect(heard).toEqual(TOLD);
    }
  });

  it("keep text that is not JSON", () => {
    expect([...new EventParser().feed("data: words\n\n")]).toEqual([
      { kind: "message", id: "", data: "words" },
    ]);
  });
});
