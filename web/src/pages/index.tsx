/** Every page of the application, one entry each. A page is a chunk of its own, loaded when it is first shown.
 *
 * To add one: write `pages/<name>/index.tsx` with a default export that takes `PageProps`, and put it in `PAGES`.
 * With `nav` it is in the sidebar and in the command menu. The server knows its first path segment by
 * `CLIENT_ROUTES` in `src/crucible/server/pages.py`.
 */

import { type ComponentType, lazy } from "react";
import type { IconName } from "@/ui/icons";

export interface PageProps {
  params: Record<string, string>;
}

export interface Page {
  paths: string[];
  title: string;
  component: ComponentType<PageProps>;
  /** Who may see it; a signed-in user unless it says otherwise. */
  access?: "anybody" | "admin";
  nav?: { label: string; icon: IconName };
  /** Uses the whole width and scrolls by itself. */
  isWide?: boolean;
}

export const PAGES: Page[] = [
  {
    paths: ["/", "/c/:conversation"],
    title: "Chat",
    component: lazy(() => import("./chat")),
    nav: { label: "Chat", icon: "chat" },
    isWide: true,
  },
  {
    paths: ["/sandboxes/:name?/:tab?"],
    title: "Sandboxes",
    component: lazy(() => import("./sandboxes")),
    nav: { label: "Sandboxes", icon: "box" },
  },
  {
    paths: ["/runs/:id?"],
    title: "Runs",
    component: lazy(() => import("./runs")),
    nav: { label: "Runs", icon: "clock" },
  },
  {
    paths: ["/memory"],
    title: "Memory",
    component: lazy(() => import("./memory")),
    nav: { label: "Memory", icon: "memory" },
  },
  {
    paths: ["/settings/:section?"],
    title: "Settings",
    component: lazy(() => import("./settings")),
    nav: { label: "Settings", icon: "gear" },
  },
  {
    paths: ["/sign-in"],
    title: "Sign in",
    component: lazy(() => import("./entry/sign-in")),
    access: "anybody",
  },
  {
    paths: ["/sign-up"],
    title: "Sign up",
    component: lazy(() => import("./entry/sign-up")),
    access: "anybody",
  },
  {
    paths: ["/enter"],
    title: "Enter",
    component: lazy(() => import("./entry/enter")),
    access: "anybody",
  },
];
