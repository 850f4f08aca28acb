import { useState } from "react";
import { address, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { Badge, IsolationBadge } from "@/ui/badge";
import { CopyButton } from "@/ui/copy";
import { count, duration, moment, usd } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { ProblemNote, Waiting } from "@/ui/states";
import { type Entry, spans } from "./runs";

export function Timeline({ path, entries }: { path: string; entries: Entry[] }) {
  const [open, setOpen] = useState<number | null>(null);
  if (entries.length === 0) {
    return <p className="py-8 text-center text-muted text-sm">There are no steps of this kind.</p>;
  }
  const places = spans(entries);
  return (
    <ol className="overflow-hidden rounded-lg border bg-surface">
      {entries.map((entry, at) => {
        const place = places[at] ?? { left: 0, width: 0 };
        const isOpen = open === entry.number;
        return (
          <li key={entry.number} className="border-b last:border-b-0">
            <button
              type="button"
              aria-expanded={isOpen}
              onClick={() => setOpen(isOpen ? null : entry.number)}
              className="grid w-full grid-cols-[2.5rem_minmax(0,1fr)_auto] items-center gap-3 px-3 py-2 text-left text-sm hover:bg-hover sm:grid-cols-[2.5rem_minmax(0,14rem)_minmax(4rem,1fr)_5rem_4.5rem_5rem]"
            >
              <span className="text-right text-faint text-xs tabular-nums">{entry.number}</span>
              <span className="min-w-0">
                <span className="block truncate">{titleOf(entry)}</span>
                <span className="block truncate text-faint text-xs">{entry.kind}</span>
              </span>
              <span className="relative hidden h-2 rounded-full bg-sunken sm:block" aria-hidden>
                <span
                  className={`absolute inset-y-0 rounded-full ${isFailed(entry) ? "bg-bad" : "bg-accent"}`}
                  style={{
                    left: `${Math.min(place.left, 0.995) * 100}%`,
                    width: `max(3px, ${Math.min(place.width, 1 - place.left) * 100}%)`,
                  }}
                />
              </span>
              <span className="text-right text-muted text-xs tabular-nums">
                {duration(entry.duration_s)}
              </span>
              <span className="hidden text-right text-muted text-xs tabular-nums sm:block">
                {entry.tokens_in + entry.tokens_out > 0
                  ? count(entry.tokens_in + entry.tokens_out)
                  : ""}
              </span>
              <span className="hidden text-right text-muted text-xs tabular-nums sm:block">
                {entry.model ? (entry.cost_usd === null ? "no price" : usd(entry.cost_usd)) : ""}
              </span>
            </button>
            {isOpen && <Step path={path} entry={entry} />}
          </li>
        );
      })}
    </ol>
  );
}

function titleOf(entry: Entry): string {
  const name = entry.facts.name ?? entry.facts.tool;
  return typeof name === "string" && name ? name : entry.model || entry.kind;
}

function isFailed(entry: Entry): boolean {
  return Boolean(entry.exit_status) || entry.facts.error === true;
}

function Step({ path, entry }: { path: string; entry: Entry }) {
  return (
    <div className="flex flex-col gap-3 border-t bg-canvas px-4 py-3 text-sm">
      <div className="flex flex-wrap gap-1.5">
        <Badge>{moment(entry.started_at)}</Badge>
        {entry.model && <Badge tone="info">{entry.model}</Badge>}
        {entry.isolation && <IsolationBadge isolation={entry.isolation} />}
        {entry.sandbox && <Badge>sandbox {entry.sandbox}</Badge>}
        {entry.exit_status !== null && (
          <Badge tone={entry.exit_status === 0 ? "good" : "bad"}>exit {entry.exit_status}</Badge>
        )}
        {entry.model && (
          <Badge>
            {entry.tokens_in} in, {entry.tokens_out} out, {entry.tokens_cached} cached
          </Badge>
        )}
      </div>
      {entry.input && <Content path={path} hash={entry.input} title="What went in" />}
      {entry.output && <Content path={path} hash={entry.output} title="What came out" />}
      <dl className="grid grid-cols-[auto_1fr] gap-x-3 gap-y-0.5 text-xs">
        <dt className="text-muted">hash</dt>
        <dd className="break-all font-mono">{entry.hash}</dd>
        <dt className="text-muted">after</dt>
        <dd className="break-all font-mono">{entry.previous}</dd>
      </dl>
    </div>
  );
}

const FIRST = 16_384;

/** The first of it, as text, whatever it is: nothing of it is ever drawn as a page. */
function Content({ path, hash, title }: { path: string; hash: string; title: string }) {
  const from = `${path}/blobs/${hash}`;
  const content = useLoad(from, async (signal) => {
    const answer = await send("GET", from, { query: { first: FIRST }, signal });
    return { text: await answer.text(), size: Number(answer.headers.get("x-content-size") ?? 0) };
  });
  return (
    <figure className="overflow-hidden rounded-md border bg-sunken">
      <figcaption className="flex h-8 items-center gap-2 border-b pr-1 pl-3 text-muted text-xs">
        <span className="flex-1">{title}</span>
        {content.data && <CopyButton text={content.data.text} label={`Copy ${title}`} />}
        <a
          href={address(from, { download: true })}
          download
          aria-label={`Download ${title}`}
          className="grid size-7 place-items-center rounded-md hover:text-ink"
        >
          <Icon name="download" />
        </a>
      </figcaption>
      {content.isLoading && <Waiting />}
      {content.problem && <ProblemNote problem={content.problem} />}
      {content.data && (
        <pre
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
          tabIndex={0}
          className="max-h-80 overflow-auto whitespace-pre-wrap break-words px-3 py-2 font-mono text-xs"
        >
          {pretty(content.data.text)}
          {content.data.size > FIRST && `\n… ${content.data.size - FIRST} bytes more`}
        </pre>
      )}
    </figure>
  );
}

function pretty(text: string): string {
  if (!/^[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
