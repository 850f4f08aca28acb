/** What the sandbox changed in its copy of the workspace: file by file, to be looked at, taken along, or written to the host. */

import { useMemo, useState } from "react";
import { address, get, post, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import type { components } from "@/api/schema";
import { useUser } from "@/api/session";
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

type Applied = components["schemas"]["AppliedTold"];

const WORKSPACE = "/workspace";
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
  const all = changes.data ?? [];
  const wanted = all.map((one) => one.path).filter((path) => chosen === null || chosen.has(path));

  const toggle = (path: string) => {
    const next = new Set(chosen ?? all.map((one) => one.path));
    if (!next.delete(path)) next.add(path);
    setChosen(next);
  };
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [refused, setRefused] = useState<Applied["refused"]>([]);
  // As the server has it: only who runs it writes files on its machine.
  const mayWrite = useUser()?.id === "local";

  const write = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const told = await post<Applied>(`/conversations/${conversation}/apply`, { paths: wanted });
      setRefused(told.refused);
      toast(
        told.applied.length === 1
          ? "One file is written"
          : `${told.applied.length} files are written`,
      );
      changes.reload();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const zip = (paths: string[]) => {
    location.assign(address(`/conversations/${conversation}/changes.zip`, { path: paths }));
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
      about="The sandbox works on a copy. Nothing of this is on your disk until you write it there."
      footer={
        all.length > 0 && (
          <>
            <Button icon="download" disabled={!wanted.length || !patch.data} onClick={take}>
              As a patch
            </Button>
            <Button
              icon="download"
              disabled={!wanted.length}
              onClick={() => zip(chosen ? wanted : [])}
            >
              As a zip
            </Button>
            {mayWrite && (
              <Button look="primary" isBusy={isBusy} disabled={!wanted.length} onClick={write}>
                Write {wanted.length === all.length ? "all" : wanted.length} to the directory
              </Button>
            )}
          </>
        )
      }
    >
      {problem && <ProblemNote problem={problem} />}
      {refused.length > 0 && (
        <ul role="alert" className="mb-2 rounded-md bg-warn-soft px-3 py-2 text-sm">
          {refused.map((one) => (
            <li key={one.path}>
              <span className="font-mono text-xs">{one.path}</span> was not written: {one.why}
            </li>
          ))}
        </ul>
      )}
      {changes.problem?.status === 422 && (
        <EmptyState
          icon="folder"
          title="This chat works on no directory of yours"
          action={
            <div className="flex flex-col items-center gap-3">
              <Button icon="download" onClick={() => zip([])}>
                All files of its workspace as a zip
              </Button>
              <Link
                href={`/sandboxes/${encodeURIComponent(sandbox)}`}
                className="text-accent text-sm underline underline-offset-2"
              >
                Look into its sandbox
              </Link>
            </div>
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
