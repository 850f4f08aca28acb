/** Which page is shown, and to whom. */

import { type ComponentType, Suspense, useEffect } from "react";
import { askWhoIAm, useSession } from "./api/session";
import { PAGES, type Page, type PageProps } from "./pages";
import { match, navigate, usePath } from "./router";
import { Layout } from "./shell/layout";
import { NotFound } from "./shell/not-found";
import { Mark } from "./ui/icons";
import { Boundary, ErrorState, Waiting } from "./ui/states";
import { Tips } from "./ui/tip";
import { Toasts } from "./ui/toast";

export function App() {
  return (
    <Tips delayDuration={350} skipDelayDuration={150}>
      <Shown />
      <Toasts />
    </Tips>
  );
}

function Shown() {
  const session = useSession();
  const path = usePath();
  const found = findPage(path);
  const isSignedIn = session.state === "known" && session.auth.signed_in;
  const mustSignIn = session.state === "known" && !isSignedIn && found?.page.access !== "anybody";

  useEffect(() => {
    document.title = found ? `${found.page.title} · Crucible` : "Crucible";
  }, [found]);
  useEffect(() => {
    if (!mustSignIn) return;
    const back = path === "/" ? "" : `?back=${encodeURIComponent(path)}`;
    navigate(`/sign-in${back}`, "replace");
  }, [mustSignIn, path]);

  if (session.state === "failed") {
    return (
      <main className="grid min-h-full place-items-center">
        <ErrorState problem={session.problem} retry={askWhoIAm} />
      </main>
    );
  }
  if (session.state === "asking" || mustSignIn) return <Opening />;
  if (!found) {
    return isSignedIn ? (
      <Layout>
        <NotFound />
      </Layout>
    ) : (
      <NotFound />
    );
  }
  const { page, params } = found;
  const body = (
    <Boundary resetKey={path}>
      <Suspense fallback={<Waiting />}>
        <page.component params={params} />
      </Suspense>
    </Boundary>
  );
  if (page.access === "anybody") return body;
  if (page.access === "admin" && session.auth.user?.role === "user") {
    return (
      <Layout>
        <NotFound />
      </Layout>
    );
  }
  return <Layout isWide={page.isWide ?? false}>{body}</Layout>;
}

function Opening() {
  return (
    <main className="grid min-h-full place-items-center" aria-busy="true">
      <div role="status" className="text-ink">
        <Mark className="size-10 animate-glow" />
        <span className="sr-only">Opening Crucible</span>
      </div>
    </main>
  );
}

function findPage(
  path: string,
): { page: Page & { component: ComponentType<PageProps> }; params: Record<string, string> } | null {
  for (const page of PAGES) {
    for (const pattern of page.paths) {
      const params = match(pattern, path);
      if (params) return { page, params };
    }
  }
  return null;
}
