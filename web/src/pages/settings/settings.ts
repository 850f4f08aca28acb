import { createContext, useContext } from "react";
import { patch } from "@/api/client";
import type { components } from "@/api/schema";
import { toast, toastProblem } from "@/ui/toast";

export type Settings = components["schemas"]["SettingsTold"];
export type Changes = components["schemas"]["SettingsChanges"];
export type McpServer = components["schemas"]["ServerTold"];
export type McpTool = components["schemas"]["ServerTool"];
export type AccountList = components["schemas"]["UserList"];
export type Account = components["schemas"]["UserFacts"];

export interface Given {
  settings: Settings;
  reload: () => void;
  /** Keeps it and tells so. Resolves to whether it was kept; why not is told, too. */
  change: (changes: Partial<Changes>) => Promise<boolean>;
}

export const GivenSettings = createContext<Given | null>(null);

export function useGiven(): Given {
  const given = useContext(GivenSettings);
  if (!given) throw new Error("There are no settings here");
  return given;
}

export async function keep(
  changes: Partial<Changes>,
  told: (settings: Settings) => void,
): Promise<boolean> {
  try {
    told(await patch<Settings>("/settings", changes));
    toast("Kept");
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

/** One rule a line; empty lines and doubles are none. */
export function linesOf(text: string): string[] {
  return [...new Set(text.split("\n").map((line) => line.trim()))].filter(Boolean);
}

/** A limit as it is typed: null without one, undefined if it is no number. */
export function limitOf(text: string): number | null | undefined {
  if (!text.trim()) return null;
  const value = Number(text.trim());
  return Number.isFinite(value) && value >= 0 ? value : undefined;
}
