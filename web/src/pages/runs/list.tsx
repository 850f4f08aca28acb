import { useState } from "react";
import { get } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem } from "@/api/problem";
import { navigate, setSearch, useSearch } from "@/router";
import { PageHeader } from "@/shell/layout";
import { Badge, type Tone } from "@/ui/badge";
import { Bars, Shares } from "@/ui/bars";
import { Button } from "@/ui/button";
import { Figure } from "@/ui/figure";
import { ago, count, duration, moment, usd } from "@/ui/format";
import { EmptyState, ErrorState, Waiting } from "@/ui/states";
import { type Column, DataTable } from "@/ui/table";
import { toastProblem } from "@/ui/toast";
import { begins, daysOf, PERIODS, type Run, type RunPage, type Total } from "./runs";
import { VerifyFile } from "./verify-file";

const STATES: Record<Run["state"], { label: string; tone: Tone }> = {
  busy: { label: "at work", tone: "info" },
  waiting: { label: "waits for you", tone: "warn" },
  interrupted: { label: "interrupted", tone: "bad" },
  idle: { label: "idle", tone: "plain" },
  ended: { label: "ended", tone: "plain" },
};

const COLUMNS: Column<Run>[] = [
  {
    id: "opened",
    label: "Begun",
    cell: (run) => <span title={moment(run.opened_at)}>{ago(run.opened_at)}</span>,
    sort: (run) => run.opened_at,
    width: "7rem",
  },
  {
    id: "name",
    label: "Run",
    cell: (run) => <span className="font-mono text-xs">{run.id}</span>,
    width: "minmax(11rem, 1fr)",
  },
  {
    id: "state",
    label: "State",
    cell: (run) => <Badge tone={STATES[run.state].tone}>{STATES[run.state].label}</Badge>,
    sort: (run) => run.state,
    width: "8rem",
  },
  {
    id: "models",
    label: "Models",
    cell: (run) => run.models.join(", ") || "—",
    sort: (run) => run.models.join(),
    width: "minmax(10rem, 1.2fr)",
  },
  {
    id: "steps",
    label: "Steps",
    cell: (run) => run.entries,
    sort: (run) => run.entries,
    align: "right",
    width: "5rem",
  },
  {
    id: "tokens",
    label: "Tokens",
    cell: (run) => count(run.tokens_in + run.tokens_out),
    sort: (run) => run.tokens_in + run.tokens_out,
    align: "right",
    width: "6rem",
  },
  {
    id: "cost",
    label: "Cost",
    cell: (run) => usd(run.cost_usd),
    sort: (run) => run.cost_usd,
    align: "right",
    width: "6rem",
  },
  {
    id: "took",
    label: "Span",
    cell: (run) => duration(Math.max(0, run.last_at - run.opened_at)),
    sort: (run) => run.last_at - run.opened_at,
    align: "right",
    width: "7rem",
  },
];

export function RunList() {
  const search = useSearch();
  const period = PERIODS.find((one) => one.id === (search.get("days") ?? "7")) ?? PERIODS[1];
  const model = search.get("model") ?? "";
  const state = search.get("state") ?? "";
  const from = begins(period.days);
  const runs = useRuns({ from, model, state });
  const totals = useLoad(`totals ${from} ${model}`, async (signal) => {
    const ask = (by: string) =>
      get<{ items: Total[] }>("/runs/totals", { query: { by, from, model }, signal });
    const [days, models] = await Promise.all([ask("day"), ask("model")]);
    return { days: days.items, models: models.items };
  });
  const models = totals.data?.models ?? [];

  return (
    <>
      <PageHeader
        title="Runs"
        about="Every step of every conversation, in a chain that shows when something was changed. Export a run as a signed manifest, and verify one in place."
        actions={<VerifyFile />}
      />
      <div className="mb-4 flex flex-wrap gap-2">
        <Choice
          label="Time"
          value={period.id}
          onChange={(days) => setSearch({ days })}
          choices={PERIODS.map((one) => ({ value: one.id, label: one.label }))}
        />
        <Choice
          label="Model"
          value={model}
          onChange={(model) => setSearch({ model })}
          choices={[
            { value: "", label: "All models" },
            ...namesOf(models, model).map((name) => ({ value: name, label: name })),
          ]}
        />
        <Choice
          label="State"
          value={state}
          onChange={(state) => setSearch({ state })}
          choices={[
            { value: "", label: "All states" },
            ...Object.entries(STATES).map(([value, { label }]) => ({ value, label })),
          ]}
        />
      </div>
      {totals.data && models.length > 0 && (
        <Totals days={totals.data.days} models={totals.data.models} period={period.days} />
      )}
      {runs.isLoading && <Waiting />}
      {runs.problem && !runs.data && <ErrorState problem={runs.problem} retry={runs.reload} />}
      {runs.data &&
        (runs.data.items.length === 0 ? (
          <EmptyState icon="clock" title="No runs in this time">
            Each conversation is a run. Say something in the chat, and its steps appear here with
            their time, tokens and cost. Or choose a longer time above.
          </EmptyState>
        ) : (
          <DataTable
            label="Runs"
            rows={runs.data.items}
            columns={COLUMNS}
            rowKey={(run) => run.id}
            onOpen={(run) => navigate(`/runs/${run.id}`)}
          />
        ))}
      {runs.data?.next && (
        <div className="mt-3 text-center">
          <Button size="s" isBusy={runs.isMore} onClick={runs.more}>
            Show older runs
          </Button>
        </div>
      )}
    </>
  );
}

function useRuns(ask: { from: number | undefined; model: string; state: string }) {
  const key = JSON.stringify(ask);
  const [isMore, setMore] = useState(false);
  const loaded = useLoad(key, (signal) =>
    get<RunPage>("/runs", { query: { ...ask, limit: 100 }, signal }),
  );
  const more = async () => {
    const cursor = loaded.data?.next;
    if (!cursor) return;
    setMore(true);
    try {
      const next = await get<RunPage>("/runs", { query: { ...ask, limit: 100, cursor } });
      loaded.set((old) => old && { ...next, items: [...old.items, ...next.items] });
    } catch (error) {
      toastProblem(asProblem(error));
    } finally {
      setMore(false);
    }
  };
  return { ...loaded, isMore, more };
}

function namesOf(models: Total[], chosen: string): string[] {
  const names = models.map((one) => one.model).filter(Boolean);
  return chosen && !names.includes(chosen) ? [chosen, ...names] : names;
}

function Totals({ days, models, period }: { days: Total[]; models: Total[]; period: number }) {
  const all = daysOf(days, period);
  const cost = days.reduce((sum, one) => sum + one.cost_usd, 0);
  const unpriced = days.reduce((sum, one) => sum + one.unpriced, 0);
  const tokens = days.reduce((sum, one) => sum + one.tokens_in + one.tokens_out, 0);
  const steps = days.reduce((sum, one) => sum + one.steps, 0);
  return (
    <section aria-label="Totals" className="mb-5 flex flex-col gap-3">
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
        <Figure name="Steps" value={count(steps)} />
        <Figure name="Tokens" value={count(tokens)} />
        <Figure
          name="Cost"
          value={usd(cost)}
          note={unpriced > 0 ? `without ${unpriced} steps that have no known price` : ""}
        />
        <Figure name="Models" value={String(models.length)} />
      </dl>
      <div className="grid gap-3 md:grid-cols-2">
        <Bars
          title="Tokens per day (UTC)"
          bars={all.map((one) => ({
            label: one.day,
            value: one.tokens,
            shown: `${count(one.tokens)} tokens, ${usd(one.cost)}`,
          }))}
        />
        <Shares
          title="Tokens per model"
          bars={[...models]
            .sort((one, other) => tokensOf(other) - tokensOf(one))
            .slice(0, 8)
            .map((one) => ({
              label: one.model,
              value: tokensOf(one),
              shown: `${count(tokensOf(one))} · ${usd(one.cost_usd)}`,
            }))}
        />
      </div>
    </section>
  );
}

function tokensOf(total: Total): number {
  return total.tokens_in + total.tokens_out;
}

function Choice({
  label,
  value,
  onChange,
  choices,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  choices: { value: string; label: string }[];
}) {
  return (
    <select
      aria-label={label}
      className="field w-auto text-sm"
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.label}
        </option>
      ))}
    </select>
  );
}
