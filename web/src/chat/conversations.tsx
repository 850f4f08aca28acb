/** The sidebar's conversations: found, opened, named, pinned, thrown away and had back, taken along. */

import { type FormEvent, useEffect, useState } from "react";
import { API } from "@/api/client";
import { Link, match, navigate, usePath } from "@/router";
import { Button, IconButton } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Field } from "@/ui/field";
import { Icon, Spinner } from "@/ui/icons";
import { Menu, MenuItem, MenuLine } from "@/ui/menu";
import { toastProblem } from "@/ui/toast";
import {
  type Conversation,
  deleteConversation,
  forgetConversations,
  loadConversations,
  loadMoreConversations,
  pinConversation,
  renameConversation,
  useConversations,
} from "./list";

const LOOK_AGAIN_MS = 15_000;

export function Conversations() {
  const listed = useConversations();
  const [query, setQuery] = useState("");
  const [renamed, setRenamed] = useState<Conversation | null>(null);
  const here = match("/c/:id", usePath())?.id;

  useEffect(() => {
    const timer = setTimeout(() => void loadConversations(query), query ? 200 : 0);
    return () => clearTimeout(timer);
  }, [query]);
  useEffect(() => forgetConversations, []);
  useEffect(() => {
    const look = () => document.visibilityState === "visible" && void loadConversations();
    const timer = setInterval(look, LOOK_AGAIN_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);

  const pinned = listed.items.filter((one) => one.pinned);
  const others = listed.items.filter((one) => !one.pinned);
  return (
    <section aria-label="Conversations" className="flex min-h-full flex-col">
      <div className="sticky top-0 z-10 bg-canvas px-2 pt-2 pb-1">
        <label className="relative block">
          <span className="sr-only">Search conversations</span>
          <Icon
            name="search"
            className="-translate-y-1/2 pointer-events-none absolute top-1/2 left-2 size-3.5 text-faint"
          />
          <input
            type="search"
            value={query}
            onChange={(event) => setQuery(event.target.value)}
            placeholder="Search conversations"
            maxLength={200}
            className="h-8 w-full rounded-md border bg-surface pr-2 pl-7 text-sm"
          />
        </label>
      </div>
      {listed.problem && (
        <p role="alert" className="px-4 py-3 text-bad text-xs">
          {listed.problem.message}
        </p>
      )}
      {!listed.isLoading && !listed.problem && listed.items.length === 0 && (
        <p className="px-4 py-6 text-center text-faint text-xs">
          {query ? "Nothing was said that fits" : "Your conversations will be here"}
        </p>
      )}
      <Rows label="Pinned" items={pinned} here={here} onRename={setRenamed} />
      <Rows
        label={pinned.length ? "Recent" : ""}
        items={others}
        here={here}
        onRename={setRenamed}
      />
      {listed.next && (
        <Button
          look="quiet"
          size="s"
          className="mx-2 my-1"
          onClick={() => void loadMoreConversations()}
        >
          Show more
        </Button>
      )}
      {renamed && <Rename conversation={renamed} onClose={() => setRenamed(null)} />}
    </section>
  );
}

function Rows({
  label,
  items,
  here,
  onRename,
}: {
  label: string;
  items: Conversation[];
  here: string | undefined;
  onRename: (one: Conversation) => void;
}) {
  if (!items.length) return null;
  return (
    <>
      {label && <h2 className="px-4 pt-2 pb-1 font-medium text-faint text-xs">{label}</h2>}
      <ul className="flex flex-col gap-px px-2 pb-2">
        {items.map((one) => (
          <Row key={one.id} one={one} isHere={one.id === here} onRename={() => onRename(one)} />
        ))}
      </ul>
    </>
  );
}

function Row({
  one,
  isHere,
  onRename,
}: {
  one: Conversation;
  isHere: boolean;
  onRename: () => void;
}) {
  const title = one.title || "Untitled";
  const drop = () => {
    if (isHere) navigate("/");
    deleteConversation(one).catch(toastProblem);
  };
  return (
    <li
      className={`group relative flex items-center rounded-md hover:bg-hover ${isHere ? "bg-hover" : ""}`}
    >
      <Link
        href={`/c/${one.id}`}
        aria-current={isHere ? "page" : undefined}
        className="min-w-0 flex-1 rounded-md px-2 py-1.5 group-hover:pr-9 max-md:pr-9"
      >
        <span className={`flex items-center gap-1.5 text-sm ${isHere ? "font-medium" : ""}`}>
          <State state={one.state} />
          <span className="truncate">{title}</span>
        </span>
        {one.snippet && <span className="block truncate text-faint text-xs">{one.snippet}</span>}
      </Link>
      <Menu
        trigger={
          <IconButton
            label={`More for ${title}`}
            icon="more"
            className="absolute top-1 right-1 opacity-0 focus-visible:opacity-100 group-hover:opacity-100 data-[state=open]:opacity-100 max-md:opacity-100"
          />
        }
      >
        <MenuItem icon="pencil" onSelect={onRename}>
          Rename
        </MenuItem>
        <MenuItem
          icon="pin"
          onSelect={() => pinConversation(one.id, !one.pinned).catch(toastProblem)}
        >
          {one.pinned ? "Unpin" : "Pin"}
        </MenuItem>
        <MenuLine />
        <ExportItems id={one.id} />
        <MenuLine />
        <MenuItem icon="trash" isDanger onSelect={drop}>
          Delete
        </MenuItem>
      </Menu>
    </li>
  );
}

export function ExportItems({ id }: { id: string }) {
  const take = (format: string) => {
    location.assign(`${API}/conversations/${id}/export?format=${format}`);
  };
  return (
    <>
      <MenuItem icon="download" onSelect={() => take("markdown")}>
        Export as Markdown
      </MenuItem>
      <MenuItem icon="download" onSelect={() => take("json")}>
        Export as JSON
      </MenuItem>
    </>
  );
}

function State({ state }: { state: Conversation["state"] }) {
  if (state === "busy") {
    return (
      <span title="At work" className="text-accent">
        <Spinner className="size-3" />
        <span className="sr-only">At work: </span>
      </span>
    );
  }
  if (state === "waiting" || state === "interrupted") {
    const words = state === "waiting" ? "Waits for you" : "Was cut short";
    return (
      <span title={words} className="size-2 shrink-0 rounded-full bg-warn">
        <span className="sr-only">{words}: </span>
      </span>
    );
  }
  return null;
}

function Rename({ conversation, onClose }: { conversation: Conversation; onClose: () => void }) {
  const [title, setTitle] = useState(conversation.title);
  const [isBusy, setBusy] = useState(false);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await renameConversation(conversation.id, title.trim());
      onClose();
    } catch (error) {
      toastProblem(error);
      setBusy(false);
    }
  };
  return (
    <Dialog isOpen onClose={onClose} title="Rename the conversation">
      <form onSubmit={save} className="flex flex-col gap-4">
        <Field
          label="Title"
          value={title}
          autoFocus
          maxLength={200}
          onChange={(event) => setTitle(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy} disabled={!title.trim()}>
            Rename
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
