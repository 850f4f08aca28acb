/** Who is at the browser: asked once, and again after each way in or out. */

import { useSyncExternalStore } from "react";
import { get, onSignedOut, post, setCsrf } from "./client";
import { asProblem, type Problem } from "./problem";

export interface User {
  id: string;
  name: string;
  role: "admin" | "user";
  plan: string;
}

export interface Auth {
  mode: "local" | "accounts" | "open";
  signed_in: boolean;
  user: User | null;
  signup: boolean;
  /** Whether signing up takes the code of the link that the server prints. */
  needs_code: boolean;
  oidc: { id: string; label: string }[];
  csrf: string | null;
}

export type Session =
  | { state: "asking" }
  | { state: "failed"; problem: Problem }
  | { state: "known"; auth: Auth };

let session: Session = { state: "asking" };
const listeners = new Set<() => void>();

export function useSession(): Session {
  return useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => session,
  );
}

export function useUser(): User | null {
  const known = useSession();
  return known.state === "known" ? known.auth.user : null;
}

export async function askWhoIAm(): Promise<void> {
  try {
    become({ state: "known", auth: await get<Auth>("/auth") });
  } catch (error) {
    become({ state: "failed", problem: asProblem(error) });
  }
}

export async function signOut(): Promise<void> {
  await post("/auth/sign-out");
  await askWhoIAm();
}

onSignedOut(() => {
  if (session.state !== "known" || !session.auth.signed_in) return;
  become({ state: "known", auth: { ...session.auth, signed_in: false, user: null } });
});

function become(next: Session): void {
  session = next;
  if (next.state === "known") setCsrf(next.auth.csrf);
  for (const changed of listeners) changed();
}
