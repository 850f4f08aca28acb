/** The conversations of this user: one list for the sidebar and the command menu. */

import { useEffect, useState, useSyncExternalStore } from "react";
import { get, patch, post, remove } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { toast, toastProblem } from "@/ui/toast";

export interface Conversation {
  id: string;
  title: string;
  pinned: boolean;
  created_at: number;
  updated_at: number;
  turns: number;
  state: "idle" | "busy" | "waiting" | "interrupted";
  model: string;
  snippet: string;
}

export interface ConversationPage {
  items: Conversation[];
  next: string | null;
}

interface Listed {
  items: Conversation[];
  next: string | null;
  query: string;
  isLoading: boolean;
  problem: Problem | null;
}

const PAGE = 40;
const UNKNOWN: Listed = { items: [], next: null, query: "", isLoading: true, problem: null };
let listed = UNKNOWN;
let asked = 0;
const listeners = new Set<() => void>();

export function useConversations(): Listed {
  return useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => listed,
  );
}

/** Whoever comes next sees nothing of it. */
export function forgetConversations(): void {
  asked += 1;
  become(UNKNOWN);
}

/** Asks anew from the beginning. An answer to an older question is dropped. */
export async function loadConversations(query = listed.query): Promise<void> {
  asked += 1;
  const mine = asked;
  if (query !== listed.query) become({ ...listed, query, isLoading: true });
  try {
    const page = await get<ConversationPage>("/conversations", {
      query: { q: query.trim(), limit: PAGE },
    });
    if (mine === asked)
      become({ items: page.items, next: page.next, query, isLoading: false, problem: null });
  } catch (error) {
    if (mine === asked) become({ ...listed, query, isLoading: false, problem: asProblem(error) });
  }
}

export async function loadMoreConversations(): Promise<void> {
  const { next, query, items } = listed;
  if (!next || listed.isLoading) return;
  asked += 1;
  const mine = asked;
  become({ ...listed, isLoading: true });
  try {
    const page = await get<ConversationPage>("/conversations", {
      query: { q: query.trim(), limit: PAGE, cursor: next },
    });
    if (mine !== asked) return;
    const known = new Set(items.map((one) => one.id));
    const more = page.items.filter((one) => !known.has(one.id));
    become({ ...listed, items: [...items, ...more], next: page.next, isLoading: false });
  } catch (error) {
    if (mine === asked) become({ ...listed, isLoading: false });
    toastProblem(error);
  }
}

export async function renameConversation(id: string, title: string): Promise<void> {
  await patch(`/conversations/${id}`, { title });
  await loadConversations();
}

export async function pinConversation(id: string, pinned: boolean): Promise<void> {
  await patch(`/conversations/${id}`, { pinned });
  await loadConversations();
}

/** Gone from the list at once, and back by a word for as long as the server keeps it. */
export async function deleteConversation(one: Conversation): Promise<void> {
  become({ ...listed, items: listed.items.filter((other) => other.id !== one.id) });
  try {
    await remove(`/conversations/${one.id}`);
  } catch (error) {
    await loadConversations();
    throw error;
  }
  toast(`“${one.title || "Untitled"}” is deleted`, async () => {
    await post(`/conversations/${one.id}/restore`);
    await loadConversations();
  });
}

/** What the command menu finds; nothing while little is typed. */
export function useFoundConversations(query: string): Conversation[] {
  const [found, setFound] = useState<Conversation[]>([]);
  useEffect(() => {
    const q = query.trim();
    if (q.length < 2) {
      setFound([]);
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<ConversationPage>("/conversations", { query: { q, limit: 8 }, signal: stop.signal })
        .then((page) => setFound(page.items))
        .catch(() => {});
    }, 150);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [query]);
  return found;
}

function become(next: Listed): void {
  listed = next;
  for (const changed of listeners) changed();
}
