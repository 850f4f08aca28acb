import { get } from "@/api/client";
import { useLoad } from "@/api/load";
import { Link } from "@/router";
import { moment } from "@/ui/format";
import { EmptyState, ErrorState, Waiting } from "@/ui/states";
import type { SummaryPage } from "./facts";

export function Summaries() {
  const summaries = useLoad("summaries", (signal) =>
    get<SummaryPage>("/memory/summaries", { signal }),
  );
  if (summaries.isLoading) return <Waiting />;
  if (!summaries.data) {
    return summaries.problem ? (
      <ErrorState problem={summaries.problem} retry={summaries.reload} />
    ) : null;
  }
  if (summaries.data.items.length === 0) {
    return (
      <EmptyState icon="memory" title="No conversation was summed up yet">
        When a conversation comes near to what its model can take in, its older part is replaced by
        a summary. What you pinned is kept word for word.
      </EmptyState>
    );
  }
  return (
    <ul className="flex flex-col gap-3 py-4" aria-label="Summaries">
      {summaries.data.items.map((one) => (
        <li key={one.session} className="rounded-lg border bg-surface px-4 py-3">
          <p className="whitespace-pre-wrap break-words text-sm">{one.text}</p>
          <p className="mt-2 text-muted text-xs">
            Stands for the first {one.covers} messages of{" "}
            <Link href={`/c/${one.session}`} className="underline hover:text-ink">
              this conversation
            </Link>
            , made {moment(one.made_at)}
          </p>
        </li>
      ))}
    </ul>
  );
}
