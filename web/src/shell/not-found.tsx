import { Link } from "@/router";
import { EmptyState } from "@/ui/states";

export function NotFound() {
  return (
    <main>
      <EmptyState
        icon="search"
        title="There is no such page"
        action={
          <Link href="/" className="text-accent text-sm underline underline-offset-2">
            Go to the chat
          </Link>
        }
      >
        The address may be mistyped, or the thing it named is gone.
      </EmptyState>
    </main>
  );
}
