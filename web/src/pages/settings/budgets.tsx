import { type FormEvent, useState } from "react";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { Figure } from "@/ui/figure";
import { count, duration, usd } from "@/ui/format";
import { Section } from "./section";
import { limitOf, useGiven } from "./settings";

const LIMITS = [
  { id: "tokens", label: "Tokens" },
  { id: "usd", label: "US dollars" },
  { id: "sandbox_s", label: "Seconds of sandboxes" },
  { id: "iterations", label: "Steps of the model" },
  { id: "calls", label: "Calls of tools" },
] as const;

type Texts = Record<(typeof LIMITS)[number]["id"], string>;

export function Budgets() {
  const { settings, change } = useGiven();
  const { budget, spent, plan } = settings;
  const [texts, setTexts] = useState<Texts>({
    tokens: String(budget.tokens ?? ""),
    usd: String(budget.usd ?? ""),
    sandbox_s: String(budget.sandbox_s ?? ""),
    iterations: String(budget.iterations ?? ""),
    calls: String(budget.calls ?? ""),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const limits = Object.fromEntries(LIMITS.map(({ id }) => [id, limitOf(texts[id])]));
    if (Object.values(limits).some((one) => one === undefined)) return;
    void change({ budget: limits as Record<string, number | null> });
  };
  return (
    <>
      <Section
        title="Spent so far"
        about={plan ? `Your plan is ${plan}.` : "You have no plan: only the limits below hold."}
      >
        <dl className="grid grid-cols-2 gap-3 sm:grid-cols-5">
          <Figure name="Tokens" value={count(spent.tokens)} />
          <Figure name="Cost" value={usd(spent.usd)} />
          <Figure name="Sandboxes" value={duration(spent.sandbox_seconds)} />
          <Figure name="Steps" value={count(spent.iterations)} />
          <Figure name="Calls" value={count(spent.calls)} />
        </dl>
      </Section>
      <Section
        title="Each conversation may spend"
        about="Checked before anything is spent, at its worst case: a limit is never overshot. Empty is without a limit."
      >
        <form onSubmit={submit} className="flex flex-col gap-4">
          <div className="grid gap-4 sm:grid-cols-2">
            {LIMITS.map(({ id, label }) => (
              <Field
                key={id}
                label={label}
                inputMode="decimal"
                placeholder="no limit"
                value={texts[id]}
                {...(limitOf(texts[id]) === undefined ? { fault: "This is no amount" } : {})}
                onChange={(event) => setTexts({ ...texts, [id]: event.target.value })}
              />
            ))}
          </div>
          <div>
            <Button look="primary" type="submit">
              Keep
            </Button>
          </div>
        </form>
      </Section>
    </>
  );
}
