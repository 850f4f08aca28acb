/** The conversations of this user: one list for the sidebar and the command menu. */

import { useEffect, useState } from "react";
import { get } from "@/api/client";

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
  next_cursor: string | null;
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
