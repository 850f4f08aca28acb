/** One turn: what was asked, what came of it, and what can be done with it. */

import { memo, useMemo, useState } from "react";
import { post } from "@/api/client";
import { navigate } from "@/router";
import { Button, IconButton } from "@/ui/button";
import { CopyButton } from "@/ui/copy";
import { bytes, count, duration, moment, usd } from "@/ui/format";
import { Icon, Spinner } from "@/ui/icons";
import { Markdown } from "@/ui/markdown";
import { toast, toastProblem } from "@/ui/toast";
import { ArtifactView } from "./artifact-view";
import { CallCard } from "./call-card";
import { EditPrompt } from "./edit-prompt";
import { loadConversations } from "./list";
import { shortModel } from "./session";
import type { Part, Turn } from "./turns";

export interface Place {
  name: string;
  isolation: string;
  backend: string;
}

interface Props {
  turn: Turn;
  conversation: string;
  place: Place | null;
  isLast: boolean;
  /** A turn is under way: nothing of the past can be changed. */
  isBusy: boolean;
  lastStep: number;
}

export const TurnView = memo(function TurnView({
  turn,
  conversation,
  place,
  isLast,
  isBusy,
  lastStep,
}: Props) {
  const [isEditing, setEditing] = useState(false);
  const isOpen = turn.end === "";
  return (
    <article aria-label={`Turn ${turn.number}`} className="group/turn pb-6">
      {(turn.prompt || turn.attachments.length > 0) &&
        (isEditing ? (
          <EditPrompt turn={turn} conversation={conversation} onClose={() => setEditing(false)} />
        ) : (
          // One that went on with another has no prompt of its own.
          <Prompt
            turn={turn}
            canEdit={!isBusy && !turn.isResumed}
            onEdit={() => setEditing(true)}
          />
        ))}
      <div className="min-w-0">
        {turn.parts.map((part, at) => (
          <PartView
            key={part.key}
            part={part}
            conversation={conversation}
            place={place}
            end={turn.end}
            isGrowing={isOpen && at === turn.parts.length - 1}
            canRewind={!isBusy}
            lastStep={lastStep}
          />
        ))}
        {isOpen && <AtWork turn={turn} />}
        {turn.problem && <Failed problem={turn.problem} />}
        {turn.end && turn.end !== "done" && !turn.problem && <Ended end={turn.end} />}
      </div>
      {!isOpen && (
        <Actions turn={turn} conversation={conversation} isLast={isLast} isBusy={isBusy} />
      )}
    </article>
  );
});

function Prompt({ turn, canEdit, onEdit }: { turn: Turn; canEdit: boolean; onEdit: () => void }) {
  return (
    <div className="mb-1 flex flex-col items-end">
      <div className="max-w-[min(85%,42rem)] rounded-2xl rounded-br-md bg-bubble px-4 py-2.5">
        <h2 className="sr-only">You said</h2>
        <p className="whitespace-pre-wrap break-words leading-relaxed">{turn.prompt}</p>
        {turn.attachments.length > 0 && (
          <ul aria-label="Attached files" className="mt-2 flex flex-wrap gap-1.5">
            {turn.attachments.map((one) => (
              <li
                key={one.name}
                className="flex items-center gap-1.5 rounded-md border bg-surface px-2 py-1 text-xs"
              >
                <Icon name="attach" className="size-3.5 text-muted" />
                {one.name} <span className="text-faint">{bytes(one.size)}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
      <div className="mt-1 flex items-center gap-0.5 opacity-0 transition-opacity focus-within:opacity-100 group-hover/turn:opacity-100 max-md:opacity-100">
        <time
          className="px-1 text-2xs text-faint"
          dateTime={new Date(turn.at * 1000).toISOString()}
        >
          {moment(turn.at)}
        </time>
        <CopyButton text={turn.prompt} label="Copy the prompt" />
        {canEdit && <IconButton label="Edit the prompt" icon="pencil" onClick={onEdit} />}
      </div>
    </div>
  );
}

const PartView = memo(function PartView({
  part,
  conversation,
  place,
  end,
  isGrowing,
  canRewind,
  lastStep,
}: {
  part: Part;
  conversation: string;
  place: Place | null;
  end: string;
  isGrowing: boolean;
  canRewind: boolean;
  lastStep: number;
}) {
  switch (part.kind) {
    case "text":
      return (
        <div className={part.isUndone ? "opacity-50" : ""}>
          <Markdown text={part.text} isGrowing={isGrowing} />
        </div>
      );
    case "thinking":
      return <Thinking text={part.text} seconds={part.ended - part.began} isGrowing={isGrowing} />;
    case "call":
      return <CallCard call={part.call} isUndone={part.isUndone} end={end} place={place} />;
    case "artifact":
      return <ArtifactView artifact={part.artifact} conversation={conversation} />;
    case "checkpoint":
      return (
        <Checkpoint
          step={part.checkpointStep}
          steps={lastStep - part.checkpointStep + 1}
          conversation={conversation}
          canRewind={canRewind && !part.isUndone}
        />
      );
    case "facts":
      return <Facts how={part.how} facts={part.facts} />;
    case "notice":
      return (
        <p className="my-2 flex gap-2 text-muted text-sm">
          <Icon
            name={part.tone === "warn" ? "warn" : "info"}
            className="mt-0.5 size-4 text-faint"
          />
          <span>{part.text}</span>
        </p>
      );
  }
});

function Thinking({
  text,
  seconds,
  isGrowing,
}: {
  text: string;
  seconds: number;
  isGrowing: boolean;
}) {
  return (
    <details className="group/think my-2 rounded-lg border border-dashed">
      <summary className="flex items-center gap-2 rounded-lg px-3 py-1.5 text-muted text-sm hover:bg-hover">
        {isGrowing ? <Spinner className="size-3.5" /> : <Icon name="spark" className="size-3.5" />}
        <span className="flex-1">
          {isGrowing ? "Thinking" : seconds >= 1 ? `Thought for ${duration(seconds)}` : "Thought"}
        </span>
        <Icon name="right" className="size-3.5 transition-transform group-open/think:rotate-90" />
      </summary>
      <div className="max-h-96 overflow-auto whitespace-pre-wrap break-words px-3 pb-3 text-muted text-sm leading-relaxed">
        {text}
      </div>
    </details>
  );
}

function Checkpoint({
  step,
  steps,
  conversation,
  canRewind,
}: {
  step: number;
  steps: number;
  conversation: string;
  canRewind: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const rewind = async () => {
    setBusy(true);
    try {
      await post(`/sessions/${conversation}/rewind`, { steps });
      toast(`Taken back to before step ${step}`);
    } catch (error) {
      toastProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="my-2 flex items-center gap-2 text-faint text-xs">
      <span className="h-px flex-1 bg-line" />
      <Icon name="camera" className="size-3.5" /> Step {step}
      {canRewind && (
        <Button look="quiet" size="s" icon="rewind" isBusy={isBusy} onClick={rewind}>
          Rewind to here
        </Button>
      )}
      <span className="h-px flex-1 bg-line" />
    </div>
  );
}

function Facts({ how, facts }: { how: "recalled" | "remembered"; facts: string[] }) {
  return (
    <details className="my-1.5 text-muted text-xs">
      <summary className="inline-flex items-center gap-1.5 rounded hover:text-ink">
        <Icon name="memory" className="size-3.5" />
        {how === "recalled" ? "Recalled" : "Will remember"}{" "}
        {facts.length === 1 ? "one thing" : `${facts.length} things`}
      </summary>
      <ul className="mt-1 list-disc pl-6">
        {facts.map((fact) => (
          <li key={fact}>{fact}</li>
        ))}
      </ul>
    </details>
  );
}

function AtWork({ turn }: { turn: Turn }) {
  const last = turn.parts.at(-1);
  const isSilent =
    !last ||
    (last.kind === "call" && last.call.state === "done") ||
    last.kind === "checkpoint" ||
    last.kind === "facts" ||
    last.kind === "artifact";
  if (turn.retrying) {
    return (
      <p role="status" className="my-2 flex items-center gap-2 text-sm text-warn">
        <Spinner /> {turn.retrying}
      </p>
    );
  }
  if (!isSilent) return null;
  return (
    <p role="status" className="my-2 flex items-center gap-2 text-muted text-sm">
      <span className="flex gap-1" aria-hidden="true">
        <span className="size-1.5 animate-glow rounded-full bg-accent" />
        <span className="size-1.5 animate-glow rounded-full bg-accent [animation-delay:0.2s]" />
        <span className="size-1.5 animate-glow rounded-full bg-accent [animation-delay:0.4s]" />
      </span>
      <span className="sr-only">At work</span>
    </p>
  );
}

function Failed({ problem }: { problem: { message: string; hint: string; code: string } }) {
  return (
    <div
      role="alert"
      className="my-3 rounded-lg border border-bad/40 bg-bad-soft px-4 py-3 text-sm"
    >
      <p className="flex gap-2 font-medium text-bad">
        <Icon name="warn" className="mt-0.5 size-4" /> {problem.message}
      </p>
      {problem.hint && <p className="mt-1 pl-6">{problem.hint}</p>}
      <p className="mt-1 pl-6 font-mono text-2xs text-faint">{problem.code}</p>
    </div>
  );
}

const ENDS: Record<string, string> = {
  cancelled: "Stopped",
  interrupted: "Cut short: the server ended while it was at work",
  "budget-spent": "The budget is spent; what was done so far is kept",
  "too-many-steps": "Ended after as many steps as it may take",
  failed: "It failed",
};

function Ended({ end }: { end: string }) {
  return (
    <p className="my-2 flex items-center gap-2 text-muted text-sm">
      <Icon name={end === "cancelled" ? "stop" : "info"} className="size-4 text-faint" />{" "}
      {ENDS[end] ?? end}
    </p>
  );
}

function Actions({
  turn,
  conversation,
  isLast,
  isBusy,
}: {
  turn: Turn;
  conversation: string;
  isLast: boolean;
  isBusy: boolean;
}) {
  const answer = useMemo(
    () =>
      turn.parts
        .map((part) => (part.kind === "text" ? part.text : ""))
        .filter(Boolean)
        .join("\n\n"),
    [turn],
  );
  const retry = () => post(`/conversations/${conversation}/retry`).catch(toastProblem);
  const resume = () => post(`/sessions/${conversation}/resume`).catch(toastProblem);
  const branch = async () => {
    try {
      const made = await post<{ id: string }>(`/conversations/${conversation}/branch`, {
        turn: turn.number,
      });
      await loadConversations();
      navigate(`/c/${made.id}`);
      toast("A new conversation that goes on from here");
    } catch (error) {
      toastProblem(error);
    }
  };
  const spent = turn.tokens.input + turn.tokens.output;
  return (
    <footer
      className={`mt-2 flex flex-wrap items-center gap-0.5 transition-opacity focus-within:opacity-100 group-hover/turn:opacity-100 max-md:opacity-100 ${isLast ? "" : "opacity-0"}`}
    >
      {answer && <CopyButton text={answer} label="Copy the answer" />}
      {isLast && !isBusy && <IconButton label="Try again" icon="retry" onClick={retry} />}
      {!isBusy && <IconButton label="Branch from here" icon="branch" onClick={branch} />}
      {isLast && !isBusy && turn.end === "interrupted" && (
        <Button size="s" icon="play" onClick={resume}>
          Go on
        </Button>
      )}
      <span className="ml-1 flex flex-wrap gap-x-2 text-faint text-xs tabular-nums">
        {turn.model && <span>{shortModel(turn.model)}</span>}
        {turn.endedAt > turn.at && <span>{duration(turn.endedAt - turn.at)}</span>}
        {spent > 0 && (
          <span title={`${turn.tokens.input} tokens read, ${turn.tokens.output} written`}>
            {count(spent)} tokens
          </span>
        )}
        {turn.costUsd > 0 && (
          <span title={turn.isCostWhole ? undefined : "Without what has no known price"}>
            {usd(turn.costUsd)}
          </span>
        )}
      </span>
    </footer>
  );
}
