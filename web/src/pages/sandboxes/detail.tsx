import { lazy, Suspense } from "react";
import { get } from "@/api/client";
import { useLoad } from "@/api/load";
import { Link, navigate } from "@/router";
import { PageHeader } from "@/shell/layout";
import { Badge, IsolationBadge } from "@/ui/badge";
import { Figure } from "@/ui/figure";
import { ago, bytes, count, duration } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { Boundary, EmptyState, ErrorState, Waiting } from "@/ui/states";
import { Tabs } from "@/ui/tabs";
import { Actions } from "./actions";
import { Files } from "./files";
import { Logs } from "./logs";
import { Network } from "./network";
import { PortList } from "./ports";
import { type Figures, pathOf, type Sandbox, settingOf, toneOf } from "./sandboxes";

const Terminal = lazy(() => import("./terminal"));
const LOOK_EVERY_MS = 3000;

export function SandboxDetail({ name, tab }: { name: string; tab: string }) {
  const path = pathOf(name);
  const sandbox = useLoad(path, (signal) => get<Sandbox>(path, { signal }), LOOK_EVERY_MS);
  if (sandbox.isLoading) return <Waiting />;
  if (!sandbox.data) {
    return sandbox.problem ? <ErrorState problem={sandbox.problem} retry={sandbox.reload} /> : null;
  }
  if (sandbox.problem?.status === 404) {
    return (
      <EmptyState icon="box" title={`${name} is gone`}>
        <Link href="/sandboxes" className="underline">
          All sandboxes
        </Link>
      </EmptyState>
    );
  }
  return <Detail sandbox={sandbox.data} tab={tab} reload={sandbox.reload} />;
}

function Detail({ sandbox, tab, reload }: { sandbox: Sandbox; tab: string; reload: () => void }) {
  const path = pathOf(sandbox.name);
  const isRunning = sandbox.state === "running";
  const running = (content: React.ReactNode) =>
    isRunning ? (
      content
    ) : (
      <EmptyState icon="play" title={`The sandbox is ${sandbox.state}`}>
        Start it to see this.
      </EmptyState>
    );
  return (
    <>
      <Link
        href="/sandboxes"
        className="mb-2 inline-flex items-center gap-1 text-muted text-sm hover:text-ink"
      >
        <Icon name="right" className="size-3 rotate-180" /> All sandboxes
      </Link>
      <PageHeader
        title={sandbox.name}
        about={
          <span className="flex flex-wrap items-center gap-1.5">
            <Badge tone={toneOf(sandbox.state)}>{sandbox.state}</Badge>
            {sandbox.isolation && (
              <IsolationBadge isolation={sandbox.isolation} backend={sandbox.backend} />
            )}
            <span>
              {settingOf(sandbox, "image")}, made {ago(sandbox.created_at)}
            </span>
          </span>
        }
        actions={<Actions sandbox={sandbox} onDone={reload} />}
      />
      {sandbox.note && <p className="mb-3 text-muted text-sm">{sandbox.note}</p>}
      <Tabs
        label="Sandbox"
        value={tab || "overview"}
        onChange={(id) => navigate(id === "overview" ? path : `${path}/${id}`)}
        tabs={[
          { id: "overview", label: "Overview", content: <Overview sandbox={sandbox} /> },
          {
            id: "terminal",
            label: "Terminal",
            content: running(
              <Boundary>
                <Suspense fallback={<Waiting text="Loading the terminal" />}>
                  <Terminal path={path} />
                </Suspense>
              </Boundary>,
            ),
          },
          { id: "files", label: "Files", content: running(<Files path={path} />) },
          { id: "ports", label: "Ports", content: running(<PortList path={path} />) },
          { id: "network", label: "Network", content: <Network path={path} /> },
          { id: "logs", label: "Logs", content: <Logs path={path} /> },
        ]}
      />
    </>
  );
}

function Overview({ sandbox }: { sandbox: Sandbox }) {
  const path = pathOf(sandbox.name);
  const isRunning = sandbox.state === "running";
  const figures = useLoad(
    isRunning ? `${path}/stats` : null,
    (signal) => get<Figures>(`${path}/stats`, { signal }),
    LOOK_EVERY_MS,
  );
  const now = figures.data;
  return (
    <div className="flex flex-col gap-4 py-4">
      {now && (
        <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
          <Figure name="Memory" value={bytes(now.memory_user)} of={bytes(now.memory_total)} />
          <Figure name="Most memory" value={bytes(now.memory_peak)} />
          <Figure name="CPU used" value={duration(now.cpu_s)} />
          <Figure
            name="Disk used"
            value={bytes(now.disk_total - now.disk_free)}
            of={bytes(now.disk_total)}
          />
          <Figure name="Processes" value={count(now.processes)} />
          <Figure name="Up" value={duration(now.uptime_s)} />
        </dl>
      )}
      {now && now.oom_kills > 0 && (
        <p className="rounded-md bg-warn-soft px-3 py-2 text-sm text-warn">
          {now.oom_kills === 1 ? "One process was" : `${now.oom_kills} processes were`} ended for
          want of memory.
        </p>
      )}
      <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 rounded-lg border bg-surface px-4 py-3 text-sm">
        <dt className="text-muted">Id</dt>
        <dd className="break-all font-mono text-xs leading-5">{sandbox.id}</dd>
        <dt className="text-muted">Image</dt>
        <dd>{settingOf(sandbox, "image")}</dd>
        <dt className="text-muted">Digest</dt>
        <dd className="break-all font-mono text-xs leading-5">{sandbox.image_digest || "—"}</dd>
        <dt className="text-muted">Size</dt>
        <dd>
          {settingOf(sandbox, "memory_mib")} MiB of memory, {settingOf(sandbox, "cpus")} processor
          {settingOf(sandbox, "cpus") === "1" ? "" : "s"}, {settingOf(sandbox, "disk_mib")} MiB of
          disk
        </dd>
        {sandbox.placed && (
          <>
            <dt className="text-muted">Runs there</dt>
            <dd>{sandbox.placed}</dd>
          </>
        )}
        <dt className="text-muted">Ends by itself</dt>
        <dd>
          {Number(settingOf(sandbox, "ttl_s")) > 0
            ? `${duration(Number(settingOf(sandbox, "ttl_s")))} after its start`
            : "never"}
        </dd>
      </dl>
    </div>
  );
}
