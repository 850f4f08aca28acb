/** Server-sent events over `fetch`, so that refusals are read as problems and any method can be used. */

import { type Ask, send } from "./client";

export interface ServerEvent {
  kind: string;
  id: string;
  data: unknown;
}

/** Several of the server's beats: who is silent for longer is gone. */
const LONGEST_SILENCE_MS = 60_000;

/** One stream, to its end. Throws `Problem`, and TypeError where the connection is lost. */
export async function* events(
  path: string,
  ask: Ask & { method?: string; onOpen?: () => void } = {},
): AsyncGenerator<ServerEvent> {
  const { method = "GET", onOpen, ...rest } = ask;
  const headers = { ...rest.headers, Accept: "text/event-stream" };
  const response = await send(method, path, { ...rest, headers });
  onOpen?.();
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await unlessLost(reader.read());
      if (done) return;
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A connection whose other end went without a word stays open for the browser, for hours. */
function unlessLost<T>(next: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const lost = () => reject(new TypeError("The connection is lost"));
    const timer = setTimeout(lost, LONGEST_SILENCE_MS);
    window.addEventListener("offline", lost);
    next.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      window.removeEventListener("offline", lost);
    });
  });
}

/** Fed with text as it comes, in whatever pieces. */
export class EventParser {
  private rest = "";
  private kind = "";
  private id = "";
  private data: string[] = [];

  *feed(text: string): Generator<ServerEvent> {
    this.rest += text;
    const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.take(line);
      if (event) yield event;
    }
  }

  private take(line: string): ServerEvent | null {
    if (line === "") return this.close();
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.kind = value;
    else if (name === "id") this.id = value;
    else if (name === "data") this.data.push(value);
    return null;
  }

  private close(): ServerEvent | null {
    const { kind, id, data } = this;
    this.kind = "";
    this.data = [];
    if (!data.length) return null;
    const text = data.join("\n");
    try {
      return { kind: kind || "message", id, data: JSON.parse(text) as unknown };
    } catch {
      return { kind: kind || "message", id, data: text };
    }
  }
}
