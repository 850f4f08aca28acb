import { describe, expect, it } from "vitest";
import type { ChatEvent, Transcript } from "@/chat/events";
import { fromStream } from "@/chat/events";
import { EMPTY, fold, foldAnyway, isUnderWay, open, openApprovals, prepend } from "@/chat/reducer";
import type { Chat } from "@/chat/turns";

type Told = [turn: number, kind: string, data?: Record<string, unknown>];

function numbered(told: Told[], first = 1): ChatEvent[] {
  return told.map(([turn, kind, data = {}], at) => ({
    number: first + at,
    turn,
    kind,
    at: 1000 + first + at,
    data,
  }));
}

function live(told: Told[], from: Chat = EMPTY): Chat {
  return numbered(told, from.last + 1).reduce((chat, event) => fold(chat, event).chat, from);
}

function transcript(events: ChatEvent[], more: Partial<Transcript> = {}): Transcript {
  return {
    events,
    first_turn: events[0]?.turn ?? 0,
    has_more: false,
    last_event: events.at(-1)?.number ?? 0,
    open_turn: null,
    state: "idle",
    ...more,
  };
}

const TALK: Told[] = [
  [1, "turn-began", { prompt: "Hello", intent: "chat" }],
  [1, "text", { text: "Good " }],
  [1, "text", { text: "day" }],
  [1, "turn-ended", { end: "done", text: "Good day" }],
];

describe("order, duplicates and gaps", () => {
  it("puts pieces of one text together", () => {
    const chat = live(TALK);
    expect(chat.turns).toHaveLength(1);
    expect(chat.turns[0]?.parts.map((part) => part.kind === "text" && part.text)).toEqual([
      "Good day",
    ]);
    expect(isUnderWay(chat)).toBe(false);
  });

  it("takes an event once, however often it comes", () => {
    const chat = live(TALK.slice(0, 3));
    const again = numbered(TALK.slice(0, 3)).map((event) => fold(chat, event));
    expect(again.map((one) => one.is)).toEqual(["known", "known", "known"]);
    expect(again.every((one) => one.chat === chat)).toBe(true);
  });

  it("does not take an event whose forerunner is missing", () => {
    const chat = live(TALK.slice(0, 1));
    const [, , third] = numbered(TALK);
    const early = fold(chat, third as ChatEvent);
    expect(early.is).toBe("missing");
    expect(early.chat).toBe(chat);
    expect(foldAnyway(chat, third as ChatEvent).last).toBe(3);
  });

  it("makes the same of kept and of live events", () => {
    const told: Told[] = [
      ...TALK,
      [2, "turn-began", { prompt: "More" }],
      [2, "text", { text: "Yes" }],
    ];
    const joined = numbered(told).filter((event) => event.number !== 2);
    const third = joined[1] as ChatEvent;
    joined[1] = { ...third, data: { text: "Good day" } };
    const kept = open(transcript(joined, { last_event: 6 }));
    const shape = (chat: Chat) =>
      chat.turns.map((turn) => [
        turn.prompt,
        turn.end,
        turn.parts.map((part) => part.kind === "text" && part.text),
      ]);
    expect(shape(kept)).toEqual(shape(live(told)));
    expect(kept.last).toBe(6);
  });

  it("follows on from a transcript", () => {
    const kept = open(transcript(numbered(TALK.slice(0, 2)), { last_event: 2 }));
    const chat = live([[1, "text", { text: "morning" }]], kept);
    expect(chat.turns[0]?.parts).toMatchObject([{ kind: "text", text: "Good morning" }]);
  });

  it("keeps what did not change the same object", () => {
    const before = live([...TALK, [2, "turn-began", { prompt: "More" }]]);
    const after = live([[2, "text", { text: "x" }]], before);
    expect(after.turns[0]).toBe(before.turns[0]);
    expect(after.turns[1]).not.toBe(before.turns[1]);
  });

  it("puts older turns before, each once", () => {
    const newer = open(
      transcript(numbered([[2, "turn-began", { prompt: "two" }]], 10), { has_more: true }),
    );
    const older = transcript(
      numbered([
        [1, "turn-began", { prompt: "one" }],
        [2, "turn-began", { prompt: "two" }],
      ]),
    );
    const chat = prepend(newer, older);
    expect(chat.turns.map((turn) => turn.prompt)).toEqual(["one", "two"]);
    expect(chat.last).toBe(newer.last);
    expect(chat.hasMore).toBe(false);
  });
});

describe("turns that are taken back", () => {
  it("drops them and those after", () => {
    const chat = live([
      ...TALK,
      [2, "turn-began", { prompt: "wrong" }],
      [3, "turn-began", { prompt: "wronger" }],
      [3, "retracted", { from_turn: 2 }],
      [4, "turn-began", { prompt: "right" }],
    ]);
    expect(chat.turns.map((turn) => turn.prompt)).toEqual(["Hello", "right"]);
  });

  it("marks what a rewind undid and says so", () => {
    const chat = live([
      [1, "turn-began", { prompt: "go" }],
      [1, "text", { text: "I begin." }],
      [1, "call", { call: "a", tool: "bash", state: "asked" }],
      [1, "checkpoint", { step: 1, kept: 1 }],
      [1, "call", { call: "a", tool: "bash", state: "running" }],
      [1, "result", { call: "a", tool: "bash", text: "a" }],
      [1, "text", { text: "I go on." }],
      [1, "call", { call: "b", tool: "bash", state: "asked" }],
      [1, "checkpoint", { step: 2, kept: 2 }],
      [1, "call", { call: "b", tool: "bash", state: "running" }],
      [1, "result", { call: "b", tool: "bash", text: "b" }],
      [1, "turn-ended", { end: "done" }],
      [2, "turn-began", { prompt: "thanks" }],
      [2, "text", { text: "You are welcome." }],
      [2, "turn-ended", { end: "done" }],
      [2, "rewound", { steps: 1, next_step: 2 }],
    ]);
    const [first, second] = chat.turns.map((turn) =>
      turn.parts.map((part) => `${part.kind}${part.isUndone ? " undone" : ""}`),
    );
    // A step's mark stands before all that goes with it.
    expect(first).toEqual([
      "checkpoint",
      "text",
      "call",
      "checkpoint undone",
      "text undone",
      "call undone",
    ]);
    expect(second).toEqual(["text undone", "notice"]);
  });
});

describe("calls", () => {
  const CALL: Told[] = [
    [1, "turn-began", { prompt: "run" }],
    [1, "call", { call: "c", tool: "bash", state: "coming" }],
    [1, "call", { call: "c", tool: "bash", state: "asked", arguments: '{"command":"ls"}' }],
    [
      1,
      "judged",
      {
        call: "c",
        decision: "ask",
        reason: "asks",
        findings: [{ rule: "r", severity: "high", line: 1, why: "w" }],
      },
    ],
    [
      1,
      "approval-asked",
      {
        id: "p",
        call: "c",
        tool: "bash",
        subject: "ls",
        where: "box",
        arguments: { command: "ls" },
      },
    ],
  ];

  it("has one card from its first word to its result", () => {
    const chat = live([
      ...CALL,
      [1, "approval-answered", { approval: "p", decision: "once", by: "me" }],
      [1, "call", { call: "c", tool: "bash", state: "running" }],
      [1, "output", { call: "c", channel: "stdout", text: "a\n" }],
      [1, "output", { call: "c", channel: "stderr", text: "b\n" }],
      [
        1,
        "result",
        { call: "c", tool: "bash", text: "a\nb\n", error: false, exit_status: 0, duration_s: 1.5 },
      ],
    ]);
    const [part, ...rest] = chat.turns[0]?.parts ?? [];
    expect(rest).toEqual([]);
    expect(part?.kind === "call" && part.call).toMatchObject({
      state: "done",
      arguments: '{"command":"ls"}',
      output: "a\nb\n",
      exitStatus: 0,
      durationS: 1.5,
      findings: [{ severity: "high" }],
      approval: { answer: { decision: "once" } },
    });
  });

  it("tells which approvals wait, and none once the turn is over", () => {
    const waiting = live(CALL);
    expect(openApprovals(waiting).map((one) => one.id)).toEqual(["p"]);
    expect(openApprovals(live([[1, "turn-ended", { end: "cancelled" }]], waiting))).toEqual([]);
  });

  it("keeps the end of what is too long to show", () => {
    const many: Told[] = Array.from({ length: 5 }, () => [
      1,
      "output",
      { call: "c", text: "x".repeat(60_000) },
    ]);
    const chat = live([...CALL, ...many]);
    const part = chat.turns[0]?.parts[0];
    expect(part?.kind === "call" && [part.call.output.length, part.call.isOutputCut]).toEqual([
      200_000,
      true,
    ]);
  });

  it("keeps two calls that run side by side apart", () => {
    const chat = live([
      [1, "turn-began"],
      [1, "call", { call: "a", tool: "bash", state: "asked" }],
      [1, "call", { call: "b", tool: "bash", state: "asked" }],
      [1, "output", { call: "a", text: "A" }],
      [1, "output", { call: "b", text: "B" }],
      [1, "output", { call: "a", text: "A" }],
    ]);
    expect(chat.turns[0]?.parts.map((part) => part.kind === "call" && part.call.output)).toEqual([
      "AA",
      "B",
    ]);
  });

  it("shows an artifact once", () => {
    const made: Told = [
      1,
      "artifact",
      { call: "c", name: "a.png", media_type: "image/png", size: 3, blob: "h" },
    ];
    const chat = live([[1, "turn-began"], made, made]);
    expect(chat.turns[0]?.parts).toHaveLength(1);
  });
});

describe("what is not as expected", () => {
  it("lets kinds pass that it does not know", () => {
    const before = live(TALK);
    const after = live([[1, "dreamt", { of: "sheep" }]], before);
    expect(after.turns).toBe(before.turns);
    expect(after.last).toBe(before.last + 1);
  });

  it("bears data of any shape", () => {
    const kinds = [
      "turn-began",
      "text",
      "thinking",
      "retry",
      "call",
      "judged",
      "approval-asked",
      "approval-answered",
      "output",
      "result",
      "artifact",
      "object",
      "usage",
      "recalled",
      "remembered",
      "compacted",
      "checkpoint",
      "rewound",
      "retracted",
      "notice",
      "turn-ended",
    ];
    const shapes: Record<string, unknown>[] = [
      {},
      {
        text: 3,
        call: {},
        facts: "no",
        findings: [null, 4],
        arguments: [],
        error: "x",
        usage: 1,
        attachments: [1],
      },
      {
        call: "c",
        text: null,
        from_turn: "2",
        next_step: -1,
        facts: [null, { text: 4 }, "yes"],
        approval: 9,
      },
    ];
    let chat = EMPTY;
    for (const kind of kinds) for (const data of shapes) chat = live([[1, kind, data]], chat);
    expect(chat.last).toBe(kinds.length * shapes.length);
  });

  it("shows words that a hook put in the place of the answer", () => {
    const chat = live([
      ...TALK.slice(0, 3),
      [1, "turn-ended", { end: "done", text: "The answer is kept back." }],
    ]);
    expect(chat.turns[0]?.parts).toMatchObject([{ text: "The answer is kept back." }]);
  });

  it("shows a turn whose beginning it never heard", () => {
    expect(live([[7, "text", { text: "…" }]]).turns).toMatchObject([{ number: 7, prompt: "" }]);
  });

  it("reads only events that have a number", () => {
    expect(fromStream("text", "12", { turn: 1, at: 2, text: "a" })).toEqual({
      number: 12,
      turn: 1,
      at: 2,
      kind: "text",
      data: { text: "a" },
    });
    expect(fromStream("text", "", { text: "a" })).toBeNull();
    expect(fromStream("text", "3", "words")).toBeNull();
  });
});
