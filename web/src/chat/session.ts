/** The session behind a conversation: its sandbox, its model, what it used and what is left of its context. */

import { get } from "@/api/client";
import { type Loaded, useLoad } from "@/api/load";
import type { components } from "@/api/schema";

export type SessionFacts = components["schemas"]["SessionTold"];
export type ContextUsage = components["schemas"]["ContextTold"];

/** Asked again with each change of `moment`: a turn began, ended, or found its sandbox. */
export function useSessionFacts(id: string | null, moment: string): Loaded<SessionFacts> {
  const key = id ? `${id} ${moment}` : null;
  return useLoad(key, (signal) => get<SessionFacts>(`/sessions/${id}`, { signal }));
}

export function useContextUsage(id: string | null, moment: string): Loaded<ContextUsage> {
  const key = id ? `${id} ${moment}` : null;
  return useLoad(key, (signal) => get<ContextUsage>(`/sessions/${id}/context`, { signal }));
}

/** Of the user's settings, what a chat begins with. */
export type ChatSettings = Pick<components["schemas"]["SettingsTold"], "models" | "policy">;

export function useChatSettings(): ChatSettings | undefined {
  return useLoad("settings", (signal) => get<ChatSettings>("/settings", { signal })).data;
}

/** What answers where nobody names a model. */
export function usualModel(settings: ChatSettings | undefined): string {
  return settings?.models.used.agent ?? "";
}

export function isEmbedded(model: string | null | undefined): boolean {
  return (model ?? "").startsWith("embedded");
}

export function shortModel(model: string): string {
  return model.slice(model.indexOf(":") + 1);
}
