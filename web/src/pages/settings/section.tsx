import type { ReactNode } from "react";

export function Section({
  title,
  about,
  children,
}: {
  title: string;
  about?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section aria-label={title} className="mb-8 flex max-w-3xl flex-col gap-4">
      <header>
        <h2 className="font-semibold">{title}</h2>
        {about && <p className="mt-1 text-muted text-sm">{about}</p>}
      </header>
      {children}
    </section>
  );
}
