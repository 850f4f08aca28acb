import { useState } from "react";
import { address, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { Icon } from "@/ui/icons";
import { ErrorState, Waiting } from "@/ui/states";

const SOURCES = [
  { source: "output", label: "What commands wrote" },
  { source: "console", label: "What its kernel wrote" },
  { source: "network", label: "What the network decided" },
];
const MOST = 200_000;

export function Logs({ path }: { path: string }) {
  const [source, setSource] = useState("output");
  const log = useLoad(
    `${path} ${source}`,
    async (signal) => {
      const answer = await send("GET", `${path}/logs`, { query: { source }, signal });
      return answer.text();
    },
    5000,
  );
  const text = log.data ?? "";
  return (
    <div className="flex flex-col gap-3 py-4">
      <div className="flex items-center gap-3">
        <select
          aria-label="Which log"
          className="field w-auto text-sm"
          value={source}
          onChange={(event) => setSource(event.target.value)}
        >
          {SOURCES.map((one) => (
            <option key={one.source} value={one.source}>
              {one.label}
            </option>
          ))}
        </select>
        <a
          href={address(`${path}/logs`, { source })}
          download={`${source}.log`}
          className="inline-flex items-center gap-1.5 text-muted text-sm hover:text-ink"
        >
          <Icon name="download" /> Download
        </a>
      </div>
      {log.isLoading && <Waiting />}
      {log.problem && !log.data && <ErrorState problem={log.problem} retry={log.reload} />}
      {log.data !== undefined && (
        <pre
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
          tabIndex={0}
          role="log"
          aria-label="Log"
          className="max-h-[60vh] min-h-24 overflow-auto whitespace-pre-wrap break-words rounded-lg border bg-sunken px-3.5 py-2.5 font-mono text-xs"
        >
          {text.length > MOST && "… what is older is in the download\n"}
          {text.slice(-MOST) || "Nothing was written yet."}
        </pre>
      )}
    </div>
  );
}
