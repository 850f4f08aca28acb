import { signOut, useSession } from "@/api/session";
import { Conversations } from "@/chat/conversations";
import { PAGES } from "@/pages";
import { Link, match, usePath } from "@/router";
import { setTheme, type Theme, useTheme } from "@/theme";
import { Icon, Mark } from "@/ui/icons";
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from "@/ui/menu";
import { toastProblem } from "@/ui/toast";

const THEMES: { value: Theme; label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

const isMac = typeof navigator !== "undefined" && /mac/i.test(navigator.platform);

export function Sidebar({ onSearch }: { onSearch: () => void }) {
  const path = usePath();
  const session = useSession();
  const role = session.state === "known" ? session.auth.user?.role : undefined;
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-14 items-center gap-2 px-4">
        <Link href="/" className="flex items-center gap-2 rounded" aria-label="Crucible, home">
          <Mark className="size-6" />
          <span className="font-semibold text-[1.05rem] tracking-tight">Crucible</span>
        </Link>
      </div>
      <nav aria-label="Pages" className="flex flex-col gap-px px-2">
        <Link
          href="/"
          className="flex items-center gap-2.5 rounded-md px-2 py-1.5 font-medium text-sm hover:bg-hover"
        >
          <Icon name="plus" className="size-4 text-accent" /> New chat
        </Link>
        <button
          type="button"
          onClick={onSearch}
          className="flex items-center gap-2.5 rounded-md px-2 py-1.5 text-left text-muted text-sm hover:bg-hover hover:text-ink"
        >
          <Icon name="search" /> <span className="flex-1">Search and go to</span>
          <kbd className="rounded border px-1 font-sans text-2xs text-faint max-md:hidden">
            {isMac ? "⌘" : "Ctrl"} K
          </kbd>
        </button>
        {PAGES.filter((page) => page.nav && page.paths[0] !== "/").map((page) => {
          if (!page.nav || (page.access === "admin" && role === "user")) return null;
          const isHere = page.paths.some((pattern) => match(pattern, path));
          return (
            <Link
              key={page.title}
              href={page.paths[0]?.replace(/\/:.*$/, "") ?? "/"}
              aria-current={isHere ? "page" : undefined}
              className={`flex items-center gap-2.5 rounded-md px-2 py-1.5 text-sm hover:bg-hover ${isHere ? "bg-hover font-medium text-ink" : "text-muted hover:text-ink"}`}
            >
              <Icon name={page.nav.icon} /> {page.nav.label}
            </Link>
          );
        })}
      </nav>
      <div className="mt-2 min-h-0 flex-1 overflow-y-auto border-t">
        <Conversations />
      </div>
      <Account />
    </div>
  );
}

function Account() {
  const session = useSession();
  const theme = useTheme();
  if (session.state !== "known") return null;
  const { auth } = session;
  const name = auth.mode === "accounts" ? (auth.user?.name ?? "") : "This machine";
  const about =
    auth.mode === "accounts"
      ? [auth.user?.role === "admin" ? "Administrator" : "", auth.user?.plan]
          .filter(Boolean)
          .join(" · ")
      : auth.mode === "open"
        ? "No sign-in needed"
        : "Single user";
  return (
    <div className="border-t p-2">
      <Menu
        align="start"
        trigger={
          <button
            type="button"
            className="flex w-full items-center gap-2.5 rounded-md px-2 py-1.5 text-left hover:bg-hover data-[state=open]:bg-hover"
          >
            <span className="grid size-7 place-items-center rounded-full bg-accent-soft text-accent">
              <Icon name="user" />
            </span>
            <span className="min-w-0 flex-1">
              <span className="block truncate text-sm">{name}</span>
              <span className="block truncate text-faint text-xs">{about}</span>
              <span className="sr-only">Account and appearance</span>
            </span>
            <Icon name="more" className="size-4 text-faint" />
          </button>
        }
      >
        <MenuLabel>Appearance</MenuLabel>
        <MenuChoice value={theme} onChange={setTheme} choices={THEMES} />
        {auth.mode !== "open" && (
          <>
            <MenuLine />
            <MenuItem icon="leave" onSelect={() => signOut().catch(toastProblem)}>
              Sign out
            </MenuItem>
          </>
        )}
      </Menu>
    </div>
  );
}
