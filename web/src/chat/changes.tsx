/** What the sandbox changed in its copy of the workspace: file by file, to be looked at and taken along. */

import { useMemo, useState } from "react";
import { address, get, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { Link } from "@/router";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Icon } from "@/ui/icons";
import { EmptyState, ProblemNote, Waiting } from "@/ui/states";
import { splitPatch } from "./patch";

interface Change {
  path: string;
  change: string;
}

const WORKSPACE = "/workspace";
const TONES: Record<string, Tone> = {
  added: "good",
  deleted: "bad",
  removed: "bad",
  modified: "info",
};

export function Changes({ sandbox, onClose }: { sandbox: string; onClose: () => void }) {
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
  const all = changes.data ?? [];
  const wanted = all.map((one) => one.path).filter((path) => chosen === null || chosen.has(path));

  const toggle = (path: string) => {
    const next = new Set(chosen ?? all.map((one) => one.path));
    if (!next.delete(path)) next.add(path);
    setChosen(next);
  };
  const take = () => {
    const parts = wanted.map((path) => diffs.get(path)?.whole ?? "");
    save(new Blob(parts, { type: "text/x-patch" }), "changes.patch");
  };

  return (
    <Dialog
      isOpen
      isWide
      onClose={onClose}
      title="Changes in the workspace"
      about="The sandbox works on a copy. Nothing of this is on your disk."
      footer={
        all.length > 0 && (
          <Button
            look="primary"
            icon="download"
            disabled={!wanted.length || !patch.data}
            onClick={take}
          >
            {wanted.length === all.length ? "All" : wanted.length} as a patch
          </Button>
        )
      }
    >
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
            diff={diffs.get(one.path)?.hunks ?? ""}
            href={
              one.change === "deleted" || one.change === "removed"
                ? ""
                : address(`/sandboxes/${encodeURIComponent(sandbox)}/files`, {
                    path: `${WORKSPACE}/${one.path}`,
                  })
            }
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
  href,
  isChosen,
  onToggle,
}: {
  change: Change;
  diff: string;
  /** Of the file as it is now; empty if it is gone. */
  href: string;
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
          {href && (
            <a
              href={href}
              download={change.path.split("/").at(-1)}
              aria-label={`Download ${change.path}`}
              title="Download"
              onClick={(event) => event.stopPropagation()}
              className="grid size-6 place-items-center rounded text-muted hover:bg-hover hover:text-ink"
            >
              <Icon name="download" className="size-3.5" />
            </a>
          )}
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

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
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
