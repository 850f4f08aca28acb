/** What a sandbox made, shown where it can reach nothing: pictures as pictures, all that runs in a frame without an origin. */

import { lazy, memo, Suspense, useEffect, useRef, useState } from "react";
import { API, get, send } from "@/api/client";
import { useLoad } from "@/api/load";
import { isDark, useTheme } from "@/theme";
import { IconButton } from "@/ui/button";
import { CodeBlock } from "@/ui/code";
import { Dialog } from "@/ui/dialog";
import { bytes } from "@/ui/format";
import { Icon, type IconName } from "@/ui/icons";
import { Boundary, ProblemNote, Waiting } from "@/ui/states";
import { readChart } from "./charts";
import { readTable } from "./tables";
import type { Artifact } from "./turns";

const ArtifactTable = lazy(() => import("./artifact-table"));

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const FRAMED = ["text/html", "image/svg+xml"];
const PLOTLY = "application/vnd.plotly.v1+json";
const CHART = "application/vnd.crucible.chart+json";
const DATA = "application/vnd.crucible.data+json";
const LARGEST_READ = 20_000_000;

type Way = "picture" | "frame" | "plotly" | "table" | "text" | "file";

export function artifactAddress(conversation: string, blob: string, isDownload = false): string {
  return `${API}/conversations/${encodeURIComponent(conversation)}/artifacts/${encodeURIComponent(blob)}${isDownload ? "?download=1" : ""}`;
}

export function wayOf(artifact: Pick<Artifact, "mediaType" | "name" | "size">): Way {
  const type = artifact.mediaType.split(";")[0]?.trim() ?? "";
  if (PICTURES.includes(type)) return "picture";
  if (FRAMED.includes(type)) return "frame";
  if (artifact.size > LARGEST_READ) return "file";
  if (type === PLOTLY || type === CHART || /\.plotly\.json$/i.test(artifact.name)) return "plotly";
  if (
    type === DATA ||
    ["text/csv", "text/tab-separated-values"].includes(type) ||
    /\.(csv|tsv)$/i.test(artifact.name)
  ) {
    return "table";
  }
  const isText =
    type.startsWith("text/") || ["application/json", "application/javascript"].includes(type);
  return isText && artifact.size <= 200_000 ? "text" : "file";
}

const ICONS: Record<Way, IconName> = {
  picture: "image",
  frame: "globe",
  plotly: "chart",
  table: "table",
  text: "file",
  file: "file",
};

export const ArtifactView = memo(function ArtifactView({
  artifact,
  conversation,
}: {
  artifact: Artifact;
  conversation: string;
}) {
  const way = wayOf(artifact);
  const [isLarge, setLarge] = useState(false);
  return (
    <figure
      className="my-3 overflow-hidden rounded-lg border bg-surface"
      data-artifact={artifact.name}
    >
      <figcaption className="flex min-h-9 items-center gap-2.5 pr-1.5 pl-3 text-sm">
        <Icon name={ICONS[way]} className="size-4 text-muted" />
        <span className="min-w-0 flex-1 truncate font-medium">{artifact.name}</span>
        <span className="text-faint text-xs">{bytes(artifact.size)}</span>
        {(way === "frame" || way === "plotly" || way === "picture" || way === "table") && (
          <IconButton
            label={`Enlarge ${artifact.name}`}
            icon="open"
            onClick={() => setLarge(true)}
          />
        )}
        <a
          href={artifactAddress(conversation, artifact.blob, true)}
          download={artifact.name}
          aria-label={`Download ${artifact.name}`}
          title="Download"
          className="grid size-7 place-items-center rounded-md text-muted hover:bg-hover hover:text-ink"
        >
          <Icon name="download" />
        </a>
      </figcaption>
      {way !== "file" && (
        <div className="border-t">
          <Body artifact={artifact} conversation={conversation} way={way} height="24rem" />
        </div>
      )}
      {isLarge && (
        <Dialog isOpen isWide onClose={() => setLarge(false)} title={artifact.name}>
          <Body artifact={artifact} conversation={conversation} way={way} height="70vh" />
        </Dialog>
      )}
    </figure>
  );
});

function Body({
  artifact,
  conversation,
  way,
  height,
}: {
  artifact: Artifact;
  conversation: string;
  way: Way;
  height: string;
}) {
  const address = artifactAddress(conversation, artifact.blob);
  if (way === "picture") {
    return (
      <img
        src={address}
        alt={artifact.name}
        loading="lazy"
        className="mx-auto block object-contain p-2"
        style={{ maxHeight: height }}
      />
    );
  }
  if (way === "frame") {
    return (
      <iframe
        src={address}
        title={artifact.name}
        sandbox="allow-scripts"
        referrerPolicy="no-referrer"
        loading="lazy"
        className="block w-full bg-white"
        style={{ height }}
      />
    );
  }
  return (
    <Boundary>
      <Read artifact={artifact} conversation={conversation} way={way} height={height} />
    </Boundary>
  );
}

function Read({
  artifact,
  conversation,
  way,
  height,
}: {
  artifact: Artifact;
  conversation: string;
  way: Way;
  height: string;
}) {
  const path = `/conversations/${encodeURIComponent(conversation)}/artifacts/${encodeURIComponent(artifact.blob)}`;
  const loaded = useLoad<unknown>(path, (signal) =>
    way === "plotly"
      ? get(path, { signal })
      : send("GET", path, { signal }).then((response) => response.text()),
  );
  if (loaded.problem) {
    return (
      <div className="p-3">
        <ProblemNote problem={loaded.problem} />
      </div>
    );
  }
  if (loaded.isLoading) return <Waiting />;
  if (way === "plotly") {
    const figure = artifact.mediaType === CHART ? readChart(loaded.data) : loaded.data;
    return figure ? (
      <Chart figure={figure} title={artifact.name} height={height} />
    ) : (
      <CodeBlock code={JSON.stringify(loaded.data, null, 2)} language="json" />
    );
  }
  const words = String(loaded.data ?? "");
  if (way === "table") {
    const table = readTable(words, artifact.mediaType, artifact.name);
    return (
      <Suspense fallback={<Waiting />}>
        <ArtifactTable table={table} label={artifact.name} height={height} />
      </Suspense>
    );
  }
  const extension = artifact.name.includes(".") ? (artifact.name.split(".").at(-1) ?? "") : "";
  return (
    <div className="px-3">
      <CodeBlock code={words} language={extension} title={artifact.name} />
    </div>
  );
}

/** Drawn in a frame of its own origin, which is handed the figure and can ask for nothing. */
function Chart({ figure, title, height }: { figure: unknown; title: string; height: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const theme = useTheme();
  const [failure, setFailure] = useState("");
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    const dark = theme === "system" ? isDark() : theme === "dark";
    const hand = () =>
      frame.current?.contentWindow?.postMessage({ kind: "figure", figure, isDark: dark }, "*");
    const hear = (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow) return;
      if (event.data?.kind === "ready") hand();
      if (event.data?.kind === "drawn") setDrawn(true);
      if (event.data?.kind === "failed") setFailure(String(event.data.message).slice(0, 300));
    };
    window.addEventListener("message", hear);
    hand();
    return () => window.removeEventListener("message", hear);
  }, [figure, theme]);
  return (
    <div className="relative" style={{ height }}>
      {!isDrawn && !failure && (
        <div className="absolute inset-0 grid place-items-center">
          <Waiting text="Drawing" />
        </div>
      )}
      {failure && <p className="p-3 text-bad text-sm">The chart cannot be drawn: {failure}</p>}
      <iframe
        ref={frame}
        src="/frames/plotly.html"
        title={`Chart ${title}`}
        sandbox="allow-scripts"
        className={`block h-full w-full bg-transparent ${isDrawn ? "" : "opacity-0"}`}
      />
    </div>
  );
}
