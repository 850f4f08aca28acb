/** Everything by its name: pages, appearance, conversations. Ctrl or ⌘ with K. */

import * as Radix from "@radix-ui/react-dialog";
import { type KeyboardEvent, useEffect, useId, useMemo, useState } from "react";
import { useSession } from "@/api/session";
import { useFoundConversations } from "@/chat/list";
import { PAGES } from "@/pages";
import { navigate } from "@/router";
import { setTheme } from "@/theme";
import { Icon, type IconName } from "@/ui/icons";

interface Command {
  id: string;
  label: string;
  about?: string;
  icon: IconName;
  run: () => void;
}

export function CommandMenu({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="animate-fade fixed inset-0 z-40 bg-black/45" />
        <Radix.Content
          aria-describedby={undefined}
          className="animate-rise fixed inset-x-3 top-[12vh] z-40 mx-auto max-w-xl overflow-hidden rounded-xl border bg-raised shadow-pop"
        >
          <Radix.Title className="sr-only">Search and go to</Radix.Title>
          <Search onClose={onClose} />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function Search({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const commands = useCommands(query);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new question begins at its first answer
  useEffect(() => setAt(0), [query]);

  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && commands.length) {
      event.preventDefault();
      setAt((at + step + commands.length) % commands.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(commands[at]);
    }
  };

  return (
    <>
      <div className="flex items-center gap-3 border-b px-4">
        <Icon name="search" className="size-4 text-faint" />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={commands[at] ? `${id}-${at}` : undefined}
          aria-label="Search pages and conversations"
          placeholder="Search pages and conversations"
          className="h-12 flex-1 bg-transparent outline-none focus-visible:outline-none"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
          onKeyDown={press}
        />
        <kbd className="rounded border px-1.5 text-2xs text-faint">Esc</kbd>
      </div>
      <div id={id} role="listbox" aria-label="Results" className="max-h-[50vh] overflow-auto p-1.5">
        {commands.length === 0 && (
          <p className="px-3 py-6 text-center text-muted text-sm">Nothing found</p>
        )}
        {commands.map((command, place) => (
          // biome-ignore lint/a11y/useFocusableInteractive: the input keeps the focus and names the active option
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input hears the keys
          <div
            key={command.id}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === at}
            ref={(element) => {
              if (place === at) element?.scrollIntoView({ block: "nearest" });
            }}
            onMouseMove={() => setAt(place)}
            onClick={() => run(command)}
            className={`flex cursor-default items-center gap-3 rounded-md px-3 py-2 text-sm ${place === at ? "bg-hover" : ""}`}
          >
            <Icon name={command.icon} className="size-4 text-muted" />
            <span className="min-w-0 flex-1 truncate">{command.label}</span>
            {command.about && <span className="truncate text-faint text-xs">{command.about}</span>}
          </div>
        ))}
      </div>
    </>
  );
}

function useCommands(query: string): Command[] {
  const session = useSession();
  const role = session.state === "known" ? session.auth.user?.role : undefined;
  const found = useFoundConversations(query);
  return useMemo(() => {
    const fixed: Command[] = [
      { id: "new", label: "New chat", icon: "plus", run: () => navigate("/") },
      ...PAGES.filter((page) => page.nav && page.paths[0] !== "/")
        .filter((page) => page.access !== "admin" || role !== "user")
        .map((page) => ({
          id: page.title,
          label: page.nav?.label ?? page.title,
          about: "Page",
          icon: page.nav?.icon ?? ("file" as const),
          run: () => navigate(page.paths[0]?.replace(/\/:.*$/, "") ?? "/"),
        })),
      { id: "light", label: "Light appearance", icon: "sun", run: () => setTheme("light") },
      { id: "dark", label: "Dark appearance", icon: "moon", run: () => setTheme("dark") },
      {
        id: "system",
        label: "Appearance as the system",
        icon: "screen",
        run: () => setTheme("system"),
      },
    ];
    const wanted = query.trim().toLowerCase();
    const matching = fixed.filter((command) => command.label.toLowerCase().includes(wanted));
    const conversations = found.map((one) => ({
      id: `c-${one.id}`,
      label: one.title || "Untitled",
      about: "Conversation",
      icon: "chat" as const,
      run: () => navigate(`/c/${one.id}`),
    }));
    return [...matching, ...conversations];
  }, [query, role, found]);
}
