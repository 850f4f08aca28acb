import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "crucible-theme";
const listeners = new Set<() => void>();

export function useTheme(): Theme {
  return useSyncExternalStore((changed) => {
    listeners.add(changed);
    return () => listeners.delete(changed);
  }, theme);
}

export function theme(): Theme {
  const set = document.documentElement.dataset.theme;
  return set === "light" || set === "dark" ? set : "system";
}

export function setTheme(wanted: Theme): void {
  const root = document.documentElement;
  if (wanted === "system") delete root.dataset.theme;
  else root.dataset.theme = wanted;
  try {
    if (wanted === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
  } catch {
    // A browser that keeps nothing still shows it until the page is left.
  }
  for (const changed of listeners) changed();
}

export function isDark(): boolean {
  const set = theme();
  return set === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : set === "dark";
}
