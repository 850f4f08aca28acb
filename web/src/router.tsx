/** Addresses of the application: read from the history, changed without loading a page. */

import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

const MOVED = "crucible-moved";

export function navigate(to: string, how: "push" | "replace" = "push"): void {
  if (to === location.pathname + location.search + location.hash) return;
  if (how === "push") history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  window.dispatchEvent(new Event(MOVED));
}

export function usePath(): string {
  return useSyncExternalStore(listen, () => location.pathname);
}

export function useSearch(): URLSearchParams {
  return new URLSearchParams(useSyncExternalStore(listen, () => location.search));
}

/** Changes some of the address's query; an empty value takes its name out. */
export function setSearch(changes: Record<string, string>): void {
  const wanted = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) wanted.set(name, value);
    else wanted.delete(name);
  }
  const text = wanted.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), "replace");
}

/** An ordinary link that stays within the page. */
export function Link({
  href,
  onClick,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const isPlain =
      event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (event.defaultPrevented || !isPlain || rest.target) return;
    event.preventDefault();
    navigate(href);
  };
  return <a href={href} onClick={click} {...rest} />;
}

/** `/runs/:id?` against a path: the parameters, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (given.length > wanted.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const value = given[at];
    const isOptional = part.endsWith("?");
    if (value === undefined) {
      if (isOptional) continue;
      return null;
    }
    if (part.startsWith(":")) {
      const decoded = decode(value);
      if (decoded === null) return null;
      params[part.slice(1, isOptional ? -1 : undefined)] = decoded;
    } else if (part !== value) return null;
  }
  return params;
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function listen(changed: () => void): () => void {
  window.addEventListener("popstate", changed);
  window.addEventListener(MOVED, changed);
  return () => {
    window.removeEventListener("popstate", changed);
    window.removeEventListener(MOVED, changed);
  };
}
