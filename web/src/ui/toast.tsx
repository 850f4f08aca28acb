/** Short words at the edge of the page, with a way back where there is one. */

import { useSyncExternalStore } from "react";
import { asProblem } from "@/api/problem";
import { Button, IconButton } from "./button";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  hint?: string;
  kind: "done" | "failed";
  undo?: () => Promise<void> | void;
}

const STAYS_MS = 6000;
const STAYS_WITH_UNDO_MS = 12_000;
const MOST = 3;

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

export function toast(text: string, undo?: () => Promise<void> | void): void {
  show({ text, kind: "done", ...(undo ? { undo } : {}) });
}

export function toastProblem(error: unknown): void {
  const problem = asProblem(error);
  show({ text: problem.message, hint: problem.hint, kind: "failed" });
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => toasts,
  );
  return (
    <section
      aria-label="Notifications"
      aria-live="polite"
      className="pointer-events-none fixed inset-x-3 bottom-3 z-50 flex flex-col items-center gap-2 sm:inset-x-auto sm:right-4 sm:items-end"
    >
      {shown.map((one) => (
        <div
          key={one.id}
          role={one.kind === "failed" ? "alert" : "status"}
          className="animate-rise pointer-events-auto flex w-full max-w-sm items-start gap-3 rounded-lg border bg-raised py-2.5 pr-2 pl-3.5 text-sm shadow-pop"
        >
          <Icon
            name={one.kind === "failed" ? "warn" : "check"}
            className={`mt-0.5 size-4 ${one.kind === "failed" ? "text-bad" : "text-good"}`}
          />
          <div className="min-w-0 flex-1 break-words py-px">
            {one.text}
            {one.hint && <div className="text-muted text-xs">{one.hint}</div>}
          </div>
          {one.undo && (
            <Button
              size="s"
              onClick={() => {
                drop(one.id);
                Promise.resolve(one.undo?.()).catch(toastProblem);
              }}
            >
              Undo
            </Button>
          )}
          <IconButton label="Dismiss" icon="close" onClick={() => drop(one.id)} />
        </div>
      ))}
    </section>
  );
}

function show(told: Omit<Toast, "id">): void {
  last += 1;
  const id = last;
  toasts = [...toasts, { ...told, id }].slice(-MOST);
  changed();
  setTimeout(() => drop(id), told.undo ? STAYS_WITH_UNDO_MS : STAYS_MS);
}

function drop(id: number): void {
  if (!toasts.some((one) => one.id === id)) return;
  toasts = toasts.filter((one) => one.id !== id);
  changed();
}

function changed(): void {
  for (const listener of listeners) listener();
}
