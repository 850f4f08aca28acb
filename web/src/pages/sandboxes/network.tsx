import { type FormEvent, useState } from "react";
import { get, patch, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { Badge, type Tone } from "@/ui/badge";
import { Button, IconButton } from "@/ui/button";
import { ago, moment } from "@/ui/format";
import { ErrorState, Waiting } from "@/ui/states";
import { toast, toastProblem } from "@/ui/toast";
import { type Decision, decisionsOf, ruleFor } from "./sandboxes";

interface Policy {
  mode: string;
  allow: string[];
  deny: string[];
}

const MODES = [
  { mode: "off", label: "Nothing", about: "no connection leaves the sandbox" },
  { mode: "allowlist", label: "These hosts", about: "those that are listed, and no others" },
  { mode: "full", label: "Everything", about: "all but what is denied, and never this machine" },
];
const OUTCOMES: Record<string, Tone> = {
  allowed: "good",
  denied: "bad",
  failed: "warn",
  cut: "warn",
  limited: "warn",
};
const MOST = 200;

/** What the sandbox may reach, what it asked for, and what was decided. */
export function Network({ path }: { path: string }) {
  const policy = useLoad(path, (signal) => get<Policy>(`${path}/network`, { signal }));
  const decisions = useLoad(
    `${path} decisions`,
    async (signal) => {
      const answer = await send("GET", `${path}/logs`, { query: { source: "network" }, signal });
      return decisionsOf(await answer.text(), MOST);
    },
    3000,
  );
  const change = async (changes: object, words: string) => {
    try {
      const told = await patch<Policy>(`${path}/network`, changes);
      policy.set(() => told);
      toast(words);
    } catch (error) {
      toastProblem(error);
    }
  };
  if (policy.isLoading) return <Waiting />;
  if (!policy.data) {
    return policy.problem ? <ErrorState problem={policy.problem} retry={policy.reload} /> : null;
  }
  const { mode, allow, deny } = policy.data;
  const allowHost = (rule: string) =>
    change(
      mode === "off" ? { mode: "allowlist", allow: [rule] } : { allow: [rule] },
      `${rule} is allowed from now on`,
    );
  return (
    <div className="flex flex-col gap-5 py-4">
      <fieldset className="flex flex-col gap-2">
        <legend className="mb-2 font-medium text-sm">It may reach</legend>
        {MODES.map((one) => (
          <label key={one.mode} className="flex items-start gap-2.5 text-sm">
            <input
              type="radio"
              name="mode"
              className="mt-1 accent-[var(--accent)]"
              checked={mode === one.mode}
              onChange={() => change({ mode: one.mode }, "The network was changed")}
            />
            <span>
              {one.label} <span className="text-muted">— {one.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div className="grid gap-4 md:grid-cols-2">
        <Rules
          title="Allowed"
          rules={allow}
          onAdd={allowHost}
          onRemove={(rule) => change({ remove: [rule] }, `${rule} is not listed any more`)}
        />
        <Rules
          title="Denied"
          rules={deny}
          onAdd={(rule) => change({ deny: [rule] }, `${rule} is denied from now on`)}
          onRemove={(rule) => change({ remove: [rule] }, `${rule} is not listed any more`)}
        />
      </div>
      <section aria-label="Decisions">
        <h3 className="mb-2 font-medium text-sm">What it asked for</h3>
        {decisions.data && decisions.data.length === 0 && (
          <p className="text-muted text-sm">It has not tried to reach anything yet.</p>
        )}
        {decisions.data && decisions.data.length > 0 && (
          <ul className="divide-y overflow-hidden rounded-lg border bg-surface">
            {decisions.data.map((one) => (
              <Row
                key={`${one.time} ${one.outcome} ${one.name} ${one.address} ${one.port}`}
                decision={one}
                isAllowed={allow.includes(ruleFor(one))}
                onAllow={() => allowHost(ruleFor(one))}
              />
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function Row({
  decision,
  isAllowed,
  onAllow,
}: {
  decision: Decision;
  isAllowed: boolean;
  onAllow: () => void;
}) {
  const host = decision.name || decision.address;
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
      <Badge tone={OUTCOMES[decision.outcome] ?? "plain"}>{decision.outcome}</Badge>
      <span className="min-w-0 break-all font-mono text-xs">
        {host}:{decision.port}
      </span>
      {decision.times > 1 && <span className="text-faint text-xs">{decision.times} times</span>}
      <span className="min-w-0 flex-1 text-muted text-xs">{decision.reason}</span>
      <span className="text-faint text-xs" title={moment(decision.time)}>
        {ago(decision.time)}
      </span>
      {decision.outcome === "denied" &&
        (isAllowed ? (
          <Badge tone="good">allowed now</Badge>
        ) : (
          <Button size="s" onClick={onAllow}>
            Allow this host
          </Button>
        ))}
    </li>
  );
}

function Rules({
  title,
  rules,
  onAdd,
  onRemove,
}: {
  title: string;
  rules: string[];
  onAdd: (rule: string) => void;
  onRemove: (rule: string) => void;
}) {
  const [rule, setRule] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!rule.trim()) return;
    onAdd(rule.trim());
    setRule("");
  };
  return (
    <section aria-label={title} className="rounded-lg border bg-surface p-3">
      <h3 className="mb-2 font-medium text-sm">{title}</h3>
      <ul className="mb-2 flex flex-col">
        {rules.map((one) => (
          <li key={one} className="flex items-center gap-2 font-mono text-xs">
            <span className="flex-1 break-all">{one}</span>
            <IconButton label={`Take ${one} out`} icon="close" onClick={() => onRemove(one)} />
          </li>
        ))}
        {rules.length === 0 && <li className="text-faint text-xs">none</li>}
      </ul>
      <form onSubmit={submit} className="flex gap-2">
        <input
          aria-label={`${title}: another host`}
          placeholder="host, *.host or host:port"
          className="field text-xs"
          maxLength={300}
          value={rule}
          onChange={(event) => setRule(event.target.value)}
        />
        <Button size="s" type="submit" disabled={!rule.trim()} className="h-auto">
          Add
        </Button>
      </form>
    </section>
  );
}
