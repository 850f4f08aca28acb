import { useRef, useState } from "react";
import { address, get, post, remove, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import { Button, IconButton } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { bytes, moment } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { ErrorState, ProblemNote, Waiting } from "@/ui/states";
import { type Column, DataTable } from "@/ui/table";
import { toast, toastProblem } from "@/ui/toast";
import { type FileEntry, textOf, tidyPath } from "./sandboxes";

const LARGEST_EDITED = 1 << 20;

/** The sandbox's files: walked, read, changed, taken away, put there. */
export function Files({ path }: { path: string }) {
  const [directory, setDirectory] = useState("/workspace");
  const [opened, setOpened] = useState<string | null>(null);
  if (opened !== null) {
    return <Editor key={opened} path={path} file={opened} onClose={() => setOpened(null)} />;
  }
  return <Directory path={path} directory={directory} onGo={setDirectory} onOpen={setOpened} />;
}

function Directory({
  path,
  directory,
  onGo,
  onOpen,
}: {
  path: string;
  directory: string;
  onGo: (directory: string) => void;
  onOpen: (file: string) => void;
}) {
  const [doomed, setDoomed] = useState<FileEntry | null>(null);
  const entries = useLoad(`${path} ${directory}`, (signal) =>
    get<{ items: FileEntry[] }>(`${path}/files/list`, { query: { path: directory }, signal }),
  );
  const at = (entry: FileEntry) => tidyPath(`${directory}/${entry.name}`);
  const isDirectory = (entry: FileEntry) => entry.type === "directory";
  const columns: Column<FileEntry>[] = [
    {
      id: "name",
      label: "Name",
      cell: (entry) => (
        <span className="flex items-center gap-2">
          <Icon
            name={isDirectory(entry) ? "folder" : "file"}
            className={`size-4 ${isDirectory(entry) ? "text-accent" : "text-faint"}`}
          />
          <span className="truncate">{entry.name}</span>
          {entry.target && <span className="truncate text-faint text-xs">→ {entry.target}</span>}
        </span>
      ),
      sort: (entry) => (isDirectory(entry) ? "0" : "1") + entry.name,
      width: "minmax(12rem, 1fr)",
    },
    {
      id: "size",
      label: "Size",
      cell: (entry) => (isDirectory(entry) ? "" : bytes(entry.size)),
      sort: (entry) => entry.size,
      align: "right",
      width: "6rem",
    },
    {
      id: "changed",
      label: "Changed",
      cell: (entry) => moment(entry.modified_at),
      sort: (entry) => entry.modified_at,
      align: "right",
      width: "12rem",
    },
    {
      id: "acts",
      label: "",
      cell: (entry) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: it only keeps clicks on its buttons from the row
        <span
          className="flex justify-end"
          onClick={(event) => event.stopPropagation()}
          onKeyDown={(event) => event.stopPropagation()}
        >
          <a
            href={
              isDirectory(entry)
                ? address(`${path}/archive`, { path: at(entry) })
                : address(`${path}/files`, { path: at(entry) })
            }
            download={isDirectory(entry) ? `${entry.name}.tar` : entry.name}
            aria-label={`Download ${entry.name}`}
            className="grid size-7 place-items-center rounded-md text-muted hover:bg-sunken hover:text-ink"
          >
            <Icon name="download" />
          </a>
          <IconButton
            label={`Delete ${entry.name}`}
            icon="trash"
            onClick={() => setDoomed(entry)}
          />
        </span>
      ),
      width: "5rem",
    },
  ];
  const sorted = [...(entries.data?.items ?? [])].sort(
    (one, other) =>
      Number(isDirectory(other)) - Number(isDirectory(one)) || one.name.localeCompare(other.name),
  );
  return (
    <div className="flex flex-col gap-3 py-4">
      <div className="flex flex-wrap items-center gap-2">
        <Crumbs directory={directory} onGo={onGo} />
        <Putting path={path} directory={directory} onDone={entries.reload} />
      </div>
      {entries.isLoading && <Waiting />}
      {entries.problem && !entries.data && (
        <ErrorState problem={entries.problem} retry={entries.reload} />
      )}
      {entries.data && (
        <DataTable
          label={`Files in ${directory}`}
          rows={sorted}
          columns={columns}
          rowKey={(entry) => entry.name_base64 ?? entry.name}
          onOpen={(entry) => (isDirectory(entry) ? onGo(at(entry)) : onOpen(at(entry)))}
          empty="This directory is empty"
        />
      )}
      <Confirm
        isOpen={doomed !== null}
        onClose={() => setDoomed(null)}
        title={`Delete ${doomed?.name ?? ""}?`}
        about="It is gone from the sandbox for good."
        act="Delete"
        onAct={async () => {
          if (!doomed) return;
          const query = { path: at(doomed), recursive: isDirectory(doomed) };
          await remove(`${path}/files`, { query });
          entries.reload();
        }}
      />
    </div>
  );
}

function Crumbs({ directory, onGo }: { directory: string; onGo: (directory: string) => void }) {
  const parts = directory.split("/").filter(Boolean);
  return (
    <nav aria-label="Directory" className="flex min-w-0 flex-1 flex-wrap items-center text-sm">
      <button
        type="button"
        className="rounded px-1 font-mono hover:underline"
        onClick={() => onGo("/")}
      >
        /
      </button>
      {parts.map((part, at) => {
        const to = `/${parts.slice(0, at + 1).join("/")}`;
        return (
          <span key={to} className="flex items-center">
            {at > 0 && <span className="text-faint">/</span>}
            <button
              type="button"
              aria-current={to === directory ? "page" : undefined}
              className="rounded px-1 font-mono hover:underline"
              onClick={() => onGo(to)}
            >
              {part}
            </button>
          </span>
        );
      })}
    </nav>
  );
}

function Putting({
  path,
  directory,
  onDone,
}: {
  path: string;
  directory: string;
  onDone: () => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const put = async (files: File[]) => {
    setBusy(true);
    try {
      for (const file of files) {
        await send("PUT", `${path}/files`, {
          query: { path: tidyPath(`${directory}/${file.name}`) },
          body: file,
          headers: { "Content-Type": "application/octet-stream" },
        });
      }
      toast(files.length === 1 ? `${files[0]?.name} is there` : `${files.length} files are there`);
    } catch (error) {
      toastProblem(error);
    } finally {
      setBusy(false);
      onDone();
    }
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        aria-label="Files to put here"
        className="hidden"
        onChange={(event) => {
          const files = [...(event.target.files ?? [])];
          event.target.value = "";
          if (files.length) void put(files);
        }}
      />
      <Button size="s" icon="plus" onClick={() => makeDirectory(path, directory, onDone)}>
        New directory
      </Button>
      <Button size="s" icon="attach" isBusy={isBusy} onClick={() => input.current?.click()}>
        Put files here
      </Button>
    </>
  );
}

async function makeDirectory(path: string, directory: string, done: () => void): Promise<void> {
  const taken = await get<{ items: FileEntry[] }>(`${path}/files/list`, {
    query: { path: directory },
  }).catch(() => ({ items: [] }));
  const names = new Set(taken.items.map((one) => one.name));
  let name = "new";
  for (let number = 2; names.has(name); number += 1) name = `new-${number}`;
  try {
    await post(`${path}/files/mkdir`, { path: tidyPath(`${directory}/${name}`) });
    done();
  } catch (error) {
    toastProblem(error);
  }
}

function Editor({ path, file, onClose }: { path: string; file: string; onClose: () => void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const content = useLoad(`${path} ${file}`, async (signal) => {
    const query = { path: file, length: LARGEST_EDITED + 1 };
    const answer = await send("GET", `${path}/files`, { query, signal });
    const data = await answer.arrayBuffer();
    return data.byteLength > LARGEST_EDITED
      ? { text: null, why: "It is too large to be edited here." }
      : { text: textOf(data), why: "It is no text." };
  });
  const save = async () => {
    if (draft === null) return;
    setBusy(true);
    setProblem(null);
    try {
      await send("PUT", `${path}/files`, {
        query: { path: file },
        body: new Blob([draft]),
        headers: { "Content-Type": "application/octet-stream" },
      });
      toast("Saved");
      content.set((old) => old && { ...old, text: draft });
      setDraft(null);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="flex flex-col gap-3 py-4">
      <div className="flex flex-wrap items-center gap-2">
        <IconButton
          label="Back to the files"
          icon="right"
          className="rotate-180"
          onClick={onClose}
        />
        <span className="min-w-0 flex-1 truncate font-mono text-sm">{file}</span>
        <a
          href={address(`${path}/files`, { path: file })}
          download={file.split("/").at(-1)}
          className="inline-flex items-center gap-1.5 text-muted text-sm hover:text-ink"
        >
          <Icon name="download" /> Download
        </a>
        {content.data?.text !== null && (
          <Button
            size="s"
            look="primary"
            isBusy={isBusy}
            disabled={draft === null || draft === content.data?.text}
            onClick={save}
          >
            Save
          </Button>
        )}
      </div>
      {problem && <ProblemNote problem={problem} />}
      {content.isLoading && <Waiting />}
      {content.problem && !content.data && (
        <ErrorState problem={content.problem} retry={content.reload} />
      )}
      {content.data &&
        (content.data.text === null ? (
          <p className="py-8 text-center text-muted text-sm">
            {content.data.why} Download it to see it.
          </p>
        ) : (
          <textarea
            aria-label={`Text of ${file}`}
            spellCheck={false}
            className="field h-[60vh] resize-y whitespace-pre font-mono text-xs"
            value={draft ?? content.data.text}
            onChange={(event) => setDraft(event.target.value)}
            onKeyDown={(event) => {
              if ((event.ctrlKey || event.metaKey) && event.key === "s") {
                event.preventDefault();
                void save();
              }
            }}
          />
        ))}
    </div>
  );
}
