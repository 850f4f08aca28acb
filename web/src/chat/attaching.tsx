/** Files on their way into a turn, as one sees them: beside the message, and beside one that is written anew. */

import { type ReactNode, useRef } from "react";
import { IconButton } from "@/ui/button";
import { bytes } from "@/ui/format";
import { Icon } from "@/ui/icons";
import type { Attaching, Attachment } from "./attachments";

/** The rows of a list. */
export function FilesToAttach({ attaching }: { attaching: Attaching }) {
  return attaching.files.map((file) => (
    <FileToAttach
      key={file.key}
      name={file.name}
      told={file.fault || (file.id ? bytes(file.size) : `${Math.round(file.share * 100)} %`)}
      isBad={file.fault !== ""}
      onDrop={() => attaching.drop(file.key)}
    >
      {isComing(file) && (
        <progress
          aria-label={`Upload of ${file.name}`}
          value={file.share}
          max={1}
          className="absolute inset-x-0 bottom-0 h-0.5 w-full appearance-none [&::-moz-progress-bar]:bg-accent [&::-webkit-progress-bar]:bg-transparent [&::-webkit-progress-value]:bg-accent"
        />
      )}
    </FileToAttach>
  ));
}

export function FileToAttach({
  name,
  told,
  isBad = false,
  onDrop,
  children,
}: {
  name: string;
  told: string;
  isBad?: boolean;
  onDrop: () => void;
  children?: ReactNode;
}) {
  return (
    <li
      className={`relative flex items-center gap-2 overflow-hidden rounded-lg border py-1 pr-1 pl-2.5 text-xs ${isBad ? "border-bad bg-bad-soft" : "bg-canvas"}`}
    >
      <Icon
        name={isBad ? "warn" : "file"}
        className={`size-3.5 ${isBad ? "text-bad" : "text-muted"}`}
      />
      <span className="max-w-48 truncate">{name}</span>
      <span className={isBad ? "text-bad" : "text-faint"}>{told}</span>
      <button
        type="button"
        aria-label={`Take ${name} away`}
        onClick={onDrop}
        className="grid size-5 place-items-center rounded hover:bg-hover"
      >
        <Icon name="close" className="size-3" />
      </button>
      {children}
    </li>
  );
}

export function AttachButton({ attaching }: { attaching: Attaching }) {
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={picker}
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Files to attach"
        className="sr-only"
        onChange={(event) => {
          attaching.add(Array.from(event.target.files ?? []));
          event.target.value = "";
        }}
      />
      <IconButton
        label="Attach files"
        icon="attach"
        size="m"
        onClick={() => picker.current?.click()}
      />
    </>
  );
}

function isComing(file: Attachment): boolean {
  return !file.id && !file.fault;
}
