/** What a conversation is begun with, and what of it can be changed later. */

import { type FormEvent, useState } from "react";
import { useUser } from "@/api/session";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Field } from "@/ui/field";
import { Icon } from "@/ui/icons";
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from "@/ui/menu";
import { type ChatSettings, shortModel } from "./session";

export interface Options {
  /** `provider:name`; empty is by the settings. */
  model: string;
  thinking: "off" | "low" | "medium" | "high";
  /** Nothing runs before one has seen it. */
  asksFirst: boolean;
  /** A snapshot before each step, so that one can go back. */
  keepsSteps: boolean;
  /** Of the host, to be copied into the sandbox. */
  directory: string;
}

const KEY = "crucible-models";
const MOST_KEPT = 6;
const HANDING_OVER = "publish";
const RUNNING = ["bash", "python", "write", "edit"];

export const USUAL: Options = {
  model: "",
  thinking: "off",
  asksFirst: false,
  keepsSteps: false,
  directory: "",
};

/** A section that is named goes before the user's settings, so what they say is said again with it. */
export function toWanted(
  options: Options,
  settings: ChatSettings | undefined,
): Record<string, unknown> {
  const { model } = options;
  const memory = settings?.models.memory;
  const rules = settings?.policy ?? { allow: [], ask: [], deny: [] };
  return {
    ...(model ? { models: { agent: model, chat: model, ...(memory ? { memory } : {}) } } : {}),
    ...(options.thinking === "off" ? {} : { thinking: options.thinking }),
    ...(settings || options.asksFirst
      ? {
          policy: {
            // Whoever chats is who it is handed to.
            allow: [...rules.allow, HANDING_OVER],
            ask: options.asksFirst ? [...rules.ask, ...RUNNING] : rules.ask,
            deny: rules.deny,
          },
        }
      : {}),
    ...(options.keepsSteps ? { checkpoints: { is_on: true } } : {}),
    ...(options.directory ? { sandbox: { directory: options.directory } } : {}),
  };
}

export function OptionsBar({
  options,
  onChange,
  usual,
  isNew,
}: {
  options: Options;
  onChange: (options: Options) => void;
  /** What the settings name. */
  usual: string;
  isNew: boolean;
}) {
  const [isNaming, setNaming] = useState(false);
  const [isPlacing, setPlacing] = useState(false);
  const mayReadHost = useUser()?.role === "admin";
  const shown = options.model || usual;
  const known = [...new Set([options.model, ...keptModels()])].filter(Boolean);
  return (
    <>
      <Menu
        align="start"
        trigger={
          <Button
            look="quiet"
            size="s"
            aria-label={`Model: ${shown || "by the settings"}`}
            className="max-w-56"
          >
            <span className="truncate">{shown ? shortModel(shown) : "Model"}</span>
            <Icon name="down" className="size-3" />
          </Button>
        }
      >
        <MenuLabel>Model</MenuLabel>
        <MenuChoice
          value={options.model}
          onChange={(model) => onChange({ ...options, model })}
          choices={[
            {
              value: "",
              label: "By the settings",
              about: usual || "The best that there is a key for",
            },
            ...known.map((model) => ({
              value: model,
              label: shortModel(model),
              about: model.split(":")[0] ?? "",
            })),
          ]}
        />
        <MenuLine />
        <MenuItem icon="plus" onSelect={() => setNaming(true)}>
          Another model…
        </MenuItem>
        <MenuLine />
        <MenuLabel>Thinking</MenuLabel>
        <MenuChoice
          value={options.thinking}
          onChange={(thinking) => onChange({ ...options, thinking })}
          choices={[
            { value: "off", label: "Off" },
            { value: "low", label: "A little" },
            { value: "medium", label: "Some" },
            { value: "high", label: "Much" },
          ]}
        />
      </Menu>
      {isNew && (
        <>
          <Toggle
            label="Ask before running"
            isOn={options.asksFirst}
            onChange={(asksFirst) => onChange({ ...options, asksFirst })}
          />
          <Toggle
            label="Keep steps"
            about="A snapshot before each step, so that you can go back to it"
            isOn={options.keepsSteps}
            onChange={(keepsSteps) => onChange({ ...options, keepsSteps })}
          />
          {mayReadHost && (
            <Button
              look="quiet"
              size="s"
              icon="folder"
              title={options.directory || "Work on a copy of a directory of this machine"}
              onClick={() => setPlacing(true)}
              className={options.directory ? "max-w-40 text-accent" : ""}
            >
              <span className="truncate">
                {options.directory.split("/").filter(Boolean).at(-1) ?? "Directory"}
              </span>
            </Button>
          )}
        </>
      )}
      {isPlacing && (
        <ChooseDirectory
          directory={options.directory}
          onClose={() => setPlacing(false)}
          onChoose={(directory) => {
            onChange({ ...options, directory });
            setPlacing(false);
          }}
        />
      )}
      {isNaming && (
        <NameModel
          onClose={() => setNaming(false)}
          onName={(model) => {
            keepModel(model);
            onChange({ ...options, model });
            setNaming(false);
          }}
        />
      )}
    </>
  );
}

function Toggle({
  label,
  about,
  isOn,
  onChange,
}: {
  label: string;
  about?: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={isOn}
      title={about}
      onClick={() => onChange(!isOn)}
      className={`flex h-7 items-center gap-1.5 whitespace-nowrap rounded-md px-2 font-medium text-xs transition-colors ${isOn ? "bg-accent-soft text-accent" : "text-muted hover:bg-hover hover:text-ink"}`}
    >
      <span
        className={`size-2 rounded-full border ${isOn ? "border-accent bg-accent" : "border-faint"}`}
      />
      {label}
    </button>
  );
}

function NameModel({ onName, onClose }: { onName: (model: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const isGood = /^[\w.-]+:\S+$/.test(name.trim());
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (isGood) onName(name.trim());
  };
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title="Another model"
      about="Its provider must have a key, in the settings or in the server's environment."
    >
      <form onSubmit={save} className="flex flex-col gap-4">
        <Field
          label="Model"
          value={name}
          autoFocus
          maxLength={256}
          placeholder="provider:name"
          about="Its provider and its name, such as anthropic:claude-sonnet-4-5"
          onChange={(event) => setName(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isGood}>
            Use it
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ChooseDirectory({
  directory,
  onChoose,
  onClose,
}: {
  directory: string;
  onChoose: (directory: string) => void;
  onClose: () => void;
}) {
  const [path, setPath] = useState(directory);
  const isGood = path.trim() === "" || path.trim().startsWith("/");
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title="Work on a directory"
      about="The sandbox gets a copy. You see what it changed as a diff, and take along what you like, file by file."
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (isGood) onChoose(path.trim());
        }}
      >
        <Field
          label="Directory of the machine that the server runs on"
          value={path}
          autoFocus
          maxLength={4096}
          placeholder="/home/you/project"
          fault={isGood ? "" : "Give the whole path, from / on"}
          about="Empty for none"
          onChange={(event) => setPath(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isGood}>
            Use it
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function keptModels(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function keepModel(model: string): void {
  try {
    localStorage.setItem(
      KEY,
      JSON.stringify([...new Set([model, ...keptModels()])].slice(0, MOST_KEPT)),
    );
  } catch {
    // It is only a convenience.
  }
}
