import { type FormEvent, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { askWhoIAm } from "@/api/session";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { ProblemNote } from "@/ui/states";
import { toast } from "@/ui/toast";
import { Section } from "./section";

export function Password() {
  const [old, setOld] = useState("");
  const [next, setNext] = useState("");
  const [again, setAgain] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const isOther = again !== "" && again !== next;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (next !== again) return;
    setBusy(true);
    setProblem(null);
    try {
      await post("/auth/password", { old, new: next });
      await askWhoIAm();
      toast("The password was changed. All other browsers are signed out.");
      setOld("");
      setNext("");
      setAgain("");
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Section title="Password">
      <form onSubmit={submit} className="flex max-w-sm flex-col gap-4">
        <Field
          label="Old password"
          type="password"
          autoComplete="current-password"
          required
          value={old}
          onChange={(event) => setOld(event.target.value)}
        />
        <Field
          label="New password"
          type="password"
          autoComplete="new-password"
          required
          value={next}
          onChange={(event) => setNext(event.target.value)}
        />
        <Field
          label="New password again"
          type="password"
          autoComplete="new-password"
          required
          value={again}
          {...(isOther ? { fault: "These are two different ones" } : {})}
          onChange={(event) => setAgain(event.target.value)}
        />
        {problem && <ProblemNote problem={problem} />}
        <div>
          <Button look="primary" type="submit" isBusy={isBusy} disabled={!next || next !== again}>
            Change it
          </Button>
        </div>
      </form>
    </Section>
  );
}
