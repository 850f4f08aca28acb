import { type FormEvent, useState } from "react";
import { get, post, remove } from "@/api/client";
import { useLoad } from "@/api/load";
import { asProblem, type Problem } from "@/api/problem";
import { useUser } from "@/api/session";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Field } from "@/ui/field";
import { duration } from "@/ui/format";
import { EmptyState, ErrorState, ProblemNote, Waiting } from "@/ui/states";
import { toast, toastProblem } from "@/ui/toast";
import { Section } from "./section";
import { linesOf, type McpServer, type McpTool } from "./settings";

export function McpServers() {
  const servers = useLoad("mcp", (signal) =>
    get<{ items: McpServer[] }>("/settings/mcp", { signal }),
  );
  return (
    <>
      <Section
        title="MCP servers"
        about="Their tools are offered to your conversations under their server's name, and are under the same permissions."
      >
        {servers.isLoading && <Waiting />}
        {servers.problem && !servers.data && (
          <ErrorState problem={servers.problem} retry={servers.reload} />
        )}
        {servers.data &&
          (servers.data.items.length === 0 ? (
            <EmptyState icon="link" title="You have added none">
              A server is a command that runs in the sandbox, or an address that speaks streamable
              HTTP.
            </EmptyState>
          ) : (
            <ul aria-label="MCP servers" className="flex flex-col gap-3">
              {servers.data.items.map((one) => (
                <ServerCard key={one.name} server={one} onGone={servers.reload} />
              ))}
            </ul>
          ))}
      </Section>
      <AddServer onAdded={servers.reload} />
    </>
  );
}

function ServerCard({ server, onGone }: { server: McpServer; onGone: () => void }) {
  const [tools, setTools] = useState<{ tools: McpTool[]; duration_s: number } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const path = `/settings/mcp/${encodeURIComponent(server.name)}`;
  const test = async () => {
    setBusy(true);
    setProblem(null);
    setTools(null);
    try {
      setTools(await post(`${path}/test`));
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <li className="rounded-lg border bg-surface px-4 py-3 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <span className="font-medium">{server.name}</span>
        {server.command.length > 0 && (
          <Badge tone={server.where === "host" ? "warn" : "plain"}>
            {server.where === "host" ? "runs on the host" : "runs in the sandbox"}
          </Badge>
        )}
        <span className="min-w-0 flex-1 break-all font-mono text-muted text-xs">
          {server.url || server.command.join(" ")}
        </span>
        <Button size="s" icon="play" isBusy={isBusy} onClick={test}>
          Test<span className="sr-only"> {server.name}</span>
        </Button>
        <Button
          size="s"
          look="danger"
          onClick={() =>
            remove(path)
              .then(() => {
                toast(`${server.name} is gone`);
                onGone();
              })
              .catch(toastProblem)
          }
        >
          Remove<span className="sr-only"> {server.name}</span>
        </Button>
      </div>
      {problem && (
        <div className="mt-2">
          <ProblemNote problem={problem} />
        </div>
      )}
      {tools && (
        <div className="mt-3" role="status">
          <p className="text-muted text-xs">
            {tools.tools.length === 1 ? "One tool" : `${tools.tools.length} tools`}, told in{" "}
            {duration(tools.duration_s)}
          </p>
          <dl className="mt-1 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-xs">
            {tools.tools.map((tool) => (
              <div key={tool.name} className="contents">
                <dt className="font-mono">{tool.name}</dt>
                <dd className="min-w-0 break-words text-muted">{tool.description}</dd>
              </div>
            ))}
          </dl>
        </div>
      )}
    </li>
  );
}

function AddServer({ onAdded }: { onAdded: () => void }) {
  const user = useUser();
  const [name, setName] = useState("");
  const [way, setWay] = useState<"command" | "url">("command");
  const [text, setText] = useState("");
  const [isOnHost, setOnHost] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await post("/settings/mcp", {
        name: name.trim(),
        ...(way === "url"
          ? { url: text.trim() }
          : { command: linesOf(text), where: isOnHost ? "host" : "sandbox" }),
      });
      toast(`${name.trim()} was added`);
      setName("");
      setText("");
      onAdded();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Section title="Add a server">
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field
          label="Name"
          about="Its tools are called after it"
          required
          maxLength={32}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <fieldset className="flex gap-4 text-sm">
          <legend className="mb-1 font-medium">It is</legend>
          {(["command", "url"] as const).map((one) => (
            <label key={one} className="flex items-center gap-2">
              <input
                type="radio"
                name="way"
                className="accent-[var(--accent)]"
                checked={way === one}
                onChange={() => setWay(one)}
              />
              {one === "command" ? "a command" : "an address"}
            </label>
          ))}
        </fieldset>
        {way === "url" ? (
          <Field
            label="Address"
            type="url"
            required
            placeholder="https://mcp.example.org/mcp"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        ) : (
          <div className="flex flex-col gap-1">
            <label htmlFor="mcp-command" className="font-medium text-sm">
              Command, one word a line
            </label>
            <textarea
              id="mcp-command"
              rows={3}
              required
              spellCheck={false}
              placeholder={"uvx\nmcp-server-time"}
              className="field font-mono text-xs"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            {user?.role === "admin" && (
              <label className="mt-1 flex items-center gap-2 text-sm">
                <input
                  type="checkbox"
                  className="accent-[var(--accent)]"
                  checked={isOnHost}
                  onChange={(event) => setOnHost(event.target.checked)}
                />
                Run it on this machine, outside of any sandbox
              </label>
            )}
          </div>
        )}
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
