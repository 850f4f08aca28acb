/** Above a conversation: its title, its sandbox, what it used, and what can be done with the whole of it. */

import { useState } from "react";
import { API } from "@/api/client";
import { IsolationBadge } from "@/ui/badge";
import { Button, IconButton } from "@/ui/button";
import { count, usd } from "@/ui/format";
import { Menu, MenuItem, MenuLine } from "@/ui/menu";
import { Tip } from "@/ui/tip";
import { Changes } from "./changes";
import { ExportItems } from "./conversations";
import type { ContextUsage, SessionFacts } from "./session";

export function ChatHeader({
  id,
  title,
  facts,
  context,
  hasArtifacts,
}: {
  id: string;
  title: string;
  facts: SessionFacts | undefined;
  context: ContextUsage | undefined;
  hasArtifacts: boolean;
}) {
  const [isShowingChanges, setShowingChanges] = useState(false);
  const place = facts?.place ?? null;
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b px-4">
      <h1 className="min-w-0 flex-1 truncate font-medium text-sm">{title || "Conversation"}</h1>
      {place && (
        <span className="max-sm:hidden">
          <IsolationBadge isolation={place.isolation} backend={place.backend} />
        </span>
      )}
      {context && context.limit_tokens > 0 && <ContextRing context={context} />}
      {facts && facts.cost_usd > 0 && (
        <span
          className="text-muted text-xs tabular-nums"
          title={
            facts.is_cost_whole ? "Cost so far" : "Cost so far, without what has no known price"
          }
        >
          {usd(facts.cost_usd)}
        </span>
      )}
      {place && (
        <Button look="quiet" size="s" icon="diff" onClick={() => setShowingChanges(true)}>
          <span className="max-sm:sr-only">Changes</span>
        </Button>
      )}
      <Menu trigger={<IconButton label="More for this conversation" icon="more" />}>
        {hasArtifacts && (
          <MenuItem
            icon="download"
            onSelect={() => location.assign(`${API}/conversations/${id}/artifacts.zip`)}
          >
            All files as a zip
          </MenuItem>
        )}
        {hasArtifacts && <MenuLine />}
        <ExportItems id={id} />
      </Menu>
      {isShowingChanges && place && (
        <Changes conversation={id} sandbox={place.name} onClose={() => setShowingChanges(false)} />
      )}
    </header>
  );
}

function ContextRing({ context }: { context: ContextUsage }) {
  const share = Math.min(1, context.used_tokens / context.limit_tokens);
  const words = `${count(context.used_tokens)} of ${count(context.limit_tokens)} tokens of context are used; at ${count(context.compacts_at)} older messages are put together`;
  const percent = Math.round(share * 100);
  const around = 2 * Math.PI * 6;
  return (
    <Tip text={words}>
      <button
        type="button"
        aria-label={`${percent} %: ${words}`}
        className="flex items-center gap-1.5 rounded px-1 text-muted text-xs tabular-nums"
      >
        <svg viewBox="0 0 16 16" className="-rotate-90 size-4" aria-hidden="true">
          <circle cx="8" cy="8" r="6" fill="none" stroke="var(--line-strong)" strokeWidth="2.5" />
          <circle
            cx="8"
            cy="8"
            r="6"
            fill="none"
            stroke={share > 0.8 ? "var(--warn)" : "var(--accent)"}
            strokeWidth="2.5"
            strokeDasharray={`${share * around} ${around}`}
          />
        </svg>
        {percent} %
      </button>
    </Tip>
  );
}
