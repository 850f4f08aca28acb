import { type FormEvent, useState } from "react";
import { get, patch, post, remove } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import { useUser } from "@/api/session";
import { Badge } from "@/ui/badge";
import { Button, IconButton } from "@/ui/button";
import { CopyButton } from "@/ui/copy";
import { Confirm, Dialog } from "@/ui/dialog";
import { Field } from "@/ui/field";
import { ago } from "@/ui/format";
import { Menu, MenuItem, MenuLine } from "@/ui/menu";
import { ErrorState, ProblemNote, Waiting } from "@/ui/states";
import { toast, toastProblem } from "@/ui/toast";
import { Section } from "./section";
import type { Account, AccountList } from "./settings";

/** For the administrator. */
export function Users() {
  const users = useLoad("users", (signal) => get<AccountList>("/users", { signal }));
  const [made, setMade] = useState<{ name: string; password: string } | null>(null);
  return (
    <>
      <Section
        title="Users and plans"
        about="Each sees only their own things. Plans limit what they spend."
      >
        {users.isLoading && <Waiting />}
        {users.problem && !users.data && (
          <ErrorState problem={users.problem} retry={users.reload} />
        )}
        {users.data && (
          <ul
            aria-label="Users"
            className="divide-y overflow-hidden rounded-lg border bg-surface text-sm"
          >
            {users.data.items.map((one) => (
              <UserRow
                key={one.id}
                account={one}
                plans={users.data?.plans ?? []}
                onChange={users.reload}
                onMade={setMade}
              />
            ))}
          </ul>
        )}
      </Section>
      <AddUser onAdded={users.reload} onMade={setMade} />
      <Dialog
        isOpen={made !== null}
        onClose={() => setMade(null)}
        title={`Password of ${made?.name ?? ""}`}
        about="It is shown this once. Hand it over, and have it changed at the first sign-in."
      >
        <p className="flex items-center gap-2 rounded-md bg-sunken px-3 py-2 font-mono text-sm">
          <span className="flex-1 break-all">{made?.password}</span>
          <CopyButton text={made?.password ?? ""} label="Copy the password" />
        </p>
      </Dialog>
    </>
  );
}

function UserRow({
  account,
  plans,
  onChange,
  onMade,
}: {
  account: Account;
  plans: string[];
  onChange: () => void;
  onMade: (made: { name: string; password: string }) => void;
}) {
  const me = useUser();
  const [isRemoving, setRemoving] = useState(false);
  const path = `/users/${encodeURIComponent(account.id)}`;
  const change = (changes: object) => patch(path, changes).then(onChange).catch(toastProblem);
  return (
    <li className="flex flex-wrap items-center gap-3 px-4 py-2.5">
      <span className="min-w-0 flex-1 truncate font-medium">{account.name}</span>
      {account.role === "admin" && <Badge tone="accent">administrator</Badge>}
      {account.disabled && <Badge tone="bad">disabled</Badge>}
      {account.id === me?.id && <Badge>you</Badge>}
      <span className="text-faint text-xs">since {ago(account.created_at)}</span>
      <select
        aria-label={`Plan of ${account.name}`}
        className="field w-auto py-1 text-xs"
        value={account.plan}
        onChange={(event) => change({ plan: event.target.value })}
      >
        {[...new Set(["", ...plans, account.plan])].map((plan) => (
          <option key={plan} value={plan}>
            {plan || "no plan"}
          </option>
        ))}
      </select>
      <Menu trigger={<IconButton label={`More for ${account.name}`} icon="more" />}>
        <MenuItem
          onSelect={() =>
            post<{ password: string }>(`${path}/password`)
              .then(({ password }) => onMade({ name: account.name, password }))
              .catch(toastProblem)
          }
        >
          New password
        </MenuItem>
        <MenuItem onSelect={() => change({ role: account.role === "admin" ? "user" : "admin" })}>
          {account.role === "admin" ? "Make an ordinary user" : "Make an administrator"}
        </MenuItem>
        <MenuItem onSelect={() => change({ disabled: !account.disabled })}>
          {account.disabled ? "Enable" : "Disable"}
        </MenuItem>
        <MenuLine />
        <MenuItem icon="trash" isDanger onSelect={() => setRemoving(true)}>
          Remove
        </MenuItem>
      </Menu>
      <Confirm
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title={`Remove ${account.name}?`}
        about="The account is gone for good, and signed out everywhere. Sandboxes stay, for the machine's own user to look after."
        act="Remove"
        onAct={async () => {
          await remove(path);
          toast(`${account.name} is gone`);
          onChange();
        }}
      />
    </li>
  );
}

function AddUser({
  onAdded,
  onMade,
}: {
  onAdded: () => void;
  onMade: (made: { name: string; password: string }) => void;
}) {
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const told = await post<Account & { password: string | null }>("/users", {
        name: name.trim(),
      });
      if (told.password) onMade({ name: told.name, password: told.password });
      setName("");
      onAdded();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Section title="Add a user" about="A password is made, and shown once.">
      <form onSubmit={submit} className="flex max-w-sm flex-col gap-3">
        <Field
          label="Name of the user"
          required
          maxLength={64}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {problem && <ProblemNote problem={problem} />}
        <div>
          <Button look="primary" type="submit" isBusy={isBusy}>
            Add
          </Button>
        </div>
      </form>
    </Section>
  );
}
