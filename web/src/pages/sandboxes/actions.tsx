import { type FormEvent, useState } from "react";
import { post, remove } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { navigate } from "@/router";
import { Button, IconButton } from "@/ui/button";
import { Confirm, Dialog } from "@/ui/dialog";
import { Field } from "@/ui/field";
import { Menu, MenuItem, MenuLine } from "@/ui/menu";
import { ProblemNote } from "@/ui/states";
import { toast, toastProblem } from "@/ui/toast";
import { pathOf, type Sandbox } from "./sandboxes";

type Asking = "" | "fork" | "snapshot" | "remove";

export function Actions({ sandbox, onDone }: { sandbox: Sandbox; onDone: () => void }) {
  const [asking, setAsking] = useState<Asking>("");
  const [isBusy, setBusy] = useState(false);
  const path = pathOf(sandbox.name);
  const isRunning = sandbox.state === "running";
  const act = async (verb: string, words: string) => {
    setBusy(true);
    try {
      await post(`${path}/${verb}`);
      toast(words);
    } catch (error) {
      toastProblem(error);
    } finally {
      setBusy(false);
      onDone();
    }
  };
  return (
    <>
      {isRunning ? (
        <Button icon="stop" isBusy={isBusy} onClick={() => act("stop", "Stopped")}>
          Stop
        </Button>
      ) : sandbox.state === "paused" ? (
        <Button icon="play" isBusy={isBusy} onClick={() => act("resume", "It goes on")}>
          Go on
        </Button>
      ) : (
        <Button icon="play" isBusy={isBusy} onClick={() => act("start", "Started")}>
          Start
        </Button>
      )}
      <Menu trigger={<IconButton label="More actions" icon="more" look="plain" size="m" />}>
        {isRunning && (
          <MenuItem icon="pause" onSelect={() => act("pause", "Paused")}>
            Pause
          </MenuItem>
        )}
        <MenuItem icon="branch" isDisabled={!isRunning} onSelect={() => setAsking("fork")}>
          Fork
        </MenuItem>
        <MenuItem icon="camera" isDisabled={!isRunning} onSelect={() => setAsking("snapshot")}>
          Take a snapshot
        </MenuItem>
        <MenuLine />
        <MenuItem icon="trash" isDanger onSelect={() => setAsking("remove")}>
          Remove
        </MenuItem>
      </Menu>
      <NameDialog
        key={`fork ${asking === "fork"}`}
        isOpen={asking === "fork"}
        onClose={() => setAsking("")}
        title={`Fork ${sandbox.name}`}
        about="A second machine goes on from this very moment: files, memory, processes."
        label="Name of the fork"
        first={`${sandbox.name}-fork`}
        act="Fork"
        onAct={async (name) => {
          await post(`${path}/fork`, { names: [name] });
          navigate(`/sandboxes/${encodeURIComponent(name)}`);
        }}
      />
      <NameDialog
        key={`snapshot ${asking === "snapshot"}`}
        isOpen={asking === "snapshot"}
        onClose={() => setAsking("")}
        title={`Snapshot of ${sandbox.name}`}
        about="The whole machine as it is now, kept under a tag. `crucible snapshot restore TAG NAME` makes a sandbox of it."
        label="Tag"
        first={`${sandbox.name}-1`}
        act="Take it"
        onAct={async (tag) => {
          await post(`${path}/snapshots`, { tag });
          toast(`Kept as ${tag}`);
        }}
      />
      <Confirm
        isOpen={asking === "remove"}
        onClose={() => setAsking("")}
        title={`Remove ${sandbox.name}?`}
        about="Its processes end and its files are gone for good. Snapshots of it stay."
        act="Remove"
        onAct={async () => {
          await remove(path, { query: { force: true } });
          toast(`${sandbox.name} is gone`);
          navigate("/sandboxes");
        }}
      />
    </>
  );
}

function NameDialog({
  isOpen,
  onClose,
  title,
  about,
  label,
  first,
  act,
  onAct,
}: {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  about: string;
  label: string;
  first: string;
  act: string;
  onAct: (name: string) => Promise<void>;
}) {
  const [name, setName] = useState(first.slice(0, 63));
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await onAct(name.trim());
      onClose();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title} about={about}>
      <form onSubmit={submit} className="flex flex-col gap-4 pt-1">
        <Field
          label={label}
          required
          maxLength={63}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {problem && <ProblemNote problem={problem} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" isBusy={isBusy}>
            {act}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
