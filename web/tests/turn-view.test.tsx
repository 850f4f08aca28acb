import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { ApprovalCard } from "@/chat/approval-card";
import { EMPTY, foldAnyway } from "@/chat/reducer";
import { TurnView } from "@/chat/turn-view";
import type { Approval, Turn } from "@/chat/turns";
import { Tips } from "@/ui/tip";

const turn = (began: Record<string, unknown>): Turn => {
  const told = { number: 1, turn: 1, kind: "turn-began", at: 1, data: began };
  const ended = {
    number: 2,
    turn: 1,
    kind: "turn-ended",
    at: 2,
    data: { end: "done", text: "Yes" },
  };
  const made = foldAnyway(foldAnyway(EMPTY, told), ended).turns[0];
  if (!made) throw new Error("There is no turn");
  return made;
};

const shown = (one: Turn, isBusy = false) =>
  renderToStaticMarkup(
    <Tips>
      <TurnView turn={one} conversation="c" place={null} isLast isBusy={isBusy} lastStep={0} />
    </Tips>,
  );

describe("what can be done with a turn", () => {
  it("is to write its prompt anew", () => {
    expect(shown(turn({ prompt: "Hello" }))).toContain("Edit the prompt");
  });

  it("is not to write one anew that went on with another, which has the prompt", () => {
    const resumed = turn({ prompt: "", resumed: true });
    expect(shown(resumed)).not.toContain("Edit the prompt");
    expect(shown({ ...resumed, prompt: "Hello" })).not.toContain("Edit the prompt");
    expect(shown(resumed)).toContain("Try again");
  });

  it("is nothing of that while a turn is under way", () => {
    const words = shown(turn({ prompt: "Hello" }), true);
    expect(words).not.toContain("Edit the prompt");
    expect(words).not.toContain("Try again");
  });
});

describe("a call that waits for a person", () => {
  const approval = {
    id: "p",
    subject: "/workspace/a.sh",
    arguments: { path: "a.sh", content: "echo \u202ehs.txt\u200b\nrm -rf /" },
    where: "sandbox",
    reason: "",
    findings: [],
    expiresAt: 0,
    answer: null,
  } as unknown as Approval;

  it("shows all that it is given, and what would be unseen as numbers", () => {
    const words = renderToStaticMarkup(<ApprovalCard approval={approval} />);
    expect(words).toContain("echo \\u{202e}hs.txt\\u{200b}\nrm -rf /");
    const command = { ...approval, subject: "ls\u2028\u00a0x\r", arguments: {} };
    expect(renderToStaticMarkup(<ApprovalCard approval={command} />)).toContain(
      "ls\\u{2028}\\u{a0}x\\u{d}",
    );
  });

  it("shows arguments once where they are the subject, and whatever that does not tell", () => {
    const told = { ...approval, subject: '{"a": 1, "b": "x"}', arguments: { b: "x", a: 1, c: 2 } };
    const words = renderToStaticMarkup(<ApprovalCard approval={told} />);
    expect(words.match(/<dt[^>]*>\w+<\/dt>/g)?.join()).toMatch(/>c<.*>Where</);
    expect(words).not.toMatch(/<dt[^>]*>[ab]<\/dt>/);
  });
});
