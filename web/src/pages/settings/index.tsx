/** What holds for this user's new conversations, and, for the administrator, who may use this server. */

import type { ReactNode } from "react";
import { get } from "@/api/client";
import { useLoad } from "@/api/load";
import { useSession } from "@/api/session";
import { Link } from "@/router";
import { PageHeader } from "@/shell/layout";
import { ErrorState, Waiting } from "@/ui/states";
import type { PageProps } from "..";
import { Appearance } from "./appearance";
import { Budgets } from "./budgets";
import { Egress } from "./egress";
import { McpServers } from "./mcp-servers";
import { Models } from "./models";
import { Password } from "./password";
import { Policy } from "./policy";
import { Provider } from "./provider";
import { GivenSettings, keep, type Settings } from "./settings";
import { Skills } from "./skills";
import { Users } from "./users";

interface Section {
  id: string;
  label: string;
  content: ReactNode;
}

export default function SettingsPage({ params }: PageProps) {
  const session = useSession();
  const settings = useLoad("settings", (signal) => get<Settings>("/settings", { signal }));
  const auth = session.state === "known" ? session.auth : null;
  const sections: Section[] = [
    { id: "provider", label: "Where code runs", content: <Provider /> },
    { id: "models", label: "Models and keys", content: <Models /> },
    { id: "budgets", label: "Budgets and plan", content: <Budgets /> },
    { id: "egress", label: "Network", content: <Egress /> },
    { id: "policy", label: "Permissions", content: <Policy /> },
    { id: "skills", label: "Skills", content: <Skills /> },
    { id: "mcp", label: "MCP servers", content: <McpServers /> },
    { id: "appearance", label: "Appearance", content: <Appearance /> },
  ];
  if (auth?.mode === "accounts") {
    sections.push({ id: "password", label: "Password", content: <Password /> });
    if (auth.user?.role === "admin") {
      sections.push({ id: "users", label: "Users and plans", content: <Users /> });
    }
  }
  const here = sections.find((one) => one.id === params.section) ?? sections[0];
  return (
    <>
      <PageHeader
        title="Settings"
        about="They hold for conversations that you begin from now on. What a conversation says itself goes before."
      />
      <div className="flex flex-col gap-6 md:flex-row">
        <nav aria-label="Settings" className="flex shrink-0 flex-wrap gap-1 md:w-48 md:flex-col">
          {sections.map((one) => (
            <Link
              key={one.id}
              href={`/settings/${one.id}`}
              aria-current={one === here ? "page" : undefined}
              className={`rounded-md px-2.5 py-1.5 text-sm ${one === here ? "bg-sunken font-medium text-ink" : "text-muted hover:bg-sunken hover:text-ink"}`}
            >
              {one.label}
            </Link>
          ))}
        </nav>
        <div className="min-w-0 flex-1">
          {settings.isLoading && <Waiting />}
          {settings.problem && !settings.data && (
            <ErrorState problem={settings.problem} retry={settings.reload} />
          )}
          {settings.data && here && (
            <GivenSettings.Provider
              value={{
                settings: settings.data,
                reload: settings.reload,
                change: (changes) => keep(changes, (told) => settings.set(() => told)),
              }}
            >
              {here.content}
            </GivenSettings.Provider>
          )}
        </div>
      </div>
    </>
  );
}
