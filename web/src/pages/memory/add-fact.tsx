import { type FormEvent, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";
import { Button } from "@/ui/button";
import { ProblemNote } from "@/ui/states";

export function AddFact({ onAdd }: { onAdd: (text: string) => Promise<void> }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    setBusy(true);
    setProblem(null);
    try {
      await onAdd(text.trim());
      setText("");
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-2">
      <div className="flex gap-2">
        <input
          aria-label="Something to remember"
          placeholder="Something to remember, such as: I prefer short answers"
          className="field text-sm"
          maxLength={4000}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <Button type="submit" look="primary" isBusy={isBusy} disabled={!text.trim()}>
          Remember
        </Button>
      </div>
      {problem && <ProblemNote problem={problem} />}
    </form>
  );
}
