import { useId, useState } from "react";
import { Button } from "@/ui/button";
import { linesOf } from "./settings";

/** Several short texts, one a line. */
export function Lines({
  label,
  about,
  placeholder,
  lines,
  onKeep,
}: {
  label: string;
  about?: string;
  placeholder: string;
  lines: string[];
  onKeep: (lines: string[]) => Promise<boolean>;
}) {
  const id = useId();
  const [text, setText] = useState(lines.join("\n"));
  const [isBusy, setBusy] = useState(false);
  const wanted = linesOf(text);
  const isSame = wanted.join("\n") === lines.join("\n");
  const save = async () => {
    setBusy(true);
    await onKeep(wanted);
    setBusy(false);
  };
  return (
    <div className="flex flex-col gap-1.5">
      <label htmlFor={id} className="font-medium text-sm">
        {label}
      </label>
      {about && <p className="text-muted text-xs">{about}</p>}
      <textarea
        id={id}
        rows={Math.min(10, Math.max(3, wanted.length + 1))}
        spellCheck={false}
        placeholder={placeholder}
        className="field font-mono text-xs"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <div>
        <Button size="s" look="primary" isBusy={isBusy} disabled={isSame} onClick={save}>
          Keep<span className="sr-only"> {label}</span>
        </Button>
      </div>
    </div>
  );
}
