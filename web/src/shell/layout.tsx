/** What stands around every page: the sidebar, which a phone shows on demand, and the command menu. */

import { type ReactNode, useEffect, useState } from "react";
import { usePath } from "@/router";
import { IconButton } from "@/ui/button";
import { Mark } from "@/ui/icons";
import { CommandMenu } from "./command-menu";
import { Sidebar } from "./sidebar";

export function Layout({ children, isWide = false }: { children: ReactNode; isWide?: boolean }) {
  const path = usePath();
  const [isOpen, setOpen] = useState(false);
  const [isAsking, setAsking] = useState(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: on a phone, arriving closes the sidebar
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setAsking((asking) => !asking);
      } else if (event.key === "Escape") setOpen(false);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  return (
    <div className="flex h-full">
      <a
        href="#main"
        className="-translate-y-20 fixed top-2 left-2 z-50 rounded bg-accent px-3 py-1.5 text-on-accent text-sm focus:translate-y-0"
      >
        Skip to the page
      </a>
      {isOpen && (
        <button
          type="button"
          aria-label="Close the sidebar"
          className="animate-fade fixed inset-0 z-20 bg-black/40 md:hidden"
          onClick={() => setOpen(false)}
        />
      )}
      <aside
        id="sidebar"
        aria-label="Sidebar"
        className={`fixed inset-y-0 left-0 z-30 w-72 border-r bg-canvas transition-transform md:visible md:static md:w-64 md:translate-x-0 ${isOpen ? "" : "-translate-x-full invisible"}`}
      >
        <Sidebar onSearch={() => setAsking(true)} />
      </aside>
      <div className="flex min-w-0 flex-1 flex-col">
        <div className="flex h-12 shrink-0 items-center gap-2 border-b px-2 md:hidden">
          <IconButton
            label="Open the sidebar"
            icon="menu"
            size="m"
            aria-expanded={isOpen}
            aria-controls="sidebar"
            onClick={() => setOpen(true)}
          />
          <Mark className="size-5" />
          <span className="font-semibold tracking-tight">Crucible</span>
        </div>
        <main id="main" tabIndex={-1} className="min-h-0 flex-1 outline-none">
          {isWide ? (
            children
          ) : (
            <div className="h-full overflow-auto">
              <div className="mx-auto max-w-6xl px-4 py-6 md:px-8">{children}</div>
            </div>
          )}
        </main>
      </div>
      <CommandMenu isOpen={isAsking} onClose={() => setAsking(false)} />
    </div>
  );
}

/** The head of an ordinary page. */
export function PageHeader({
  title,
  about,
  actions,
}: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <header className="mb-6 flex flex-wrap items-start gap-x-4 gap-y-3">
      <div className="min-w-0 flex-1">
        <h1 className="font-semibold text-xl tracking-tight">{title}</h1>
        {about && <p className="mt-1 max-w-2xl text-muted text-sm">{about}</p>}
      </div>
      {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
    </header>
  );
}
