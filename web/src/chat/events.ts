/** What a session tells, kept or live. `data` is as the server sent it: nothing in it is trusted to be there. */
export interface ChatEvent {
  number: number;
  turn: number;
  kind: string;
  at: number;
  data: Record<string, unknown>;
}

export interface Transcript {
  events: ChatEvent[];
  first_turn: number;
  has_more: boolean;
  last_event: number;
  open_turn: { turn: number; after: number } | null;
  state: "idle" | "busy" | "waiting" | "interrupted";
}

/** From the stream: there the number is the event's id, and turn and time lie beside the rest. */
export function fromStream(kind: string, id: string, data: unknown): ChatEvent | null {
  const number = Number(id);
  if (!Number.isSafeInteger(number) || number < 1 || typeof data !== "object" || data === null) {
    return null;
  }
  const { turn, at, ...rest } = data as Record<string, unknown>;
  return {
    number,
    turn: typeof turn === "number" ? turn : 0,
    kind,
    at: typeof at === "number" ? at : 0,
    data: rest,
  };
}

export const text = (value: unknown): string => (typeof value === "string" ? value : "");
export const number = (value: unknown): number => (typeof value === "number" ? value : 0);
export const list = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "object" && one !== null) : [];
