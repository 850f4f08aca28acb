/** Server-sent events over `fetch`, so that refusals are read as problems and any method can be used. */

import { type Ask, send } from "./client";
import { asProblem, type Problem, wasAborted } from "./problem";

export interface ServerEvent {
  kind: string;
  id: string;
  data: unknown;
}

const LONGEST_WAIT_MS = 10_000;

/** One stream, to its end. Throws `Problem`. */
export async function* events(
  path: string,
  ask: Ask & { method?: string } = {},
): AsyncGenerator<ServerEvent> {
  const { method = "GET", ...rest } = ask;
  const headers = { ...rest.headers, Accept: "text/event-stream" };
  const response = await send(method, path, { ...rest, headers });
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export interface Following {
  /** The number after which to begin, asked anew at each connection. */
  after: () => number;
  heard: (event: ServerEvent) => void;
  state: (state: "live" | "waiting" | "lost", problem?: Problem) => void;
  signal: AbortSignal;
}

/** Follows for ever: what drops is taken up where it was. Ends when told to, or when the server says no for good. */
export async function follow(path: string, following: Following): Promise<void> {
  let failures = 0;
  while (!following.signal.aborted) {
    try {
      const query = { after: following.after() };
      const headers: Record<string, string> = {};
      const stream = events(path, { query, headers, signal: following.signal });
      const timer = setTimeout(() => following.state("live"), 0);
      try {
        for await (const event of stream) {
          failures = 0;
          following.state("live");
          following.heard(event);
        }
      } finally {
        clearTimeout(timer);
      }
    } catch (error) {
      if (wasAborted(error) || following.signal.aborted) return;
      const problem = asProblem(error);
      if (isFinal(problem)) {
        following.state("lost", problem);
        return;
      }
    }
    failures += 1;
    following.state("waiting");
    await pause(Math.min(LONGEST_WAIT_MS, 250 * 2 ** Math.min(failures, 6)), following.signal);
  }
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

function isFinal(problem: Problem): boolean {
  return [400, 401, 403, 404, 410, 422].includes(problem.status);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      window.removeEventListener("online", done);
      resolve();
    }
    signal.addEventListener("abort", done);
    // A laptop that wakes need not wait for its turn.
    window.addEventListener("online", done);
  });
}
