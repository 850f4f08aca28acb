/** Where one writes: Enter sends, Shift with Enter begins a line, files come by button, drop or paste. */

import {
  type ClipboardEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
import { IconButton } from "@/ui/button";
import { AttachButton, FilesToAttach } from "./attaching";
import type { Attaching } from "./attachments";

const TALLEST_PX = 280;

interface Props {
  text: string;
  onText: (text: string) => void;
  attaching: Attaching;
  isBusy: boolean;
  isSending: boolean;
  isStopping: boolean;
  onSend: () => void;
  onStop: () => void;
  options?: ReactNode;
}

export function Composer({
  text,
  onText,
  attaching,
  isBusy,
  isSending,
  isStopping,
  onSend,
  onStop,
  options,
}: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [isOver, setOver] = useState(false);
  const id = useId();
  const canSend = text.trim() !== "" && !isSending && !isBusy && !attaching.isUploading;

  // biome-ignore lint/correctness/useExhaustiveDependencies: as tall as its text
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(TALLEST_PX, element.scrollHeight)}px`;
  }, [text]);
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      // A key that closes a menu or a dialog is meant for that alone.
      if (isTyping(event.target) || document.querySelector("[role=dialog], [role=menu]")) return;
      if (event.key === "/") {
        event.preventDefault();
        area.current?.focus();
      } else if (event.key === "Escape" && isBusy) onStop();
    };
    // Before the menu is closed by it.
    window.addEventListener("keydown", press, true);
    return () => window.removeEventListener("keydown", press, true);
  }, [isBusy, onStop]);

  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape" && isBusy) {
      onStop();
    } else if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      if (canSend) onSend();
    }
  };
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      attaching.add(event.clipboardData.files);
    }
  };

  return (
    <form
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        if (canSend) onSend();
      }}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        attaching.add(event.dataTransfer.files);
      }}
      className={`relative rounded-2xl border bg-surface shadow-pop transition-colors focus-within:border-accent ${isOver ? "border-accent" : "border-line-strong"}`}
    >
      {isOver && (
        <div className="absolute inset-0 z-10 grid place-items-center rounded-2xl bg-accent-soft font-medium text-accent text-sm">
          Drop to attach
        </div>
      )}
      {attaching.files.length > 0 && (
        <ul aria-label="Files to attach" className="flex flex-wrap gap-2 px-3 pt-3">
          <FilesToAttach attaching={attaching} />
        </ul>
      )}
      <label htmlFor={id} className="sr-only">
        Message
      </label>
      <textarea
        ref={area}
        id={id}
        rows={1}
        autoFocus
        value={text}
        maxLength={1_000_000}
        onChange={(event) => onText(event.target.value)}
        onKeyDown={press}
        onPaste={paste}
        placeholder="Ask for something to be worked out, run or built"
        className="block max-h-[280px] w-full resize-none bg-transparent px-4 pt-3.5 pb-1 leading-relaxed outline-none focus-visible:outline-none"
      />
      <div className="flex items-center gap-1 px-2 pt-1 pb-2">
        <AttachButton attaching={attaching} />
        <div className="flex min-w-0 flex-1 items-center gap-1 overflow-x-auto">{options}</div>
        {isBusy ? (
          <IconButton
            label={isStopping ? "Stopping" : "Stop"}
            icon="stop"
            look="plain"
            size="m"
            isBusy={isStopping}
            onClick={onStop}
            isRound
          />
        ) : (
          <IconButton
            label="Send"
            icon="send"
            look="primary"
            size="m"
            type="submit"
            disabled={!canSend}
            isBusy={isSending}
            isRound
          />
        )}
      </div>
    </form>
  );
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}
