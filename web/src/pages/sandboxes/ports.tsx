import { useState } from "react";
import { get, post } from "@/api/client";
import { useLoad } from "@/api/load";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Icon } from "@/ui/icons";
import { EmptyState, ErrorState, Waiting } from "@/ui/states";
import { toastProblem } from "@/ui/toast";
import type { Ports } from "./sandboxes";

/** Where programs inside listen, and how to get there. */
export function PortList({ path }: { path: string }) {
  const ports = useLoad(path, (signal) => get<Ports>(`${path}/ports`, { signal }), 3000);
  const [busy, setBusy] = useState(0);
  const publish = async (guest: number) => {
    setBusy(guest);
    try {
      const told = await post<Ports>(`${path}/ports`, { guest });
      ports.set(() => told);
    } catch (error) {
      toastProblem(error);
    } finally {
      setBusy(0);
    }
  };
  if (ports.isLoading) return <Waiting />;
  if (!ports.data) {
    return ports.problem ? <ErrorState problem={ports.problem} retry={ports.reload} /> : null;
  }
  const { listening, published } = ports.data;
  const all = [...new Set([...listening, ...published.map((one) => one.guest)])].sort(
    (one, other) => one - other,
  );
  if (all.length === 0) {
    return (
      <EmptyState icon="globe" title="Nothing listens">
        Start a server in the sandbox, such as{" "}
        <code className="font-mono text-xs">python3 -m http.server 8000</code>. Its port appears
        here, and can be opened.
      </EmptyState>
    );
  }
  return (
    <ul aria-label="Ports" className="my-4 divide-y overflow-hidden rounded-lg border bg-surface">
      {all.map((guest) => {
        const open = published.find((one) => one.guest === guest);
        return (
          <li key={guest} className="flex items-center gap-3 px-4 py-2.5 text-sm">
            <span className="w-16 font-mono">{guest}</span>
            <span className="flex-1">
              {listening.includes(guest) ? (
                <Badge tone="good">listens</Badge>
              ) : (
                <Badge>nothing listens</Badge>
              )}
            </span>
            {open ? (
              <a
                href={`http://${hostOf(open.address)}:${open.host}/`}
                target="_blank"
                rel="noreferrer noopener"
                className="inline-flex items-center gap-1.5 text-accent hover:underline"
              >
                {hostOf(open.address)}:{open.host} <Icon name="open" className="size-3.5" />
              </a>
            ) : (
              <Button size="s" isBusy={busy === guest} onClick={() => publish(guest)}>
                Open on the server's machine
              </Button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** An address that means "all of them" is none that a browser can go to: then the one that this page came from. */
function hostOf(address: string): string {
  if (address === "0.0.0.0" || address === "::") return location.hostname;
  return address.includes(":") ? `[${address}]` : address;
}
