import { Badge } from "@/ui/badge";
import { Icon } from "@/ui/icons";
import type { Verdict } from "./runs";

/** What a check of the chain and its signature came to, in words. */
export function VerdictNote({ verdict }: { verdict: Verdict }) {
  const tone = verdict.is_whole ? "bg-good-soft text-good" : "bg-bad-soft text-bad";
  return (
    <div role="status" className={`rounded-md px-3 py-2 text-sm ${tone}`}>
      <div className="flex items-center gap-2 font-medium">
        <Icon name={verdict.is_whole ? "check" : "warn"} />
        {verdict.is_whole
          ? `Whole: all ${verdict.count} entries are as they were signed`
          : `Not as it was signed: ${verdict.findings.length === 1 ? "one finding" : `${verdict.findings.length} findings`}`}
      </div>
      <div className="mt-1 flex flex-wrap gap-1.5">
        <Badge>run {verdict.run}</Badge>
        <Badge>key {verdict.key}</Badge>
        <Badge>{verdict.kept} contents kept</Badge>
        {verdict.erased > 0 && <Badge tone="warn">{verdict.erased} erased</Badge>}
        {verdict.absent > 0 && <Badge>{verdict.absent} not in this export</Badge>}
      </div>
      {verdict.findings.length > 0 && (
        <ul className="mt-2 list-disc pl-5 text-ink text-xs">
          {verdict.findings.slice(0, 20).map((one) => (
            <li key={`${one.entry} ${one.problem} ${one.detail}`}>
              {one.entry !== null && `Entry ${one.entry}: `}
              {one.problem}
              {one.detail && ` (${one.detail})`}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
