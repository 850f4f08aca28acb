/** The one place where events become turns: kept ones and live ones alike. Pure: what is unchanged stays the same object. */

import { type ChatEvent, list, number, type Transcript, text } from "./events";
import type { Approval, Artifact, Call, Chat, Finding, Part, Turn } from "./turns";

const MOST_OUTPUT = 200_000;

export const EMPTY: Chat = { turns: [], last: 0, firstTurn: 0, hasMore: false };

export type Folded = { chat: Chat; is: "taken" | "known" | "missing" };

/** The newest turns, as the server keeps them. */
export function open(transcript: Transcript): Chat {
  const folded = transcript.events.reduce(apply, EMPTY);
  return {
    turns: folded.turns,
    last: transcript.last_event,
    firstTurn: transcript.first_turn,
    hasMore: transcript.has_more,
  };
}

/** Older turns before those that are there. What both have is shown once. */
export function prepend(chat: Chat, older: Transcript): Chat {
  const known = new Set(chat.turns.map((turn) => turn.number));
  const turns = older.events.reduce(apply, EMPTY).turns.filter((turn) => !known.has(turn.number));
  const first = older.first_turn || chat.firstTurn;
  return { ...chat, turns: [...turns, ...chat.turns], firstTurn: first, hasMore: older.has_more };
}

/** One live event. One that was seen is `known`; one that comes too early is `missing` what is before it. */
export function fold(chat: Chat, event: ChatEvent): Folded {
  if (event.number <= chat.last) return { chat, is: "known" };
  if (event.number > chat.last + 1) return { chat, is: "missing" };
  return { chat: { ...apply(chat, event), last: event.number }, is: "taken" };
}

/** The same, whatever is missing before it: a hole is better than nothing at all. */
export function foldAnyway(chat: Chat, event: ChatEvent): Chat {
  if (event.number <= chat.last) return chat;
  return { ...apply(chat, event), last: event.number };
}

export function isUnderWay(chat: Chat): boolean {
  const last = chat.turns.at(-1);
  return last !== undefined && last.end === "";
}

export function openApprovals(chat: Chat): Approval[] {
  const last = chat.turns.at(-1);
  if (!last || last.end) return [];
  return last.parts.flatMap((part) =>
    part.kind === "call" && part.call.approval && !part.call.approval.answer
      ? [part.call.approval]
      : [],
  );
}

function apply(chat: Chat, event: ChatEvent): Chat {
  switch (event.kind) {
    case "retracted": {
      const from = number(event.data.from_turn);
      return { ...chat, turns: chat.turns.filter((turn) => turn.number < from) };
    }
    case "rewound":
      return rewound(chat, event);
    case "turn-began":
      return { ...chat, turns: [...withoutTurn(chat, event.turn), begun(event)] };
    default:
      return inTurn(chat, event, (turn) => within(turn, event));
  }
}

function within(turn: Turn, event: ChatEvent): Turn {
  const { data } = event;
  switch (event.kind) {
    case "text":
      return grown(alive(turn), event, "text");
    case "thinking":
      return grown(alive(turn), event, "thinking");
    case "retry":
      return { ...turn, retrying: text(data.reason) || "The model is asked again" };
    case "call":
      return called(alive(turn), event);
    case "judged":
      return withCall(turn, event, (call) => ({
        ...call,
        subject: text(data.subject),
        decision: text(data.decision),
        reason: text(data.reason),
        findings: findings(data.findings),
      }));
    case "approval-asked":
      return withCall(turn, event, (call) => ({ ...call, approval: approval(data) }));
    case "approval-answered":
      return answered(turn, data);
    case "output":
      return withCall(turn, event, (call) => withOutput(call, text(data.text)));
    case "result":
      return withCall(turn, event, (call) => ({
        ...call,
        state: "done",
        tool: call.tool || text(data.tool),
        result: text(data.text),
        isError: data.error === true,
        exitStatus: typeof data.exit_status === "number" ? data.exit_status : null,
        durationS:
          typeof data.duration_s === "number"
            ? data.duration_s
            : call.ranAt
              ? Math.max(0, event.at - call.ranAt)
              : null,
      }));
    case "artifact":
      return withArtifact(turn, event, artifact(data));
    case "checkpoint":
      return withCheckpoint(turn, event);
    case "recalled":
    case "remembered": {
      const facts = told(data.facts);
      return facts.length ? add(turn, event, { kind: "facts", how: event.kind, facts }) : turn;
    }
    case "compacted":
      return add(turn, event, {
        kind: "notice",
        tone: "info",
        text: `Older messages were put together to make room: ${number(data.tokens_before)} tokens became ${number(data.tokens_after)}.`,
      });
    case "notice":
      return noticed(turn, event);
    case "usage":
      return {
        ...turn,
        model: text(data.model) || turn.model,
        tokens: {
          input: turn.tokens.input + number(data.input_tokens),
          output: turn.tokens.output + number(data.output_tokens),
        },
        costUsd: turn.costUsd + number(data.cost_usd),
        isCostWhole: turn.isCostWhole && typeof data.cost_usd === "number",
      };
    case "turn-ended":
      return ended(turn, event);
    default:
      // A newer server tells of more than this page knows.
      return turn;
  }
}

function begun(event: ChatEvent): Turn {
  const { data } = event;
  return {
    number: event.turn,
    prompt: text(data.prompt),
    isResumed: data.resumed === true,
    attachments: list(data.attachments).map((one) => ({
      name: text(one.name),
      size: number(one.size),
      mediaType: text(one.media_type),
    })),
    at: event.at,
    endedAt: 0,
    parts: [],
    end: "",
    problem: null,
    model: "",
    tokens: { input: 0, output: 0 },
    costUsd: 0,
    isCostWhole: true,
    retrying: "",
  };
}

function withoutTurn(chat: Chat, turn: number): Turn[] {
  return chat.turns.filter((one) => one.number !== turn);
}

/** Of a turn whose beginning was never told, what there is of it. */
function inTurn(chat: Chat, event: ChatEvent, change: (turn: Turn) => Turn): Chat {
  const at = chat.turns.findLastIndex((turn) => turn.number === event.turn);
  const old = chat.turns[at];
  if (!old) {
    const made = change(begun({ ...event, data: {} }));
    return made.parts.length ? { ...chat, turns: [...chat.turns, made] } : chat;
  }
  const next = change(old);
  if (next === old) return chat;
  const turns = [...chat.turns];
  turns[at] = next;
  return { ...chat, turns };
}

function alive(turn: Turn): Turn {
  return turn.retrying ? { ...turn, retrying: "" } : turn;
}

type Fresh = Part extends infer One
  ? One extends Part
    ? Omit<One, "key" | "step" | "isUndone">
    : never
  : never;

function add(turn: Turn, event: ChatEvent, part: Fresh): Turn {
  const made = {
    ...part,
    key: `${event.kind}-${event.number}`,
    step: stepOf(turn),
    isUndone: false,
  } as Part;
  return { ...turn, parts: [...turn.parts, made] };
}

function stepOf(turn: Turn): number {
  const last = turn.parts.findLast((part) => part.kind === "checkpoint");
  return last?.kind === "checkpoint" ? last.checkpointStep : 0;
}

/** It is taken once the words and calls of its step are known, and before they count: so it stands before them. */
function withCheckpoint(turn: Turn, event: ChatEvent): Turn {
  const step = number(event.data.step);
  const from = turn.parts.findLastIndex((part) => !isOfNextStep(part)) + 1;
  const before = { ...turn, parts: turn.parts.slice(0, from) };
  const kept = number(event.data.kept);
  const marked = add(before, event, { kind: "checkpoint", checkpointStep: step, kept });
  const after = turn.parts.slice(from).map((part) => ({ ...part, step }));
  return { ...marked, parts: [...marked.parts, ...after] };
}

function isOfNextStep(part: Part): boolean {
  if (part.isUndone) return false;
  if (part.kind === "call") return part.call.state === "coming" || part.call.state === "asked";
  return part.kind === "text" || part.kind === "thinking";
}

function grown(turn: Turn, event: ChatEvent, kind: "text" | "thinking"): Turn {
  const more = text(event.data.text);
  if (!more) return turn;
  const last = turn.parts.at(-1);
  if (last?.kind !== kind) {
    return kind === "text"
      ? add(turn, event, { kind, text: more })
      : add(turn, event, { kind, text: more, began: event.at, ended: event.at });
  }
  const longer =
    last.kind === "thinking"
      ? { ...last, text: last.text + more, ended: event.at }
      : { ...last, text: last.text + more };
  return { ...turn, parts: [...turn.parts.slice(0, -1), longer] };
}

function called(turn: Turn, event: ChatEvent): Turn {
  const { data } = event;
  const state = text(data.state);
  if (!text(data.call)) return turn;
  return withCall(turn, event, (call) => ({
    ...call,
    tool: text(data.tool) || call.tool,
    state: state === "running" ? "running" : state === "coming" ? call.state : "asked",
    arguments: text(data.arguments) || call.arguments,
    ranAt: state === "running" ? event.at : call.ranAt,
  }));
}

function withCall(turn: Turn, event: ChatEvent, change: (call: Call) => Call): Turn {
  const id = text(event.data.call);
  if (!id) return turn;
  const at = turn.parts.findLastIndex((part) => part.kind === "call" && part.call.id === id);
  const old = turn.parts[at];
  if (old?.kind !== "call")
    return add(turn, event, { kind: "call", call: change(fresh(id, event)) });
  const parts = [...turn.parts];
  parts[at] = { ...old, call: change(old.call) };
  return { ...turn, parts };
}

function fresh(id: string, event: ChatEvent): Call {
  return {
    id,
    tool: text(event.data.tool),
    state: "coming",
    arguments: "",
    subject: "",
    decision: "",
    reason: "",
    findings: [],
    output: "",
    isOutputCut: false,
    result: "",
    isError: false,
    exitStatus: null,
    askedAt: event.at,
    ranAt: 0,
    durationS: null,
    approval: null,
  };
}

function withOutput(call: Call, more: string): Call {
  const output = call.output + more;
  if (output.length <= MOST_OUTPUT) return { ...call, output };
  return { ...call, output: output.slice(-MOST_OUTPUT), isOutputCut: true };
}

function answered(turn: Turn, data: Record<string, unknown>): Turn {
  const id = text(data.approval);
  let isFound = false;
  const parts = turn.parts.map((part) => {
    if (part.kind !== "call" || part.call.approval?.id !== id) return part;
    isFound = true;
    const answer = { decision: text(data.decision), by: text(data.by), note: text(data.note) };
    return { ...part, call: { ...part.call, approval: { ...part.call.approval, answer } } };
  });
  return isFound ? { ...turn, parts } : turn;
}

function withArtifact(turn: Turn, event: ChatEvent, made: Artifact): Turn {
  if (!made.blob) return turn;
  const isKnown = turn.parts.some(
    (part) =>
      part.kind === "artifact" &&
      part.artifact.blob === made.blob &&
      part.artifact.name === made.name,
  );
  return isKnown ? turn : add(turn, event, { kind: "artifact", artifact: made });
}

function noticed(turn: Turn, event: ChatEvent): Turn {
  const said = text(event.data.text);
  if (text(event.data.call))
    return withCall(turn, event, (call) => ({ ...call, isOutputCut: true }));
  return said ? add(turn, event, { kind: "notice", tone: "warn", text: said }) : turn;
}

function ended(turn: Turn, event: ChatEvent): Turn {
  const { data } = event;
  const failed = typeof data.error === "object" && data.error !== null ? data.error : {};
  const problem = failed as Record<string, unknown>;
  const usage = typeof data.usage === "object" && data.usage !== null ? data.usage : {};
  const spent = usage as Record<string, unknown>;
  return {
    ...lastWord(turn, event),
    end: text(data.end) || "done",
    endedAt: event.at,
    retrying: "",
    model: text(data.model) || turn.model,
    tokens: {
      input: number(spent.input_tokens) || turn.tokens.input,
      output: number(spent.output_tokens) || turn.tokens.output,
    },
    costUsd: typeof data.cost_usd === "number" ? data.cost_usd : turn.costUsd,
    isCostWhole: typeof data.is_cost_whole === "boolean" ? data.is_cost_whole : turn.isCostWhole,
    problem: text(problem.message)
      ? { message: text(problem.message), hint: text(problem.hint), code: text(problem.code) }
      : null,
  };
}

/** A hook may have put other words in the place of what was streamed; those are the answer. */
function lastWord(turn: Turn, event: ChatEvent): Turn {
  const said = text(event.data.text);
  if (!said || event.data.end !== "done") return turn;
  const at = turn.parts.findLastIndex((part) => part.kind === "text");
  const last = turn.parts[at];
  if (last?.kind !== "text") return add(turn, event, { kind: "text", text: said });
  if (last.text.trim().endsWith(said.trim())) return turn;
  const parts = [...turn.parts];
  parts[at] = { ...last, text: said };
  return { ...turn, parts };
}

function rewound(chat: Chat, event: ChatEvent): Chat {
  const next = number(event.data.next_step);
  const first = chat.turns.findIndex((turn) => turn.parts.some((part) => isAfter(part, next)));
  const turns = chat.turns.map((turn, at) => {
    if (first < 0 || at < first) return turn;
    const parts = turn.parts.map((part) =>
      at > first || isAfter(part, next) ? { ...part, isUndone: true } : part,
    );
    return { ...turn, parts };
  });
  return inTurn({ ...chat, turns }, event, (turn) =>
    add(turn, event, {
      kind: "notice",
      tone: "info",
      text: `Taken back to before step ${next}: the sandbox and what the model knows are as they were then.`,
    }),
  );
}

function isAfter(part: Part, step: number): boolean {
  if (part.isUndone) return false;
  return (part.kind === "checkpoint" ? part.checkpointStep : part.step) >= step && step > 0;
}

function approval(data: Record<string, unknown>): Approval {
  const given = data.arguments;
  return {
    id: text(data.id),
    tool: text(data.tool),
    subject: text(data.subject),
    arguments:
      typeof given === "object" && given !== null ? (given as Record<string, unknown>) : {},
    where: text(data.where),
    reason: text(data.reason),
    findings: findings(data.findings),
    expiresAt: number(data.expires_at),
    answer: null,
  };
}

function findings(value: unknown): Finding[] {
  return list(value).map((one) => ({
    rule: text(one.rule),
    severity: text(one.severity),
    line: number(one.line),
    why: text(one.why),
  }));
}

function artifact(data: Record<string, unknown>): Artifact {
  return {
    blob: text(data.blob),
    name: text(data.name) || "file",
    mediaType: text(data.media_type) || "application/octet-stream",
    size: number(data.size),
    call: text(data.call),
  };
}

function told(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value
    .map((one) => (typeof one === "string" ? one : text((one as Record<string, unknown>)?.text)))
    .filter(Boolean);
}
