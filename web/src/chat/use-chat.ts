/** One conversation, open: what is kept, then what comes, over whatever connections it takes. */

import { useCallback, useEffect, useRef, useState } from "react";
import { get } from "@/api/client";
import { events as stream } from "@/api/events";
import { asProblem, type Problem, wasAborted } from "@/api/problem";
import { type ChatEvent, fromStream, type Transcript } from "./events";
import { EMPTY, fold, foldAnyway, open, prepend } from "./reducer";
import type { Chat } from "./turns";

const SHOWN_EVERY_MS = 33;
const LONGEST_WAIT_MS = 8000;
const FIRST_TURNS = 30;
const MOST_TURNS = 200;
const FINAL = [400, 401, 403, 404, 410, 422];

export interface OpenChat {
  chat: Chat;
  isLoading: boolean;
  problem: Problem | null;
  /** False while a connection that dropped is made again. */
  isLive: boolean;
  isLoadingOlder: boolean;
  loadOlder: () => void;
  reload: () => void;
}

export function useChat(id: string | null): OpenChat {
  const [state, setState] = useState<{
    id: string | null;
    chat: Chat;
    problem: Problem | null;
    isLoading: boolean;
  }>({ id, chat: EMPTY, problem: null, isLoading: id !== null });
  const [isLive, setLive] = useState(true);
  const [isLoadingOlder, setLoadingOlder] = useState(false);
  const [round, setRound] = useState(0);
  const current = useRef<Chat>(EMPTY);
  const isAsking = useRef(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new round opens the same conversation again
  useEffect(() => {
    current.current = EMPTY;
    setState({ id, chat: EMPTY, problem: null, isLoading: id !== null });
    setLive(true);
    if (id === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let shownAt = 0;
    const show = () => {
      timer = undefined;
      shownAt = performance.now();
      setState({ id, chat: current.current, problem: null, isLoading: false });
    };
    const become = (chat: Chat) => {
      if (chat === current.current) return;
      current.current = chat;
      // The first word at once; of many that follow each other, some together.
      timer ??= setTimeout(show, shownAt + SHOWN_EVERY_MS - performance.now());
    };
    keepUp(id, current, become, setLive, stop.signal).catch((error: unknown) => {
      if (stop.signal.aborted || wasAborted(error)) return;
      setState({ id, chat: current.current, problem: asProblem(error), isLoading: false });
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, round]);

  const loadOlder = useCallback(() => {
    const chat = current.current;
    if (!id || !chat.hasMore || isAsking.current) return;
    isAsking.current = true;
    setLoadingOlder(true);
    get<Transcript>(`/conversations/${id}/transcript`, {
      query: { before_turn: chat.firstTurn, turns: olderTurns(chat) },
    })
      .then((older) => {
        // It was opened again meanwhile, and begins elsewhere.
        if (current.current.firstTurn !== chat.firstTurn) return;
        current.current = prepend(current.current, older);
        setState((old) => (old.id === id ? { ...old, chat: current.current } : old));
      })
      .catch(() => {})
      .finally(() => {
        isAsking.current = false;
        setLoadingOlder(false);
      });
  }, [id]);

  const reload = useCallback(() => setRound((round) => round + 1), []);
  const isOurs = state.id === id;
  return {
    chat: isOurs ? state.chat : EMPTY,
    isLoading: isOurs ? state.isLoading : id !== null,
    problem: isOurs ? state.problem : null,
    isLive,
    isLoadingOlder,
    loadOlder,
    reload,
  };
}

/** Who has read far back wants to get further. */
function olderTurns({ turns }: Chat): number {
  return Math.min(MOST_TURNS, Math.max(FIRST_TURNS, turns.length));
}

async function keepUp(
  id: string,
  current: { current: Chat },
  become: (chat: Chat) => void,
  setLive: (isLive: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  become({
    ...open(
      await get<Transcript>(`/conversations/${id}/transcript`, {
        query: { turns: FIRST_TURNS },
        signal,
      }),
    ),
  });
  let failures = 0;
  let gap = 0;
  while (!signal.aborted) {
    try {
      const query = { after: current.current.last };
      const onOpen = () => setLive(true);
      for await (const told of stream(`/sessions/${id}/events`, { query, signal, onOpen })) {
        failures = 0;
        if (told.kind === "error") throw new TypeError("The stream ended early");
        const event = fromStream(told.kind, told.id, told.data);
        if (!event) continue;
        const next = taken(current.current, event, gap);
        if (next === null) {
          // Asked for again from where we are; if it is still missing then, it is for good.
          gap = event.number;
          break;
        }
        become(next);
      }
    } catch (error) {
      if (signal.aborted || wasAborted(error)) return;
      const problem = asProblem(error);
      if (FINAL.includes(problem.status)) throw problem;
    }
    failures += 1;
    if (failures > 1) setLive(false);
    await pause(Math.min(LONGEST_WAIT_MS, 150 * 2 ** Math.min(failures, 6)), signal);
  }
}

function taken(chat: Chat, event: ChatEvent, gap: number): Chat | null {
  const folded = fold(chat, event);
  if (folded.is !== "missing") return folded.chat;
  return gap === event.number ? foldAnyway(chat, event) : null;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
