import { useState } from "react";
import { address, get, post } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import { Link } from "@/router";
import { PageHeader } from "@/shell/layout";
import { Button } from "@/ui/button";
import { count, duration, moment, usd } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { ErrorState, ProblemNote, Waiting } from "@/ui/states";
import { toastProblem } from "@/ui/toast";
import { type Entry, type EntryPage, KINDS, type Replay, type Run, type Verdict } from "./runs";
import { Timeline } from "./timeline";
import { VerdictNote } from "./verdict";

export function RunDetail({ id }: { id: string }) {
  const path = `/runs/${encodeURIComponent(id)}`;
  const run = useLoad(path, (signal) => get<Run>(path, { signal }));
  if (run.isLoading) return <Waiting />;
  if (!run.data) {
    return run.problem ? <ErrorState problem={run.problem} retry={run.reload} /> : null;
  }
  return <Detail run={run.data} path={path} />;
}

function Detail({ run, path }: { run: Run; path: string }) {
  return (
    <>
      <Link
        href="/runs"
        className="mb-2 inline-flex items-center gap-1 text-muted text-sm hover:text-ink"
      >
        <Icon name="right" className="size-3 rotate-180" /> All runs
      </Link>
      <PageHeader
        title={`Run ${run.id}`}
        about={`Begun ${moment(run.opened_at)}; ${run.entries} steps in ${duration(Math.max(0, run.last_at - run.opened_at))}, ${count(run.tokens_in)} tokens in and ${count(run.tokens_out)} out, ${usd(run.cost_usd)}.`}
        actions={
          <>
            {run.state !== "ended" && (
              <Link
                href={`/c/${run.id}`}
                className="inline-flex h-9 items-center gap-2 rounded-md border border-line-strong bg-surface px-3 font-medium text-sm hover:bg-hover"
              >
                <Icon name="chat" /> Open the conversation
              </Link>
            )}
            <Download href={address(`${path}/manifest`)} label="Signed manifest" />
            <Download
              href={address(`${path}/manifest`, { contents: true })}
              label="With contents"
            />
          </>
        }
      />
      <Checks run={run} path={path} />
      <Steps path={path} />
    </>
  );
}

function Download({ href, label }: { href: string; label: string }) {
  return (
    <a
      href={href}
      download
      className="inline-flex h-9 items-center gap-2 rounded-md border border-line-strong bg-surface px-3 font-medium text-sm hover:bg-hover"
    >
      <Icon name="download" /> {label}
    </a>
  );
}

/** Whether the record is whole, and whether it would come out the same again. */
function Checks({ run, path }: { run: Run; path: string }) {
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [replay, setReplay] = useState<Replay | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState<"" | "verify" | "replay">("");
  const go = async (what: "verify" | "replay") => {
    setBusy(what);
    setProblem(null);
    try {
      if (what === "verify") {
        setVerdict(await post<Verdict>("/runs/verify", undefined, { query: { run: run.id } }));
      } else setReplay(await post<Replay>(`${path}/replay`));
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy("");
    }
  };
  return (
    <section aria-label="Checks" className="mb-5 flex flex-col gap-2">
      <div className="flex flex-wrap gap-2">
        <Button
          size="s"
          icon="shield"
          isBusy={busy === "verify"}
          disabled={busy !== ""}
          onClick={() => go("verify")}
        >
          Verify the record
        </Button>
        <Button
          size="s"
          icon="retry"
          isBusy={busy === "replay"}
          disabled={busy !== ""}
          onClick={() => go("replay")}
        >
          Replay in a fresh sandbox
        </Button>
      </div>
      {verdict && <VerdictNote verdict={verdict} />}
      {replay && <ReplayNote replay={replay} />}
      {problem && <ProblemNote problem={problem} />}
    </section>
  );
}

function ReplayNote({ replay }: { replay: Replay }) {
  const { divergence } = replay;
  return divergence ? (
    <div role="status" className="rounded-md bg-warn-soft px-3 py-2 text-sm text-warn">
      <p className="font-medium">
        Step {divergence.number} ({divergence.step}) came out otherwise: {divergence.what}
      </p>
      <dl className="mt-1 grid grid-cols-[auto_1fr] gap-x-3 font-mono text-ink text-xs">
        <dt>recorded</dt>
        <dd className="whitespace-pre-wrap break-all">{divergence.recorded}</dd>
        <dt>now</dt>
        <dd className="whitespace-pre-wrap break-all">{divergence.got}</dd>
      </dl>
    </div>
  ) : (
    <p role="status" className="rounded-md bg-good-soft px-3 py-2 text-good text-sm">
      {replay.same} of {replay.calls} calls came out the same
      {replay.erased > 0 && `; ${replay.erased} had nothing left to be held against`}.
    </p>
  );
}

const MOST = 200;

function Steps({ path }: { path: string }) {
  const [kind, setKind] = useState("");
  const [isMore, setMore] = useState(false);
  const query = { kind, limit: MOST };
  const entries = useLoad(`${path} ${kind}`, (signal) =>
    get<EntryPage>(`${path}/entries`, { query, signal }),
  );
  const more = async () => {
    const cursor = entries.data?.next;
    if (!cursor) return;
    setMore(true);
    try {
      const next = await get<EntryPage>(`${path}/entries`, { query: { ...query, cursor } });
      entries.set((old) => old && { ...next, items: [...old.items, ...next.items] });
    } catch (error) {
      toastProblem(error);
    } finally {
      setMore(false);
    }
  };
  return (
    <section aria-label="Steps">
      <div className="mb-2 flex items-center gap-3">
        <h2 className="flex-1 font-semibold">Steps</h2>
        <select
          aria-label="Kind of step"
          className="field w-auto text-sm"
          value={kind}
          onChange={(event) => setKind(event.target.value)}
        >
          <option value="">All kinds</option>
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </div>
      {entries.isLoading && <Waiting />}
      {entries.problem && !entries.data && (
        <ErrorState problem={entries.problem} retry={entries.reload} />
      )}
      {entries.data && <Timeline path={path} entries={entries.data.items as Entry[]} />}
      {entries.data?.next && (
        <div className="mt-3 text-center">
          <Button size="s" isBusy={isMore} onClick={more}>
            Show more steps
          </Button>
        </div>
      )}
    </section>
  );
}
