/** What is known of the user, why and from where; corrected, pinned, forgotten, taken away, turned off. */

import { useEffect, useRef, useState } from "react";
import { get, post, put, remove } from "@/api/client";
import { useLoad } from "@/api/load";
import { PageHeader } from "@/shell/layout";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { Switch } from "@/ui/field";
import { saveJson } from "@/ui/saving";
import { EmptyState, ErrorState, Waiting } from "@/ui/states";
import { Tabs } from "@/ui/tabs";
import { toast, toastProblem } from "@/ui/toast";
import { AddFact } from "./add-fact";
import { FactCard } from "./fact-card";
import { type Fact, type FactPage, KINDS, type Kind } from "./facts";
import { Summaries } from "./summaries";

const CHANGED = "crucible-memory-changed";

export default function MemoryPage() {
  return (
    <>
      <PageHeader
        title="Memory"
        about="What the agent remembers of you between conversations. It is kept on this machine, and only you see it."
        actions={<Actions />}
      />
      <Tabs
        label="Memory"
        tabs={[
          { id: "facts", label: "What is known", content: <Facts /> },
          { id: "summaries", label: "Summaries", content: <Summaries /> },
        ]}
      />
    </>
  );
}

function Actions() {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <Button
        icon="download"
        onClick={() =>
          get("/memory/export")
            .then((known) => saveJson("crucible-memory.json", known))
            .catch(toastProblem)
        }
      >
        Export
      </Button>
      <Button look="danger" icon="trash" onClick={() => setAsking(true)}>
        Forget everything
      </Button>
      <Confirm
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title="Forget everything?"
        about="All that is known of you is erased for good, with what was replaced. This cannot be undone."
        act="Forget everything"
        onAct={async () => {
          const told = await remove<{ facts: number }>("/memory");
          toast(told.facts === 1 ? "One fact was forgotten" : `${told.facts} facts were forgotten`);
          window.dispatchEvent(new Event(CHANGED));
        }}
      />
    </>
  );
}

function Facts() {
  const [query, setQuery] = useState("");
  const [kind, setKind] = useState<Kind | "">("");
  const [isAll, setAll] = useState(false);
  const ask = { q: query.trim(), kind, state: isAll ? "all" : "active", limit: 200 };
  const facts = useLoad(JSON.stringify(ask), (signal) =>
    get<FactPage>("/memory/facts", { query: ask, signal }),
  );
  useChanged(facts.reload);

  const forget = async (fact: Fact) => {
    await remove(`/memory/facts/${fact.id}`);
    facts.reload();
    toast("Forgotten");
  };

  return (
    <div className="flex flex-col gap-4 py-4">
      <MemorySwitch />
      <AddFact
        onAdd={async (text) => {
          const told = await post<{ action: string; replaces: Fact[] }>("/memory/facts", { text });
          facts.reload();
          toast(
            told.replaces.length > 0
              ? `Kept; it replaces “${told.replaces[0]?.text ?? ""}”`
              : told.action === "confirmed"
                ? "That was known already"
                : "Kept",
          );
        }}
      />
      <div className="flex flex-wrap items-center gap-2">
        <input
          type="search"
          aria-label="Search what is known"
          placeholder="Search"
          className="field max-w-64 text-sm"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
        <select
          aria-label="Kind"
          className="field w-auto text-sm"
          value={kind}
          onChange={(event) => setKind(event.target.value as Kind | "")}
        >
          <option value="">All kinds</option>
          {KINDS.map((one) => (
            <option key={one.kind} value={one.kind}>
              {one.plural}
            </option>
          ))}
        </select>
        <label className="flex items-center gap-2 text-muted text-sm">
          <input
            type="checkbox"
            className="accent-[var(--accent)]"
            checked={isAll}
            onChange={(event) => setAll(event.target.checked)}
          />
          Also what was replaced or has expired
        </label>
      </div>
      {facts.isLoading && <Waiting />}
      {facts.problem && !facts.data && <ErrorState problem={facts.problem} retry={facts.reload} />}
      {facts.data &&
        (facts.data.items.length === 0 ? (
          <Nothing isFiltered={Boolean(query.trim() || kind)} />
        ) : (
          <ul className="flex flex-col gap-2" aria-label="What is known">
            {facts.data.items.map((fact) => (
              <FactCard key={fact.id} fact={fact} onChange={facts.reload} onForget={forget} />
            ))}
          </ul>
        ))}
      {facts.data?.next && (
        <p className="text-center text-muted text-sm">
          Only the newest 200 are shown. Search to find others.
        </p>
      )}
    </div>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <EmptyState icon="search" title="Nothing of that kind is known">
      Try other words, or look at all kinds.
    </EmptyState>
  ) : (
    <EmptyState icon="memory" title="Nothing is remembered yet">
      Tell the agent something that should last, such as “I live in Porto” or “always use uv, never
      pip”. It is kept after the turn, shown here with its reason, and told to the agent when it
      matters.
    </EmptyState>
  );
}

function MemorySwitch() {
  const setting = useLoad("settings", (signal) =>
    get<{ on: boolean }>("/memory/settings", { signal }),
  );
  if (!setting.data) return null;
  const change = (on: boolean) => {
    setting.set(() => ({ on }));
    put("/memory/settings", { on }).catch(toastProblem).finally(setting.reload);
  };
  return (
    <Switch
      label="Remember between conversations"
      about="Off, nothing is kept and nothing is recalled. What is known stays until you forget it."
      isOn={setting.data.on}
      onChange={change}
    />
  );
}

function useChanged(act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const heard = () => latest.current();
    window.addEventListener(CHANGED, heard);
    return () => window.removeEventListener(CHANGED, heard);
  }, []);
}
