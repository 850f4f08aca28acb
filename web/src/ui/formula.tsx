import katex from "katex";
import "katex/dist/katex.min.css";
import { useMemo } from "react";

const LONGEST = 5000;

/** KaTeX escapes all it is given; with `trust` off no address and no HTML passes. */
export default function Formula({ text, isBlock }: { text: string; isBlock: boolean }) {
  const html = useMemo(() => {
    if (text.length > LONGEST) return null;
    try {
      return katex.renderToString(text, {
        displayMode: isBlock,
        throwOnError: true,
        trust: false,
        strict: "ignore",
        maxExpand: 200,
        maxSize: 20,
      });
    } catch {
      return null;
    }
  }, [text, isBlock]);
  if (html === null) return <code>{text}</code>;
  return (
    <span
      className={isBlock ? "my-3 block overflow-x-auto" : undefined}
      // biome-ignore lint/security/noDangerouslySetInnerHtml: the only place; see above
      dangerouslySetInnerHTML={{ __html: html }}
    />
  );
}
