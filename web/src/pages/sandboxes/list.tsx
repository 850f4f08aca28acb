import { useState } from "react";
import { get } from "@/api/client";
import { useLoad } from "@/api/load";
import { navigate } from "@/router";
import { PageHeader } from "@/shell/layout";
import { Badge, IsolationBadge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { ago, bytes, duration, moment } from "@/ui/format";
import { EmptyState, ErrorState, Waiting } from "@/ui/states";
import { type Column, DataTable } from "@/ui/table";
import { NewSandbox } from "./new-sandbox";
import {
  type Figures,
  figuresOf,
  type Sandbox,
  type SandboxPage,
  settingOf,
  toneOf,
} from "./sandboxes";

interface Row {
  sandbox: Sandbox;
  figures: Figures | undefined;
}

const LOOK_EVERY_MS = 3000;
const MEASURE_EVERY_MS = 6000;
const MOST_MEASURED = 24;

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    label: "Name",
    cell: ({ sandbox }) => <span className="font-medium">{sandbox.name}</span>,
    sort: ({ sandbox }) => sandbox.name,
    width: "minmax(10rem, 1.5fr)",
  },
  {
    id: "state",
    label: "State",
    cell: ({ sandbox }) => (
      <Badge tone={toneOf(sandbox.state)} title={sandbox.note}>
        {sandbox.state}
      </Badge>
    ),
    sort: ({ sandbox }) => sandbox.state,
    width: "6.5rem",
  },
  {
    id: "isolation",
    label: "Isolation",
    cell: ({ sandbox }) =>
      sandbox.isolation ? (
        <IsolationBadge isolation={sandbox.isolation} backend={sandbox.backend} />
      ) : (
        <span className="text-faint">not started</span>
      ),
    sort: ({ sandbox }) => sandbox.isolation,
    width: "9rem",
  },
  {
    id: "backend",
    label: "Backend",
    cell: ({ sandbox }) => <span title={sandbox.placed}>{sandbox.backend || "—"}</span>,
    sort: ({ sandbox }) => sandbox.backend,
    width: "7rem",
  },
  {
    id: "image",
    label: "Image",
    cell: ({ sandbox }) => settingOf(sandbox, "image"),
    sort: ({ sandbox }) => settingOf(sandbox, "image"),
    width: "minmax(7rem, 1fr)",
  },
  {
    id: "memory",
    label: "Memory",
    cell: ({ sandbox, figures }) =>
      figures
        ? `${bytes(figures.memory_user)} of ${bytes(figures.memory_total)}`
        : `${settingOf(sandbox, "memory_mib")} MiB`,
    sort: ({ figures }) => figures?.memory_user ?? null,
    align: "right",
    width: "10rem",
  },
  {
    id: "cpu",
    label: "CPU used",
    cell: ({ figures }) => (figures ? duration(figures.cpu_s) : "—"),
    sort: ({ figures }) => figures?.cpu_s ?? null,
    align: "right",
    width: "6.5rem",
  },
  {
    id: "age",
    label: "Made",
    cell: ({ sandbox }) => (
      <span title={moment(sandbox.created_at)}>{ago(sandbox.created_at)}</span>
    ),
    sort: ({ sandbox }) => sandbox.created_at,
    align: "right",
    width: "6.5rem",
  },
];

export function SandboxList() {
  const [isMaking, setMaking] = useState(false);
  const sandboxes = useLoad(
    "sandboxes",
    (signal) => get<SandboxPage>("/sandboxes", { query: { limit: 500 }, signal }),
    LOOK_EVERY_MS,
  );
  const running = (sandboxes.data?.items ?? [])
    .filter((one) => one.state === "running")
    .slice(0, MOST_MEASURED);
  const figures = useLoad(
    running.length ? running.map((one) => one.id).join() : null,
    (signal) => figuresOf(running, signal),
    MEASURE_EVERY_MS,
  );
  const rows = (sandboxes.data?.items ?? []).map((sandbox) => ({
    sandbox,
    figures: figures.data?.[sandbox.name],
  }));
  return (
    <>
      <PageHeader
        title="Sandboxes"
        about="Each is a machine of its own for one piece of work. The label says which boundary really holds it."
        actions={
          <Button look="primary" icon="plus" onClick={() => setMaking(true)}>
            New sandbox
          </Button>
        }
      />
      <NewSandbox isOpen={isMaking} onClose={() => setMaking(false)} />
      {sandboxes.isLoading && <Waiting />}
      {sandboxes.problem && !sandboxes.data && (
        <ErrorState problem={sandboxes.problem} retry={sandboxes.reload} />
      )}
      {sandboxes.data &&
        (rows.length === 0 ? (
          <EmptyState
            icon="box"
            title="No sandboxes"
            action={
              <Button look="primary" icon="plus" onClick={() => setMaking(true)}>
                New sandbox
              </Button>
            }
          >
            A conversation makes its own when it first runs something. You can also make one here,
            or with <code className="font-mono text-xs">crucible create</code>.
          </EmptyState>
        ) : (
          <DataTable
            label="Sandboxes"
            rows={rows}
            columns={COLUMNS}
            rowKey={({ sandbox }) => sandbox.id}
            onOpen={({ sandbox }) => navigate(`/sandboxes/${encodeURIComponent(sandbox.name)}`)}
          />
        ))}
    </>
  );
}
