import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Problem, wasAborted } from "./problem";

export interface Loaded<T> {
  data: T | undefined;
  problem: Problem | null;
  /** True until the first answer; not while it is asked for again. */
  isLoading: boolean;
  reload: () => void;
  /** Shows this at once, until the server's own word is there. */
  set: (change: (data: T | undefined) => T | undefined) => void;
}

/** Asks when `key` changes, and every `everyMs` while the page is seen. What comes too late is dropped. */
export function useLoad<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<T>,
  everyMs = 0,
): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; problem: Problem | null }>({
    key,
    problem: null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new round asks again for the same key
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    latest
      .current(stop.signal)
      .then((data) => setState({ key, data, problem: null }))
      .catch((error: unknown) => {
        if (stop.signal.aborted || wasAborted(error)) return;
        const problem = asProblem(error);
        setState((old) =>
          old.key === key && old.data !== undefined
            ? { key, data: old.data, problem }
            : { key, problem },
        );
      });
    return () => stop.abort();
  }, [key, round]);

  const reload = useCallback(() => setRound((round) => round + 1), []);

  useEffect(() => {
    if (!everyMs || key === null) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, key, reload]);

  const set = useCallback((change: (data: T | undefined) => T | undefined) => {
    setState((old) => {
      const data = change(old.data);
      return data === undefined ? { key: old.key, problem: null } : { ...old, data };
    });
  }, []);

  const isOurs = state.key === key;
  const data = isOurs ? state.data : undefined;
  const problem = isOurs ? state.problem : null;
  return { data, problem, isLoading: key !== null && data === undefined && !problem, reload, set };
}
