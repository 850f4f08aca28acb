import katex from "katex";
import "katex/dist/katex.min.css";
import { useCallback, useMemo } from "react";

const LONGEST = 5000;

/** With `trust` off no address and no HTML passes. Made as elements, not as text: styles in a text would be refused. */
export default function Formula({ text, isBlock }: { text: string; isBlock: boolean }) {
  const drawn = useMemo(() => draw(text, isBlock), [text, isBlock]);
  const put = useCallback(
    (place: HTMLElement | null) => {
      if (drawn) place?.replaceChildren(drawn);
    },
    [drawn],
  );
  if (!drawn) return <code>{text}</code>;
  return <span ref={put} className={isBlock ? "my-3 block overflow-x-auto" : undefined} />;
}

function draw(text: string, isBlock: boolean): HTMLElement | null {
  if (text.length > LONGEST) return null;
  const drawn = document.createElement("span");
  try {
    katex.render(text, drawn, {
      displayMode: isBlock,
      throwOnError: true,
      trust: false,
      strict: "ignore",
      maxExpand: 200,
      maxSize: 20,
    });
    return drawn;
  } catch {
    return null;
  }
}
