/** Markdown as React elements. HTML in it is shown as the text it is; links leave by http, https and mail alone. */

import { Marked, type MarkedExtension, type Token, type Tokens } from "marked";
import { createContext, lazy, memo, type ReactNode, Suspense, use, useMemo } from "react";
import { CodeBlock } from "./code";
import { Icon } from "./icons";

const Formula = lazy(() => import("./formula"));

const MATH: MarkedExtension = {
  extensions: [
    {
      name: "blockMath",
      level: "block",
      start: (source: string) => source.match(/(?:^|\n)(?:\$\$|\\\[)/)?.index,
      tokenizer(source: string) {
        const found = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/.exec(source);
        if (!found) return undefined;
        return { type: "blockMath", raw: found[0], text: found[1] ?? found[2] ?? "" };
      },
    },
    {
      name: "inlineMath",
      level: "inline",
      start: (source: string) => source.match(/\$|\\\(/)?.index,
      tokenizer(source: string) {
        // A price is no formula: what is between two dollar signs neither begins nor ends with a space.
        const found =
          /^\$\$([^$\n]+?)\$\$/.exec(source) ??
          /^\$(?!\s)([^$\n]+?)(?<!\s)\$(?!\d)/.exec(source) ??
          /^\\\(([\s\S]+?)\\\)/.exec(source);
        if (!found) return undefined;
        return { type: "inlineMath", raw: found[0], text: found[1] ?? "" };
      },
    },
  ],
};
const marked = new Marked({ gfm: true }, MATH);

/** What an image's address stands for, if it is something that the conversation has; else nothing is loaded. */
export const Pictures = createContext<(address: string) => string | null>(() => null);

export const Markdown = memo(function Markdown({
  text,
  isGrowing = false,
}: {
  text: string;
  isGrowing?: boolean;
}) {
  const blocks = useMemo(
    () => marked.lexer(text).filter((token) => token.type !== "space"),
    [text],
  );
  return (
    <div className="prose-crucible">
      {blocks.map((token, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: text only grows at its end
        <Block key={at} token={token} isGrowing={isGrowing && at === blocks.length - 1} />
      ))}
    </div>
  );
});

const Block = memo(
  function Block({ token, isGrowing }: { token: Token; isGrowing: boolean }): ReactNode {
    return block(token, 0, isGrowing);
  },
  (before, after) =>
    before.token.raw === after.token.raw &&
    before.token.type === after.token.type &&
    before.isGrowing === after.isGrowing,
);

function block(token: Token, key: number, isGrowing = false): ReactNode {
  switch (token.type) {
    case "heading": {
      const { depth, tokens } = token as Tokens.Heading;
      const Tag = `h${Math.min(6, depth + 1)}` as "h2";
      return <Tag key={key}>{inline(tokens)}</Tag>;
    }
    case "paragraph":
      return <p key={key}>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return <span key={key}>{tokens ? inline(tokens) : decoded(text)}</span>;
    }
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return (
        <CodeBlock
          key={key}
          code={text}
          language={(lang ?? "").split(/\s/)[0] ?? ""}
          isGrowing={isGrowing}
        />
      );
    }
    case "blockquote":
      return (
        <blockquote key={key}>
          {(token as Tokens.Blockquote).tokens.map((one, at) => block(one, at))}
        </blockquote>
      );
    case "list":
      return listOf(token as Tokens.List, key);
    case "table":
      return tableOf(token as Tokens.Table, key);
    case "hr":
      return <hr key={key} />;
    case "blockMath":
      return <Maths key={key} text={(token as Tokens.Generic).text as string} isBlock />;
    case "html":
      return <p key={key}>{token.raw}</p>;
    case "space":
    case "def":
      return null;
    default:
      return <p key={key}>{token.raw}</p>;
  }
}

function listOf(token: Tokens.List, key: number): ReactNode {
  const items = token.items.map((item, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: text only grows at its end
    <li key={at} className={item.task ? "task" : undefined}>
      {item.task && (
        <input
          type="checkbox"
          checked={item.checked ?? false}
          readOnly
          aria-label={item.checked ? "Done" : "To do"}
        />
      )}
      {item.tokens.filter((one) => one.type !== "checkbox").map((one, place) => block(one, place))}
    </li>
  ));
  return token.ordered ? (
    <ol key={key} start={Number(token.start) || 1}>
      {items}
    </ol>
  ) : (
    <ul key={key}>{items}</ul>
  );
}

function tableOf(token: Tokens.Table, key: number): ReactNode {
  const align = (at: number) => ({ textAlign: token.align[at] ?? undefined }) as const;
  return (
    <div key={key} className="my-3 overflow-x-auto rounded-lg border">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move
              <th key={at} style={align(at)}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows only come at the end
            <tr key={at}>
              {row.map((cell, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move
                <td key={place} style={align(place)}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[]): ReactNode[] {
  return tokens.map((token, at) => piece(token, at));
}

function piece(token: Token, key: number): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong key={key}>{inline((token as Tokens.Strong).tokens)}</strong>;
    case "em":
      return <em key={key}>{inline((token as Tokens.Em).tokens)}</em>;
    case "del":
      return <del key={key}>{inline((token as Tokens.Del).tokens)}</del>;
    case "codespan":
      return <code key={key}>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br key={key} />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return <Away key={key} href={href} content={inline(tokens)} />;
    }
    case "image": {
      const { href, text } = token as Tokens.Image;
      return <Shown key={key} address={href} text={text} />;
    }
    case "inlineMath":
      return <Maths key={key} text={(token as Tokens.Generic).text as string} />;
    case "escape":
    case "text": {
      const { text, tokens } = token as Tokens.Text;
      return tokens ? <span key={key}>{inline(tokens)}</span> : decoded(text);
    }
    default:
      // HTML among them.
      return token.raw;
  }
}

function Away({ href, content }: { href: string; content: ReactNode }) {
  if (!safeAddress(href)) return <span>{content}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {content}
    </a>
  );
}

/** A picture from elsewhere would tell its server what the model was made to write. It stays a link. */
function Shown({ address, text }: { address: string; text: string }) {
  const found = use(Pictures)(address);
  if (found)
    return (
      <img src={found} alt={text} loading="lazy" className="my-2 max-h-[28rem] rounded-lg border" />
    );
  return (
    <span className="inline-flex items-center gap-1">
      <Icon name="image" className="size-3.5" />
      <Away href={address} content={text || address} />
    </span>
  );
}

function Maths({ text, isBlock = false }: { text: string; isBlock?: boolean }) {
  return (
    <Suspense fallback={<code>{text}</code>}>
      <Formula text={text} isBlock={isBlock} />
    </Suspense>
  );
}

export function safeAddress(address: string): boolean {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

const ENTITIES: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  times: "×",
  rarr: "→",
  larr: "←",
  deg: "°",
  euro: "€",
  middot: "·",
  bull: "•",
};

/** `&amp;` and its like, as Markdown means them. What comes of it is text, never markup. */
export function decoded(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,8}));/gi,
    (whole, ten, sixteen, name) => {
      if (name) return ENTITIES[name] ?? whole;
      const code = Number.parseInt(ten ?? sixteen, ten ? 10 : 16);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
