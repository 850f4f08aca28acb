import {
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { get, patch, post } from "@/api/client";
import { useLoad } from "@/api/load";
import { useUser } from "@/api/session";
import { artifactAddress } from "@/chat/artifact-view";
import { idsOf, useAttachments } from "@/chat/attachments";
import { Composer } from "@/chat/composer";
import { ChatHeader } from "@/chat/header";
import { type Conversation, loadConversations, useConversations } from "@/chat/list";
import { type Options, OptionsBar, toWanted, USUAL } from "@/chat/options";
import { isUnderWay } from "@/chat/reducer";
import {
  isEmbedded,
  useChatSettings,
  useContextUsage,
  useSessionFacts,
  usualModel,
} from "@/chat/session";
import { TurnView } from "@/chat/turn-view";
import type { Chat } from "@/chat/turns";
import { useChat } from "@/chat/use-chat";
import { Welcome } from "@/chat/welcome";
import type { PageProps } from "@/pages";
import { Link, navigate } from "@/router";
import { Button } from "@/ui/button";
import { Icon, Spinner } from "@/ui/icons";
import { Pictures } from "@/ui/markdown";
import { ErrorState, Waiting } from "@/ui/states";
import { toastProblem } from "@/ui/toast";

export default function ChatPage({ params }: PageProps) {
  const id = params.conversation ?? null;
  return id ? <Existing key={id} id={id} /> : <New />;
}

function New() {
  const [text, setText] = useDraft("new");
  const [options, setOptions] = useState<Options>(USUAL);
  const [isSending, setSending] = useState(false);
  const attaching = useAttachments();
  const settings = useChatSettings();
  const usual = usualModel(settings);

  const begin = async () => {
    setSending(true);
    try {
      const wanted = toWanted(options, settings);
      const told = await post<{ conversation: string }>("/chat", {
        prompt: text,
        attachments: idsOf(attaching),
        ...(Object.keys(wanted).length ? { options: wanted } : {}),
      });
      setText("");
      attaching.clear();
      void loadConversations();
      navigate(`/c/${told.conversation}`);
    } catch (error) {
      toastProblem(error);
      setSending(false);
    }
  };

  return (
    <div className="flex h-full flex-col overflow-y-auto">
      <div className="m-auto w-full max-w-3xl px-4 py-8">
        <Welcome onPick={setText} />
        {isEmbedded(options.model || usual) && <EmbeddedBanner />}
        <Composer
          text={text}
          onText={setText}
          attaching={attaching}
          isBusy={false}
          isSending={isSending}
          isStopping={false}
          onSend={begin}
          onStop={() => {}}
          options={<OptionsBar options={options} onChange={setOptions} usual={usual} isNew />}
        />
        <Hints />
      </div>
    </div>
  );
}

function Existing({ id }: { id: string }) {
  const opened = useChat(id);
  const { chat } = opened;
  const isBusy = isUnderWay(chat);
  const last = chat.turns.at(-1);
  const newestPart = last?.parts.at(-1);
  const callState = newestPart?.kind === "call" ? newestPart.call.state : "";
  const moment = `${last?.number ?? 0} ${last?.end ?? ""} ${last?.parts.length ?? 0} ${callState}`;
  const facts = useKept(useSessionFacts(id, moment).data);
  const context = useKept(useContextUsage(id, `${last?.number ?? 0} ${last?.end ?? ""}`).data);
  const title = useTitle(id, moment);
  const [pending, setPending] = useState<{ prompt: string; after: number } | null>(null);
  const [text, setText] = useDraft(id);
  const [isStopping, setStopping] = useState(false);
  const attaching = useAttachments();
  const settings = useChatSettings();
  const model = facts?.models.agent ?? "";
  const place = facts?.place ?? null;
  const pictures = usePictures(chat, id);
  const newest = last?.number ?? 0;

  useEffect(() => {
    if (isBusy) return;
    setStopping(false);
    void loadConversations();
  }, [isBusy]);
  useEffect(() => {
    if (pending && newest > pending.after) setPending(null);
  }, [pending, newest]);

  const send = async () => {
    const prompt = text;
    setPending({ prompt, after: newest });
    setText("");
    try {
      await post("/chat", { conversation: id, prompt, attachments: idsOf(attaching) });
      attaching.clear();
      void loadConversations();
    } catch (error) {
      setPending(null);
      setText(prompt);
      toastProblem(error);
    }
  };
  const stop = () => {
    setStopping(true);
    post(`/sessions/${id}/cancel`).catch((error: unknown) => {
      setStopping(false);
      toastProblem(error);
    });
  };
  const choose = async (options: Options) => {
    try {
      const { model, thinking } = options;
      await patch(`/sessions/${id}`, {
        models: model ? { agent: model, chat: model } : {},
        thinking,
      });
      navigate(location.pathname, "replace");
      opened.reload();
    } catch (error) {
      toastProblem(error);
    }
  };

  if (opened.problem && !chat.turns.length) {
    return (
      <div className="h-full overflow-auto">
        <ErrorState problem={opened.problem} retry={opened.reload} />
      </div>
    );
  }
  const options: Options = {
    ...USUAL,
    model,
    thinking: (facts?.thinking as Options["thinking"] | undefined) ?? "off",
  };
  return (
    <Pictures value={pictures}>
      <div className="flex h-full flex-col">
        <ChatHeader
          id={id}
          title={title}
          facts={facts}
          context={context}
          hasArtifacts={chat.turns.some((turn) =>
            turn.parts.some((part) => part.kind === "artifact"),
          )}
        />
        {opened.isLoading ? (
          <div className="flex-1">
            <Waiting />
          </div>
        ) : (
          <Turns
            chat={chat}
            id={id}
            place={place}
            isBusy={isBusy || pending !== null}
            pending={pending?.prompt ?? null}
            isLoadingOlder={opened.isLoadingOlder}
            onOlder={opened.loadOlder}
          />
        )}
        <div className="mx-auto w-full max-w-3xl shrink-0 px-4 pb-3">
          {!opened.isLive && (
            <p
              role="status"
              className="mb-2 flex items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-sm text-warn"
            >
              <Spinner /> The connection dropped. Nothing is lost: it is taken up again as soon as
              the server answers.
            </p>
          )}
          {opened.problem && (
            <p
              role="alert"
              className="mb-2 flex items-center gap-2 rounded-lg bg-bad-soft px-3 py-2 text-bad text-sm"
            >
              <Icon name="warn" /> {opened.problem.message}
              <Button size="s" className="ml-auto" onClick={opened.reload}>
                Open again
              </Button>
            </p>
          )}
          {isEmbedded(last?.model || model || usualModel(settings)) && <EmbeddedBanner />}
          <Composer
            text={text}
            onText={setText}
            attaching={attaching}
            isBusy={isBusy}
            isSending={pending !== null}
            isStopping={isStopping}
            onSend={send}
            onStop={stop}
            options={
              <OptionsBar
                options={options}
                onChange={choose}
                usual={usualModel(settings)}
                isNew={false}
              />
            }
          />
          <Hints />
        </div>
      </div>
    </Pictures>
  );
}

function Turns({
  chat,
  id,
  place,
  isBusy,
  pending,
  isLoadingOlder,
  onOlder,
}: {
  chat: Chat;
  id: string;
  place: { name: string; isolation: string; backend: string } | null;
  isBusy: boolean;
  pending: string | null;
  isLoadingOlder: boolean;
  onOlder: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const { isAtEnd, toEnd } = useFollowing(box, chat, pending);
  const lastStep = useMemo(() => newestStep(chat), [chat]);
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={box}
        className="h-full overflow-y-auto overscroll-contain"
        onScroll={(event) => {
          if (event.currentTarget.scrollTop < 400 && chat.hasMore) onOlder();
        }}
      >
        <div
          role="log"
          aria-label="Conversation"
          aria-live="off"
          className="mx-auto max-w-3xl px-4 pt-6"
        >
          {chat.hasMore && (
            <div className="flex justify-center pb-6">
              <Button look="quiet" size="s" isBusy={isLoadingOlder} onClick={onOlder}>
                Show earlier turns
              </Button>
            </div>
          )}
          {chat.turns.map((turn, at) => (
            <div
              key={turn.number}
              className={at < chat.turns.length - 60 ? "unseen-cheap" : undefined}
            >
              <TurnView
                turn={turn}
                conversation={id}
                place={place}
                isLast={at === chat.turns.length - 1}
                isBusy={isBusy}
                lastStep={lastStep}
              />
            </div>
          ))}
          {pending !== null && (
            <div className="mb-4 flex justify-end opacity-60">
              <p className="max-w-[min(85%,42rem)] whitespace-pre-wrap break-words rounded-2xl rounded-br-md bg-bubble px-4 py-2.5">
                {pending}
              </p>
            </div>
          )}
        </div>
      </div>
      <Announcer chat={chat} />
      {!isAtEnd && (
        <Button
          size="s"
          icon="down"
          onClick={toEnd}
          className="-translate-x-1/2 absolute bottom-3 left-1/2 rounded-full shadow-pop"
        >
          To the newest
        </Button>
      )}
    </div>
  );
}

/** Says to screen readers what happened, once per turn, not each word. */
function Announcer({ chat }: { chat: Chat }) {
  const last = chat.turns.at(-1);
  const waits = last?.parts.some(
    (part) => part.kind === "call" && part.call.approval && !part.call.approval.answer,
  );
  const words = !last
    ? ""
    : last.end
      ? "The answer is there"
      : waits
        ? "A command waits for your approval"
        : "At work";
  return (
    <p className="sr-only" aria-live="polite">
      {words}
    </p>
  );
}

/** Stays at the newest line until one scrolls up; what is loaded above moves nothing. */
function useFollowing(box: RefObject<HTMLDivElement | null>, chat: Chat, pending: string | null) {
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const before = useRef({ firstTurn: 0, height: 0 });

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => {
      follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < 80;
      setAtEnd(follows.current);
    };
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [box]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const { firstTurn, height } = before.current;
    if (firstTurn && chat.firstTurn < firstTurn && !follows.current) {
      element.scrollTop += element.scrollHeight - height;
    } else if (follows.current || pending !== null) {
      element.scrollTop = element.scrollHeight;
    }
    before.current = { firstTurn: chat.firstTurn, height: element.scrollHeight };
  }, [box, chat, pending]);
  useEffect(() => {
    const content = box.current?.firstElementChild;
    if (!content) return;
    // Pictures and charts grow after they were put there.
    const watcher = new ResizeObserver(() => {
      const element = box.current;
      if (element && follows.current) element.scrollTop = element.scrollHeight;
    });
    watcher.observe(content);
    return () => watcher.disconnect();
  }, [box]);

  const toEnd = useCallback(() => {
    box.current?.scrollTo({ top: box.current.scrollHeight, behavior: "smooth" });
  }, [box]);
  return { isAtEnd, toEnd };
}

function EmbeddedBanner() {
  return (
    <aside
      aria-label="About this model"
      className="mb-2 flex items-start gap-2.5 rounded-lg border bg-info-soft px-3 py-2 text-sm"
    >
      <Icon name="info" className="mt-0.5 size-4 text-info" />
      <p className="min-w-0">
        This is a very small model that runs on this machine without a key: good to try things out,
        often wrong.{" "}
        <Link
          href="/settings/models"
          className="whitespace-nowrap text-accent underline underline-offset-2"
        >
          Add a key for a better one
        </Link>
      </p>
    </aside>
  );
}

function Hints() {
  return (
    <p className="pt-2 text-center text-2xs text-faint max-md:hidden">
      Enter sends · Shift+Enter begins a line · Esc stops · / comes back here
    </p>
  );
}

function newestStep(chat: Chat): number {
  let newest = 0;
  for (const turn of chat.turns) {
    for (const part of turn.parts) {
      if (part.kind === "checkpoint" && !part.isUndone)
        newest = Math.max(newest, part.checkpointStep);
    }
  }
  return newest;
}

/** Pictures that an answer names by the name of something that was handed over. */
function usePictures(chat: Chat, id: string): (address: string) => string | null {
  return useMemo(() => {
    const known = new Map<string, string>();
    for (const turn of chat.turns) {
      for (const part of turn.parts) {
        if (part.kind === "artifact" && part.artifact.mediaType.startsWith("image/")) {
          known.set(part.artifact.name, artifactAddress(id, part.artifact.blob));
        }
      }
    }
    return (address) => known.get(address.split("/").at(-1) ?? "") ?? null;
  }, [chat, id]);
}

function useTitle(id: string, moment: string): string {
  const listed = useConversations().items.find((one) => one.id === id);
  const asked = useLoad(listed ? null : `${id} ${moment}`, (signal) =>
    get<Conversation>(`/conversations/${id}`, { signal }),
  );
  return listed?.title ?? asked.data?.title ?? "";
}

/** The last that was known, while it is asked for again. */
function useKept<T>(data: T | undefined): T | undefined {
  const [kept, setKept] = useState(data);
  if (data !== undefined && data !== kept) setKept(data);
  return data ?? kept;
}

/** What was written and not sent outlives a reload, for who wrote it. */
function useDraft(place: string): [string, (text: string) => void] {
  const key = `crucible-draft-${useUser()?.id ?? ""}-${place}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? "");
  const change = useCallback(
    (next: string) => {
      setText(next);
      if (next) sessionStorage.setItem(key, next);
      else sessionStorage.removeItem(key);
    },
    [key],
  );
  return [text, change];
}
