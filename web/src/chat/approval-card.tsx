/** A call that waits for a person: what would run, where, the risk, and four answers. */

import { useEffect, useId, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { Button } from "@/ui/button";
import { duration, visible } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { ProblemNote } from "@/ui/states";
import { Findings } from "./call-card";
import type { Approval } from "./turns";

type Decision = "once" | "always" | "edit" | "deny";

export function ApprovalCard({ approval }: { approval: Approval }) {
  const [busy, setBusy] = useState<Decision | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [mode, setMode] = useState<"ask" | "edit" | "deny">("ask");
  const title = useId();

  const answer = async (decision: Decision, more: { arguments?: unknown; note?: string } = {}) => {
    setBusy(decision);
    setProblem(null);
    try {
      await post(`/approvals/${approval.id}`, { decision, ...more });
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(null);
    }
  };

  return (
    <section
      aria-labelledby={title}
      className="border-t border-l-2 border-l-warn bg-warn-soft/40 px-3 py-3 text-sm"
    >
      <h3 id={title} className="flex items-center gap-2 font-medium">
        <Icon name="shield" className="size-4 text-warn" />
        Allow this call?
        <TimeLeft until={approval.expiresAt} />
      </h3>
      <pre className="mt-2 max-h-56 overflow-auto whitespace-pre-wrap break-words rounded-md bg-sunken px-3 py-2 font-mono text-xs">
        {visible(approval.subject || JSON.stringify(approval.arguments, null, 2))}
      </pre>
      <dl className="mt-2 grid grid-cols-[auto_1fr] gap-x-3 gap-y-0.5 text-xs">
        {others(approval).map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-faint">{visible(name)}</dt>
            <dd className="max-h-56 overflow-auto whitespace-pre-wrap break-words font-mono">
              {visible(value)}
            </dd>
          </div>
        ))}
        {approval.where && (
          <>
            <dt className="text-faint">Where</dt>
            <dd>{visible(approval.where)}</dd>
          </>
        )}
        {approval.reason && (
          <>
            <dt className="text-faint">Why you are asked</dt>
            <dd>{visible(approval.reason)}</dd>
          </>
        )}
      </dl>
      {approval.findings.length > 0 && <Findings findings={approval.findings} />}
      {problem && (
        <div className="mt-2">
          <ProblemNote problem={problem} />
        </div>
      )}
      {mode === "edit" ? (
        <Edit
          approval={approval}
          isBusy={busy === "edit"}
          onCancel={() => setMode("ask")}
          onSend={(given) => answer("edit", { arguments: given })}
        />
      ) : mode === "deny" ? (
        <Deny
          isBusy={busy === "deny"}
          onCancel={() => setMode("ask")}
          onSend={(note) => answer("deny", { note })}
        />
      ) : (
        <div className="mt-3 flex flex-wrap gap-2">
          <Button
            look="primary"
            size="s"
            isBusy={busy === "once"}
            disabled={busy !== null}
            onClick={() => answer("once")}
          >
            Allow once
          </Button>
          <Button
            size="s"
            isBusy={busy === "always"}
            disabled={busy !== null}
            onClick={() => answer("always")}
          >
            Always in this chat
          </Button>
          <Button size="s" icon="pencil" disabled={busy !== null} onClick={() => setMode("edit")}>
            Edit
          </Button>
          <Button look="danger" size="s" disabled={busy !== null} onClick={() => setMode("deny")}>
            Deny
          </Button>
        </div>
      )}
    </section>
  );
}

/** What the call is given beside its subject: the text that is written, the language of a program, a time limit. */
function others(approval: Approval): [string, string][] {
  if (!approval.subject) return [];
  const told = parsed(approval.subject);
  return Object.entries(approval.arguments)
    .filter(([name, value]) => {
      const isTold = JSON.stringify(told[name]) === JSON.stringify(value);
      return value !== approval.subject && !isTold;
    })
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

/** Of a tool that has nothing better the subject is all arguments, as JSON. */
function parsed(subject: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(subject);
    return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function Edit({
  approval,
  isBusy,
  onSend,
  onCancel,
}: {
  approval: Approval;
  isBusy: boolean;
  onSend: (given: Record<string, unknown>) => void;
  onCancel: () => void;
}) {
  const words = Object.entries(approval.arguments).filter(([, value]) => typeof value === "string");
  const [main] =
    words.find(([name]) => ["command", "code", "content"].includes(name)) ?? words[0] ?? [];
  const [text, setText] = useState(
    main ? String(approval.arguments[main]) : JSON.stringify(approval.arguments, null, 2),
  );
  const [fault, setFault] = useState("");
  const send = () => {
    if (main) {
      onSend({ ...approval.arguments, [main]: text });
      return;
    }
    try {
      onSend(JSON.parse(text) as Record<string, unknown>);
    } catch {
      setFault("This is not JSON");
    }
  };
  return (
    <div className="mt-3 flex flex-col gap-2">
      <label className="flex flex-col gap-1 text-xs">
        <span className="text-muted">
          {main ? `What runs instead (${main})` : "Arguments as JSON"}
        </span>
        <textarea
          autoFocus
          value={text}
          rows={Math.min(12, text.split("\n").length + 1)}
          aria-invalid={fault ? true : undefined}
          onChange={(event) => setText(event.target.value)}
          className="field font-mono text-xs"
          spellCheck={false}
        />
        {fault && <span className="text-bad">{fault}</span>}
      </label>
      <div className="flex gap-2">
        <Button look="primary" size="s" isBusy={isBusy} disabled={!text.trim()} onClick={send}>
          Run this instead
        </Button>
        <Button size="s" onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </div>
  );
}

function Deny({
  isBusy,
  onSend,
  onCancel,
}: {
  isBusy: boolean;
  onSend: (note: string) => void;
  onCancel: () => void;
}) {
  const [note, setNote] = useState("");
  return (
    <form
      className="mt-3 flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(note.trim());
      }}
    >
      <label className="flex flex-col gap-1 text-xs">
        <span className="text-muted">Why not, in words for the model (may be empty)</span>
        <input
          autoFocus
          className="field text-sm"
          value={note}
          maxLength={2000}
          onChange={(event) => setNote(event.target.value)}
        />
      </label>
      <div className="flex gap-2">
        <Button type="submit" look="danger" size="s" isBusy={isBusy}>
          Deny
        </Button>
        <Button size="s" onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

function TimeLeft({ until }: { until: number }) {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!until || until - now > 3600) return null;
  return (
    <span className="ml-auto font-normal text-faint text-xs tabular-nums">
      {until > now
        ? `${duration(Math.max(1, Math.round(until - now))).replace(".0 s", " s")} left`
        : "time is over"}
    </span>
  );
}
