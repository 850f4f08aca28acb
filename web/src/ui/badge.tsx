import type { ReactNode } from "react";
import { Icon } from "./icons";

export type Tone = "plain" | "good" | "warn" | "bad" | "info" | "accent";

const TONES: Record<Tone, string> = {
  plain: "bg-sunken text-muted",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  info: "bg-info-soft text-info",
  accent: "bg-accent-soft text-accent",
};

export function Badge({
  tone = "plain",
  title,
  children,
}: {
  tone?: Tone;
  title?: string;
  children: ReactNode;
}) {
  return (
    <span
      title={title}
      className={`inline-flex items-center gap-1 whitespace-nowrap rounded px-1.5 py-px font-medium text-2xs ${TONES[tone]}`}
    >
      {children}
    </span>
  );
}

const BOUNDARIES: Record<string, { tone: Tone; about: string }> = {
  "hardware-vm": { tone: "good", about: "A machine of its own, held by the processor" },
  "software-vm": {
    tone: "warn",
    about: "A machine of its own, emulated in software and jailed: slower, and a weaker promise",
  },
  "userspace-kernel": { tone: "warn", about: "A kernel of its own in a program" },
  wasm: { tone: "warn", about: "A WebAssembly module, without a kernel" },
  namespace: { tone: "bad", about: "A container: it shares the host's kernel" },
};

/** The boundary that was really used, never a better one. */
export function IsolationBadge({ isolation, backend }: { isolation: string; backend?: string }) {
  const name = isolation.replace(/^claimed[ :-]*/, "");
  const known = BOUNDARIES[name] ?? {
    tone: "plain" as const,
    about: "The boundary of this sandbox",
  };
  const about = name === isolation ? known.about : `${known.about}, as its provider claims`;
  return (
    <Badge tone={known.tone} title={backend ? `${about} (${backend})` : about}>
      <Icon name="shield" className="size-3" />
      <span className="sr-only">Isolation: </span>
      {isolation}
    </Badge>
  );
}
