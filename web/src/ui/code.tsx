import { type ReactNode, useEffect, useState } from "react";
import { CopyButton } from "./copy";

const LONGEST_HIGHLIGHTED = 60_000;

/** Shown at once as it is; coloured when the highlighter has come, which is loaded by the first that needs it. */
export function CodeBlock({
  code,
  language = "",
  isGrowing = false,
  title,
}: {
  code: string;
  language?: string;
  isGrowing?: boolean;
  title?: ReactNode;
}) {
  const coloured = useColours(code, language, isGrowing);
  return (
    <figure className="my-2 overflow-hidden rounded-lg border bg-sunken text-sm">
      <figcaption className="flex h-8 items-center gap-2 border-b pr-1 pl-3 text-muted text-xs">
        <span className="min-w-0 flex-1 truncate font-mono">{title ?? (language || "text")}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
        tabIndex={0}
        className="max-h-[32rem] overflow-auto px-3.5 py-2.5 font-mono text-[0.8125rem] leading-relaxed"
      >
        <code>{coloured ?? code}</code>
      </pre>
    </figure>
  );
}

function useColours(code: string, language: string, isGrowing: boolean): ReactNode {
  const [found, setFound] = useState<{ code: string; node: ReactNode } | null>(null);
  useEffect(() => {
    if (!language || isGrowing || code.length > LONGEST_HIGHLIGHTED) return;
    let isWanted = true;
    import("./highlight").then(
      ({ highlight }) => {
        const node = highlight(code, language);
        if (isWanted && node) setFound({ code, node });
      },
      () => {},
    );
    return () => {
      isWanted = false;
    };
  }, [code, language, isGrowing]);
  return found?.code === code ? found.node : null;
}
