/** A prompt, written anew. Its files come along unless they are taken off; others can come with them. */

import { useId, useState } from "react";
import { post } from "@/api/client";
import { Button } from "@/ui/button";
import { bytes } from "@/ui/format";
import { toastProblem } from "@/ui/toast";
import { AttachButton, FilesToAttach, FileToAttach } from "./attaching";
import { idsOf, useAttachments } from "./attachments";
import type { Turn } from "./turns";

export function EditPrompt({
  turn,
  conversation,
  onClose,
}: {
  turn: Turn;
  conversation: string;
  onClose: () => void;
}) {
  const [text, setText] = useState(turn.prompt);
  const [kept, setKept] = useState(turn.attachments);
  const [isBusy, setBusy] = useState(false);
  const attaching = useAttachments();
  const id = useId();
  const canSend = text.trim() !== "" && !attaching.isUploading && !isBusy;
  const send = async () => {
    setBusy(true);
    try {
      await post(`/conversations/${conversation}/edit`, {
        turn: turn.number,
        prompt: text,
        attachments: idsOf(attaching),
        kept: kept.map((one) => one.name),
      });
      onClose();
    } catch (error) {
      toastProblem(error);
      setBusy(false);
    }
  };
  const cancel = () => {
    for (const file of attaching.files) attaching.drop(file.key);
    onClose();
  };
  return (
    <div className="mb-4 rounded-xl border border-line-strong bg-surface p-3">
      <label htmlFor={id} className="sr-only">
        Your prompt, changed
      </label>
      <textarea
        id={id}
        autoFocus
        value={text}
        rows={Math.min(14, text.split("\n").length + 1)}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") cancel();
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey) && canSend) void send();
        }}
        onPaste={(event) => {
          if (!event.clipboardData.files.length) return;
          event.preventDefault();
          attaching.add(event.clipboardData.files);
        }}
        className="w-full resize-y bg-transparent leading-relaxed outline-none focus-visible:outline-none"
      />
      {kept.length + attaching.files.length > 0 && (
        <ul aria-label="Files that come along" className="mt-1 flex flex-wrap gap-2">
          {kept.map((file) => (
            <FileToAttach
              key={file.name}
              name={file.name}
              told={bytes(file.size)}
              onDrop={() => setKept(kept.filter((one) => one !== file))}
            />
          ))}
          <FilesToAttach attaching={attaching} />
        </ul>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-2">
        <AttachButton attaching={attaching} />
        <p className="min-w-48 flex-1 text-faint text-xs">
          This turn and all after it are taken back. Files in the sandbox stay as they are.
        </p>
        <Button size="s" onClick={cancel}>
          Cancel
        </Button>
        <Button size="s" look="primary" isBusy={isBusy} disabled={!canSend} onClick={send}>
          Send
        </Button>
      </div>
    </div>
  );
}
