import { useState } from "react";
import { events } from "@/api/events";
import { asProblem, type Problem, problemFrom } from "@/api/problem";
import { IsolationBadge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Switch } from "@/ui/field";
import { duration } from "@/ui/format";
import { Icon, Spinner } from "@/ui/icons";
import { ProblemNote } from "@/ui/states";
import { Section } from "./section";
import { useGiven } from "./settings";

const MODES = [
  {
    mode: "auto",
    label: "Auto",
    about:
      "a microVM on this machine; at the provider if that cannot be and falling back is allowed",
  },
  { mode: "local", label: "Local microVM", about: "on the machine that this server runs on" },
  { mode: "remote", label: "Remote", about: "at the provider that is configured, such as E2B" },
] as const;

export function Provider() {
  const { settings, change } = useGiven();
  return (
    <>
      <Section
        title="Where code runs"
        about="The label on every sandbox says which boundary was really used, whatever is chosen here."
      >
        <fieldset className="flex flex-col gap-2">
          <legend className="sr-only">Provider</legend>
          {MODES.map((one) => (
            <label key={one.mode} className="flex items-start gap-2.5 text-sm">
              <input
                type="radio"
                name="provider"
                className="mt-1 accent-[var(--accent)]"
                checked={settings.provider.mode === one.mode}
                onChange={() => change({ provider: { mode: one.mode } })}
              />
              <span>
                {one.label} <span className="text-muted">— {one.about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Switch
          label="Strict: never fall back"
          about="If it cannot run where you chose, it does not run at all."
          isOn={settings.provider.strict}
          onChange={(strict) => change({ provider: { strict } })}
        />
      </Section>
      <Probe />
    </>
  );
}

interface Stage {
  name: string;
  state: string;
  detail: string;
  seconds: number;
}

interface Done {
  isOk: boolean;
  isolation: string;
  backend: string;
}

/** A real sandbox, made, used and removed, stage by stage. */
function Probe() {
  const [stages, setStages] = useState<Stage[]>([]);
  const [done, setDone] = useState<Done | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setStages([]);
    setDone(null);
    setProblem(null);
    setBusy(true);
    try {
      for await (const event of events("/settings/probe", { method: "POST", body: {} })) {
        const data = event.data as Record<string, unknown>;
        if (event.kind === "stage") setStages((old) => withStage(old, stageOf(data)));
        else if (event.kind === "error") setProblem(problemFrom(data));
        else if (event.kind === "done") {
          setDone({
            isOk: data.ok === true,
            isolation: String(data.isolation ?? ""),
            backend: String(data.backend ?? ""),
          });
        }
      }
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Section
      title="Test local microVM"
      about="Makes a sandbox as it is set above, writes a program into it, runs it, reads what it wrote, and removes it."
    >
      <div>
        <Button look="primary" icon="play" isBusy={isBusy} onClick={run}>
          Test local microVM
        </Button>
      </div>
      {stages.length > 0 && (
        <ol
          aria-label="Stages"
          className="divide-y overflow-hidden rounded-lg border bg-surface text-sm"
        >
          {stages.map((one) => (
            <li key={one.name} className="flex items-center gap-3 px-4 py-2">
              <StageMark state={one.state} />
              <span className="w-24 font-medium">{one.name}</span>
              <span className="min-w-0 flex-1 break-words text-muted text-xs">{one.detail}</span>
              <span className="text-muted text-xs tabular-nums">
                {one.seconds > 0 && duration(one.seconds)}
              </span>
            </li>
          ))}
        </ol>
      )}
      {problem && <ProblemNote problem={problem} />}
      {done && (
        <p role="status" className="flex flex-wrap items-center gap-2 text-sm">
          <Icon
            name={done.isOk ? "check" : "warn"}
            className={`size-4 ${done.isOk ? "text-good" : "text-bad"}`}
          />
          {done.isOk ? "It works." : "It does not work."}
          {done.isolation && <IsolationBadge isolation={done.isolation} backend={done.backend} />}
        </p>
      )}
    </Section>
  );
}

function StageMark({ state }: { state: string }) {
  if (state === "done" || state === "ok") return <Icon name="check" className="size-4 text-good" />;
  if (state === "failed") return <Icon name="warn" className="size-4 text-bad" />;
  return <Spinner />;
}

function stageOf(data: Record<string, unknown>): Stage {
  return {
    name: String(data.name ?? ""),
    state: String(data.state ?? ""),
    detail: String(data.detail ?? ""),
    seconds: typeof data.duration_s === "number" ? data.duration_s : 0,
  };
}

/** A stage is told when it begins and again when it ends. */
export function withStage(old: Stage[], one: Stage): Stage[] {
  return old.some((other) => other.name === one.name)
    ? old.map((other) => (other.name === one.name ? one : other))
    : [...old, one];
}
