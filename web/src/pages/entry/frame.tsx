import type { FormEvent, ReactNode } from "react";
import { navigate, useSearch } from "@/router";
import { Mark } from "@/ui/icons";

/** The card that stands alone before one is in. */
export function EntryFrame({
  title,
  about,
  children,
}: {
  title: string;
  about?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <main className="grid min-h-full place-items-center px-4 py-10">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex items-center justify-center gap-2.5">
          <Mark className="size-8" />
          <span className="font-semibold text-xl tracking-tight">Crucible</span>
        </div>
        <section className="rounded-xl border bg-surface p-6 shadow-pop">
          <h1 className="font-semibold text-lg">{title}</h1>
          {about && <div className="mt-1 text-muted text-sm">{about}</div>}
          <div className="mt-5 flex flex-col gap-4">{children}</div>
        </section>
      </div>
    </main>
  );
}

/** Where to go once one is in: where one wanted to, if that is a page of ours. */
export function useWayBack(): () => void {
  const back = useSearch().get("back") ?? "/";
  return () => navigate(/^\/(?![/\\])/.test(back) ? back : "/", "replace");
}

export function onSubmit(act: (fields: FormData) => void) {
  return (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    act(new FormData(event.currentTarget));
  };
}
