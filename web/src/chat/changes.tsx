/** What the sandbox changed in its copy of the workspace: file by file, to be written to the host or taken along. */

import { useMemo, useState } from "react";
import { API, get, post, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import { Link } from "@/router";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Icon } from "@/ui/icons";
import { EmptyState, ProblemNote, Waiting } from "@/ui/states";
import { toast } from "@/ui/toast";
import { splitPatch } from "./patch";

interface Change {
  path: string;
  change: string;
}

const TONES: Record<string, Tone> = {
  added: "good",
  deleted: "bad",
  removed: "bad",
  modified: "info",
};

export function Changes({
  conversation,
  sandbox,
  onClose,
}: {
  conversation: string;
  sandbox: string;
  onClose: () => void;
}) {
  const changes = useLoad(`changes ${sandbox}`, (signal) =>
    get<Change[]>(`/sandboxes/${encodeURIComponent(sandbox)}/changes`, { signal }),
  );
  const patch = useLoad(changes.data?.length ? `patch ${sandbox}` : null, (signal) =>
    send("GET", `/sandboxes/${encodeURIComponent(sandbox)}/changes/patch`, { signal }).then((one) =>
      one.text(),
    ),
  );
  const diffs = useMemo(() => splitPatch(patch.data ?? ""), [patch.data]);
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const all = changes.data ?? [];
  const wanted = all.map((one) => one.path).filter((path) => chosen === null || chosen.has(path));

  const toggle = (path: string) => {
    const next = new Set(chosen ?? all.map((one) => one.path));
    if (!next.delete(path)) next.add(path);
    setChosen(next);
  };
  const apply = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await post(`/conversations/${conversation}/apply`, { paths: wanted });
      toast(wanted.length === 1 ? "One file is written" : `${wanted.length} files are written`);
      changes.reload();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const take = () => {
    const query = new URLSearchParams(wanted.map((path) => ["path", path]));
    location.assign(`${API}/conversations/${conversation}/changes.zip?${query}`);
  };

  return (
    <Dialog
      isOpen
      isWide
      onClose={onClose}
      title="Changes in the workspace"
      about="The sandbox works on a copy. Nothing here is on your disk until you write it there."
      footer={
        all.length > 0 && (
          <>
            <Button icon="download" disabled={!wanted.length} onClick={take}>
              Download {wanted.length === all.length ? "all" : wanted.length}
            </Button>
            <Button look="primary" isBusy={isBusy} disabled={!wanted.length} onClick={apply}>
              Write {wanted.length === all.length ? "all" : wanted.length} to the host
            </Button>
          </>
        )
      }
    >
      {problem && <ProblemNote problem={problem} />}
      {changes.problem?.status === 422 && (
        <EmptyState
          icon="folder"
          title="This chat works on no directory of yours"
          action={
            <Link
              href={`/sandboxes/${encodeURIComponent(sandbox)}`}
              className="text-accent text-sm underline underline-offset-2"
            >
              Look into its sandbox
            </Link>
          }
        >
          Choose a directory when you begin a chat; what is changed in its copy is shown here.
        </EmptyState>
      )}
      {changes.problem && changes.problem.status !== 422 && (
        <ProblemNote problem={changes.problem} />
      )}
      {changes.isLoading && <Waiting text="Comparing" />}
      {changes.data && all.length === 0 && (
        <EmptyState icon="diff" title="Nothing is changed">
          When a command changes a file of the workspace, the difference is shown here.
        </EmptyState>
      )}
      <ul className="flex flex-col gap-2">
        {all.map((one) => (
          <FileChange
            key={one.path}
            change={one}
            diff={diffs.get(one.path) ?? ""}
            isChosen={chosen === null || chosen.has(one.path)}
            onToggle={() => toggle(one.path)}
          />
        ))}
      </ul>
    </Dialog>
  );
}

function FileChange({
  change,
  diff,
  isChosen,
  onToggle,
}: {
  change: Change;
  diff: string;
  isChosen: boolean;
  onToggle: () => void;
}) {
  return (
    <li className="overflow-hidden rounded-lg border bg-surface">
      <details className="group/file">
        <summary className="flex items-center gap-2.5 px-3 py-2 text-sm hover:bg-hover">
          <input
            type="checkbox"
            aria-label={`Take ${change.path}`}
            checked={isChosen}
            onClick={(event) => event.stopPropagation()}
            onChange={onToggle}
            className="accent-[var(--accent)]"
          />
          <span className="min-w-0 flex-1 truncate font-mono text-xs">{change.path}</span>
          <Badge tone={TONES[change.change] ?? "plain"}>{change.change}</Badge>
          <Icon
            name="right"
            className="size-3.5 text-faint transition-transform group-open/file:rotate-90"
          />
        </summary>
        <pre className="max-h-96 overflow-auto border-t bg-sunken py-1 font-mono text-xs leading-relaxed">
          {diff
            ? diff.split("\n").map((line, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: lines do not move
                <DiffLine key={at} line={line} />
              ))
            : "  No difference that can be shown as text"}
        </pre>
      </details>
    </li>
  );
}

function DiffLine({ line }: { line: string }) {
  const look = line.startsWith("+")
    ? "bg-good-soft text-good"
    : line.startsWith("-")
      ? "bg-bad-soft text-bad"
      : line.startsWith("@@")
        ? "text-info"
        : "";
  return <div className={`min-w-fit whitespace-pre px-3 ${look}`}>{line || " "}</div>;
}
