import { type FormEvent, useState } from "react";
import { put, remove } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { ProblemNote } from "@/ui/states";
import { toast, toastProblem } from "@/ui/toast";
import { Section } from "./section";
import { type Settings, useGiven } from "./settings";

const PURPOSES = [
  { id: "agent", label: "For work", about: "uses tools in the sandbox" },
  { id: "chat", label: "For talk", about: "answers what needs no tools; a cheaper one will do" },
  { id: "memory", label: "For memory", about: "finds after a turn what is worth remembering" },
] as const;

export function Models() {
  const { settings, change } = useGiven();
  const { models } = settings;
  const [texts, setTexts] = useState({
    agent: models.agent,
    chat: models.chat,
    memory: models.memory,
  });
  const isSame = PURPOSES.every(({ id }) => texts[id].trim() === models[id]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void change({
      models: {
        agent: texts.agent.trim(),
        chat: texts.chat.trim(),
        memory: texts.memory.trim(),
      },
    });
  };
  return (
    <>
      <Section
        title="Models"
        about="As provider:name, such as anthropic:claude-sonnet-4. Empty is as the machine has it: the first provider with a key, else the very small one that comes along."
      >
        <form onSubmit={submit} className="flex flex-col gap-4">
          {PURPOSES.map(({ id, label, about }) => (
            <Field
              key={id}
              label={label}
              about={
                <>
                  {about}. Now: <code className="font-mono">{models.used[id] ?? "—"}</code>
                </>
              }
              placeholder={models.used[id] ?? ""}
              maxLength={256}
              value={texts[id]}
              onChange={(event) => setTexts({ ...texts, [id]: event.target.value })}
            />
          ))}
          <div>
            <Button look="primary" type="submit" disabled={isSame}>
              Keep
            </Button>
          </div>
        </form>
      </Section>
      <Section
        title="Keys"
        about="A key is kept sealed on the server, used for your conversations alone, and never shown again. It does not enter any sandbox."
      >
        <ul
          aria-label="Providers of models"
          className="divide-y overflow-hidden rounded-lg border bg-surface"
        >
          {settings.model_providers.map((one) => (
            <ProviderRow key={one.name} provider={one} />
          ))}
        </ul>
      </Section>
    </>
  );
}

function ProviderRow({ provider }: { provider: Settings["model_providers"][number] }) {
  const { reload } = useGiven();
  const [isOpen, setOpen] = useState(false);
  const [key, setKey] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const path = `/settings/keys/${encodeURIComponent(provider.name)}`;
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await put(path, { key: key.trim() });
      toast(`The key for ${provider.name} is kept`);
      setOpen(false);
      reload();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setKey("");
      setBusy(false);
    }
  };
  const drop = () =>
    remove(path)
      .then(() => {
        toast(`The key for ${provider.name} is gone`);
        reload();
      })
      .catch(toastProblem);
  return (
    <li className="px-4 py-2.5 text-sm">
      <div className="flex flex-wrap items-center gap-3">
        <span className="w-28 font-medium">{provider.name}</span>
        <span className="flex-1">
          {!provider.needs_key ? (
            <Badge>needs no key</Badge>
          ) : provider.key_from === "settings" ? (
            <Badge tone="good">your key</Badge>
          ) : provider.key_from === "environment" ? (
            <Badge tone="info">key of the machine</Badge>
          ) : (
            <Badge>no key</Badge>
          )}
          {provider.base_url && (
            <span className="ml-2 break-all font-mono text-faint text-xs">{provider.base_url}</span>
          )}
        </span>
        {provider.key_from === "settings" && (
          <Button size="s" look="danger" onClick={drop}>
            Remove the key
          </Button>
        )}
        <Button size="s" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {provider.key_from === "settings" ? "Replace" : "Add a key"}
          <span className="sr-only"> for {provider.name}</span>
        </Button>
      </div>
      {isOpen && (
        <form onSubmit={save} className="mt-3 flex flex-col gap-2">
          <div className="flex gap-2">
            <input
              type="password"
              aria-label={`Key for ${provider.name}`}
              autoComplete="off"
              autoFocus
              required
              maxLength={4096}
              className="field text-sm"
              value={key}
              onChange={(event) => setKey(event.target.value)}
            />
            <Button look="primary" type="submit" isBusy={isBusy} disabled={!key.trim()}>
              Keep
            </Button>
          </div>
          {problem && <ProblemNote problem={problem} />}
        </form>
      )}
    </li>
  );
}
