import { type FormEvent, useState } from "react";
import { patch } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { Link } from "@/router";
import { Badge } from "@/ui/badge";
import { Button, IconButton } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { ago, moment } from "@/ui/format";
import { Icon } from "@/ui/icons";
import { ProblemNote } from "@/ui/states";
import { toastProblem } from "@/ui/toast";
import { type Fact, labelOf } from "./facts";

interface Props {
  fact: Fact;
  onChange: () => void;
  onForget: (fact: Fact) => Promise<void>;
}

export function FactCard({ fact, onChange, onForget }: Props) {
  const [isEditing, setEditing] = useState(false);
  const [isForgetting, setForgetting] = useState(false);
  const isActive = fact.state === "active";
  const pin = () =>
    patch(`/memory/facts/${fact.id}`, { pinned: !fact.pinned }).then(onChange).catch(toastProblem);
  return (
    <li className="rounded-lg border bg-surface px-4 py-3">
      {isEditing ? (
        <Editing
          fact={fact}
          onDone={() => {
            setEditing(false);
            onChange();
          }}
          onCancel={() => setEditing(false)}
        />
      ) : (
        <div className="flex items-start gap-3">
          <div className="min-w-0 flex-1">
            <p className={`break-words ${isActive ? "" : "text-muted line-through"}`}>
              {fact.text}
            </p>
            <Reason fact={fact} />
          </div>
          {isActive && (
            <div className="flex shrink-0 gap-0.5">
              <IconButton
                label={fact.pinned ? "Unpin" : "Pin: always recalled, never expires"}
                icon="pin"
                aria-pressed={fact.pinned}
                className={fact.pinned ? "text-accent" : ""}
                onClick={pin}
              />
              <IconButton label="Correct" icon="pencil" onClick={() => setEditing(true)} />
              <IconButton label="Forget" icon="trash" onClick={() => setForgetting(true)} />
            </div>
          )}
        </div>
      )}
      <Confirm
        isOpen={isForgetting}
        onClose={() => setForgetting(false)}
        title="Forget this?"
        about={`“${fact.text}” is erased for good. This cannot be undone.`}
        act="Forget"
        onAct={() => onForget(fact)}
      />
    </li>
  );
}

/** Why it is known, and from where. */
function Reason({ fact }: { fact: Fact }) {
  const { source } = fact;
  return (
    <div className="mt-1.5 flex flex-wrap items-center gap-x-2.5 gap-y-1 text-muted text-xs">
      <Badge>{labelOf(fact.kind)}</Badge>
      {fact.pinned && <Badge tone="accent">Pinned</Badge>}
      {fact.state === "superseded" && <Badge tone="warn">Replaced</Badge>}
      {fact.state === "expired" && <Badge tone="warn">Expired</Badge>}
      {source.session ? (
        <Link
          href={`/c/${source.session}`}
          className="inline-flex items-center gap-1 hover:text-ink hover:underline"
        >
          <Icon name="chat" className="size-3" /> said in turn {source.turn}
        </Link>
      ) : (
        <span>told by you</span>
      )}
      <span title={moment(fact.created_at)}>{ago(fact.created_at)}</span>
      <span title="How sure it is">{Math.round(fact.confidence * 100)}% sure</span>
      {fact.recalls > 0 && (
        <span title={fact.recalled_at ? `Last ${moment(fact.recalled_at)}` : undefined}>
          recalled {fact.recalls === 1 ? "once" : `${fact.recalls} times`}
        </span>
      )}
      {fact.expires_at && <span>until {moment(fact.expires_at)}</span>}
      {source.quote && source.quote !== fact.text && (
        <q className="min-w-0 basis-full break-words text-faint italic">{source.quote}</q>
      )}
    </div>
  );
}

function Editing({
  fact,
  onDone,
  onCancel,
}: {
  fact: Fact;
  onDone: () => void;
  onCancel: () => void;
}) {
  const [text, setText] = useState(fact.text);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await patch(`/memory/facts/${fact.id}`, { text: text.trim() });
      onDone();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-2">
      <textarea
        aria-label="What is known"
        autoFocus
        rows={2}
        maxLength={4000}
        className="field text-sm"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && onCancel()}
      />
      {problem && <ProblemNote problem={problem} />}
      <div className="flex justify-end gap-2">
        <Button size="s" onClick={onCancel}>
          Cancel
        </Button>
        <Button
          size="s"
          look="primary"
          type="submit"
          isBusy={isBusy}
          disabled={!text.trim() || text.trim() === fact.text}
        >
          Save
        </Button>
      </div>
    </form>
  );
}
