/** A tool call as a card that opens: what was asked, what it said while it ran, how it ended, what was found risky. */

import { memo, useEffect, useRef, useState } from "react";
import { plainOutput } from "@/ui/ansi";
import { Badge, IsolationBadge, type Tone } from "@/ui/badge";
import { CodeBlock } from "@/ui/code";
import { duration } from "@/ui/format";
import { Icon, type IconName, Spinner } from "@/ui/icons";
import { ApprovalCard } from "./approval-card";
import type { Call, Finding } from "./turns";

const ICONS: Record<string, IconName> = {
  bash: "terminal",
  python: "code",
  read: "file",
  write: "pencil",
  edit: "pencil",
  grep: "search",
  glob: "search",
  ls: "folder",
  publish: "download",
};
const LANGUAGES: Record<string, string> = { bash: "bash", python: "python" };

export const CallCard = memo(function CallCard({
  call,
  isUndone,
  end,
  place,
}: {
  call: Call;
  isUndone: boolean;
  /** How the turn ended: what did not come to an end by then will not. Empty while it is under way. */
  end: string;
  place: { isolation: string; backend: string; name: string } | null;
}) {
  const isOver = end !== "";
  const isWaiting = call.approval !== null && !call.approval.answer && !isOver;
  const isRunning = call.state === "running" && !isOver;
  const [isOpen, setOpen] = useState<boolean | null>(null);
  const shown = isOpen ?? (isRunning || (call.isError && call.exitStatus !== null));
  const asked = readArguments(call);
  const output = call.output || (call.state === "done" ? call.result : "");
  return (
    <div
      className={`my-2 overflow-hidden rounded-lg border bg-surface ${isUndone ? "opacity-50" : ""}`}
      data-call={call.id}
    >
      <button
        type="button"
        aria-expanded={shown}
        onClick={() => setOpen(!shown)}
        className="flex min-h-9 w-full items-center gap-2.5 px-3 py-1.5 text-left text-sm hover:bg-hover"
      >
        <Icon name={ICONS[call.tool] ?? "spark"} className="size-4 text-muted" />
        <span className="font-medium">{call.tool || "tool"}</span>
        <span className="min-w-0 flex-1 truncate font-mono text-muted text-xs">
          {asked.summary}
        </span>
        {call.findings.length > 0 && <RiskBadge findings={call.findings} />}
        <Outcome call={call} isRunning={isRunning} isWaiting={isWaiting} end={end} />
        <Icon name={shown ? "down" : "right"} className="size-3.5 text-faint" />
      </button>
      {isWaiting && call.approval && <ApprovalCard approval={call.approval} />}
      {shown && (
        <div className="border-t px-3 pt-1 pb-3">
          {asked.code ? (
            <CodeBlock code={asked.code} language={asked.language} title={asked.title} />
          ) : null}
          {asked.rest.length > 0 && (
            <dl className="my-2 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1 text-xs">
              {asked.rest.map(([name, value]) => (
                <div key={name} className="contents">
                  <dt className="text-faint">{name}</dt>
                  <dd className="min-w-0 break-words font-mono">{value}</dd>
                </div>
              ))}
            </dl>
          )}
          {call.findings.length > 0 && <Findings findings={call.findings} />}
          {(output || isRunning) && (
            <Output
              text={output}
              isRunning={isRunning}
              isCut={call.isOutputCut}
              isError={call.isError}
            />
          )}
          <Footer call={call} place={place} />
        </div>
      )}
    </div>
  );
});

function Outcome({
  call,
  isRunning,
  isWaiting,
  end,
}: {
  call: Call;
  isRunning: boolean;
  isWaiting: boolean;
  end: string;
}) {
  if (isWaiting) return <Badge tone="warn">waits for you</Badge>;
  if (isRunning) return <Running since={call.ranAt} />;
  if (call.state !== "done") {
    if (end) return <Badge>not run</Badge>;
    return (
      <span className="flex items-center gap-1.5 text-faint text-xs">
        <Spinner className="size-3.5" />{" "}
        {call.state === "coming" ? "being written" : "getting ready"}
      </span>
    );
  }
  return (
    <span className="flex items-center gap-2 whitespace-nowrap text-faint text-xs tabular-nums">
      {call.durationS !== null && duration(call.durationS)}
      {call.exitStatus !== null && call.exitStatus !== 0 ? (
        <Badge tone="bad">exit {call.exitStatus}</Badge>
      ) : call.isError ? (
        <Badge tone={end === "cancelled" ? "plain" : "bad"}>{whyNot(call, end)}</Badge>
      ) : (
        <span className="text-good">
          <Icon name="check" className="size-3.5" />
          <span className="sr-only">Done</span>
        </span>
      )}
    </span>
  );
}

function whyNot(call: Call, end: string): string {
  if (call.approval?.answer?.decision === "deny") return "not approved";
  if (call.decision === "deny") return "denied";
  return end === "cancelled" ? "stopped" : "failed";
}

function Running({ since }: { since: number }) {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 500);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="flex items-center gap-1.5 whitespace-nowrap text-accent text-xs tabular-nums">
      <Spinner className="size-3.5" />
      <span className="sr-only">Running for </span>
      {duration(Math.max(0.1, now - since))}
    </span>
  );
}

/** Follows its end while it grows, unless one has scrolled up to read. */
function Output({
  text,
  isRunning,
  isCut,
  isError,
}: {
  text: string;
  isRunning: boolean;
  isCut: boolean;
  isError: boolean;
}) {
  const box = useRef<HTMLPreElement>(null);
  const isFollowing = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that it grows
  useEffect(() => {
    const element = box.current;
    if (element && isFollowing.current) element.scrollTop = element.scrollHeight;
  }, [text]);
  return (
    <section aria-label="Output" className="my-2">
      {isCut && <p className="mb-1 text-faint text-xs">Only a part of the output is shown</p>}
      <pre
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
        tabIndex={0}
        onScroll={(event) => {
          const element = event.currentTarget;
          isFollowing.current =
            element.scrollHeight - element.scrollTop - element.clientHeight < 24;
        }}
        className={`max-h-80 overflow-auto whitespace-pre-wrap break-words rounded-md bg-sunken px-3 py-2 font-mono text-xs leading-relaxed ${isError ? "border-bad border-l-2" : ""}`}
      >
        {plainOutput(text) ||
          (isRunning ? <span className="text-faint">No output yet</span> : null)}
      </pre>
    </section>
  );
}

function Footer({
  call,
  place,
}: {
  call: Call;
  place: { isolation: string; backend: string } | null;
}) {
  const answer = call.approval?.answer;
  return (
    <div className="flex flex-wrap items-center gap-2 text-faint text-xs">
      {place && <IsolationBadge isolation={place.isolation} backend={place.backend} />}
      {call.exitStatus !== null && <span>exit status {call.exitStatus}</span>}
      {call.durationS !== null && <span>{duration(call.durationS)}</span>}
      {answer ? (
        <span>
          {answer.decision === "deny" ? "not approved" : `approved (${answer.decision})`}
          {answer.note && `: ${answer.note}`}
        </span>
      ) : (
        call.reason && <span>{call.reason}</span>
      )}
    </div>
  );
}

const SEVERITIES: Record<string, Tone> = {
  critical: "bad",
  high: "bad",
  medium: "warn",
  low: "info",
};
const ORDER = ["critical", "high", "medium", "low"];

function RiskBadge({ findings }: { findings: Finding[] }) {
  const worst = ORDER.find((one) => findings.some((finding) => finding.severity === one)) ?? "low";
  return <Badge tone={SEVERITIES[worst] ?? "info"}>{worst} risk</Badge>;
}

export function Findings({ findings }: { findings: Finding[] }) {
  return (
    <ul aria-label="Risks found" className="my-2 flex flex-col gap-1">
      {findings.map((finding) => (
        <li key={`${finding.rule}-${finding.line}`} className="flex items-baseline gap-2 text-xs">
          <Badge tone={SEVERITIES[finding.severity] ?? "info"}>{finding.severity}</Badge>
          <span className="min-w-0">
            {finding.why}{" "}
            <span className="text-faint">
              ({finding.rule}
              {finding.line > 0 && `, line ${finding.line}`})
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

interface Asked {
  summary: string;
  code: string;
  language: string;
  title: string;
  rest: [string, string][];
}

/** Arguments as people read them: the program as code, the rest by name. */
export function readArguments(call: Pick<Call, "tool" | "arguments" | "subject">): Asked {
  let given: Record<string, unknown>;
  try {
    const parsed: unknown = JSON.parse(call.arguments || "{}");
    given =
      typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {
      summary: call.subject,
      code: call.arguments,
      language: "json",
      title: "arguments",
      rest: [],
    };
  }
  const main = ["command", "code", "script", "content", "new", "new_text"].find(
    (name) => typeof given[name] === "string" && given[name],
  );
  const code = main ? String(given[main]) : "";
  const path = typeof given.path === "string" ? given.path : "";
  const rest = Object.entries(given)
    .filter(([name]) => name !== main)
    .map(([name, value]): [string, string] => [
      name,
      typeof value === "string" ? value : JSON.stringify(value),
    ]);
  const first = (path || code || call.subject || rest[0]?.[1] || "").split("\n")[0] ?? "";
  return {
    summary: first.slice(0, 200),
    code,
    language: LANGUAGES[call.tool] ?? path.split(".").at(-1) ?? "",
    title: path || call.tool,
    rest,
  };
}
