import { get } from "@/api/client";
import type { components } from "@/api/schema";
import type { Tone } from "@/ui/badge";

export type Sandbox = components["schemas"]["Sandbox"];
export type SandboxPage = components["schemas"]["Page_Sandbox_"];
export type Figures = components["schemas"]["Figures"];
export type Ports = components["schemas"]["Ports"];
export type FileEntry = components["schemas"]["FileEntry"];

const TONES: Record<string, Tone> = {
  running: "good",
  paused: "warn",
  broken: "bad",
  starting: "info",
  creating: "info",
  stopping: "info",
  removing: "info",
};

export function toneOf(state: string): Tone {
  return TONES[state] ?? "plain";
}

export function pathOf(name: string): string {
  return `/sandboxes/${encodeURIComponent(name)}`;
}

/** A setting that is text or a number; "" if it is neither. */
export function settingOf(sandbox: Sandbox, name: string): string {
  const value = sandbox.settings[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** What cannot be told of one sandbox is no reason to tell nothing of the others. */
export async function figuresOf(
  sandboxes: readonly Sandbox[],
  signal: AbortSignal,
): Promise<Record<string, Figures>> {
  const found = await Promise.allSettled(
    sandboxes.map(async (one) => ({
      name: one.name,
      figures: await get<Figures>(`${pathOf(one.name)}/stats`, { signal }),
    })),
  );
  return Object.fromEntries(
    found.flatMap((one) =>
      one.status === "fulfilled" ? [[one.value.name, one.value.figures]] : [],
    ),
  );
}

export interface Decision {
  time: number;
  outcome: string;
  name: string;
  address: string;
  port: number;
  rule: string;
  reason: string;
  hint: string;
  times: number;
}

/** Lines of JSON, the newest first. A line that is none is left out: the log may be cut anywhere. */
export function decisionsOf(log: string, most: number): Decision[] {
  const found: Decision[] = [];
  const lines = log.split("\n");
  for (let at = lines.length - 1; at >= 0 && found.length < most; at -= 1) {
    const one = decisionOf(lines[at] ?? "");
    if (one) found.push(one);
  }
  return found;
}

function decisionOf(line: string): Decision | null {
  if (!line.startsWith("{")) return null;
  try {
    const told = JSON.parse(line) as Record<string, unknown>;
    const text = (name: string) => (typeof told[name] === "string" ? (told[name] as string) : "");
    const number = (name: string) => (typeof told[name] === "number" ? (told[name] as number) : 0);
    if (!text("outcome")) return null;
    return {
      time: number("time"),
      outcome: text("outcome"),
      name: text("name"),
      address: text("address"),
      port: number("port"),
      rule: text("rule"),
      reason: text("reason"),
      hint: text("hint"),
      times: Math.max(1, number("times")),
    };
  } catch {
    return null;
  }
}

/** The rule that would let a refused connection through. */
export function ruleFor(decision: Decision): string {
  const host = decision.name || decision.address;
  return decision.port === 443 || decision.port === 80 ? host : `${host}:${decision.port}`;
}

/** `..` and `.` are gone, slashes are single: what a breadcrumb can be made of. */
export function tidyPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** Text, as far as its bytes tell; null for anything else. */
export function textOf(data: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
