/** A shell in the sandbox. xterm.js is loaded with this page alone. */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Screen } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { post } from "@/api/client";
import { asProblem, type Problem, problemFrom } from "@/api/problem";
import { Button } from "@/ui/button";
import { documentOfScriptedStyles, withScriptedStyles } from "@/ui/scripted-styles";
import { ProblemNote } from "@/ui/states";

interface Ticket {
  ticket: string;
  path: string;
}

const SHELL = ["/bin/sh", "-c", "exec $(command -v bash || echo sh) -l"];
const CLOSED_BY_US = 1000;

export default function Terminal({ path }: { path: string }) {
  const [round, setRound] = useState(0);
  return <Shell key={round} path={path} onAgain={() => setRound((old) => old + 1)} />;
}

function Shell({ path, onAgain }: { path: string; onAgain: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [ended, setEnded] = useState("");

  useEffect(() => {
    if (!place.current) return;
    const screen = new Screen({
      cursorBlink: true,
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      fontSize: 13,
      scrollback: 5000,
      screenReaderMode: true,
      documentOverride: documentOfScriptedStyles(),
      theme: { background: "#151413", foreground: "#edeae5", cursor: "#fb8f52" },
    });
    const fit = new FitAddon();
    screen.loadAddon(fit);
    const at = place.current;
    withScriptedStyles(() => screen.open(at));
    fit.fit();
    screen.focus();
    let isLeft = false;
    let socket: WebSocket | null = null;

    const tell = (message: object) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    };
    const heard = (message: { type?: string; error?: unknown; exit?: Record<string, unknown> }) => {
      if (message.type === "error") setProblem(problemFrom(message.error));
      if (message.type === "exit") {
        const status = message.exit?.status ?? message.exit?.exit_status;
        setEnded(typeof status === "number" ? `The shell ended with ${status}` : "The shell ended");
      }
    };
    const open = async () => {
      const { ticket, path: at } = await post<Ticket>(`${path}/terminal/tickets`);
      if (isLeft) return;
      const scheme = location.protocol === "https:" ? "wss" : "ws";
      socket = new WebSocket(
        `${scheme}://${location.host}${at}?ticket=${encodeURIComponent(ticket)}`,
      );
      socket.binaryType = "arraybuffer";
      socket.onopen = () => {
        tell({
          type: "start",
          argv: SHELL,
          rows: screen.rows,
          columns: screen.cols,
          environment: { TERM: "xterm-256color" },
        });
      };
      socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
        if (typeof event.data === "string") heard(JSON.parse(event.data));
        else screen.write(new Uint8Array(event.data));
      };
      socket.onclose = (event) => {
        if (!isLeft && event.code !== CLOSED_BY_US) {
          setEnded((old) => old || "The connection was cut");
        }
      };
    };
    open().catch((error: unknown) => {
      if (!isLeft) setProblem(asProblem(error));
    });

    const encoder = new TextEncoder();
    const typed = screen.onData((text) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(text));
    });
    const resized = screen.onResize(({ rows, cols }) =>
      tell({ type: "resize", rows, columns: cols }),
    );
    const watching = new ResizeObserver(() => fit.fit());
    watching.observe(place.current);
    return () => {
      isLeft = true;
      watching.disconnect();
      typed.dispose();
      resized.dispose();
      socket?.close(CLOSED_BY_US);
      screen.dispose();
    };
  }, [path]);

  return (
    <div className="flex flex-col gap-2 py-4">
      {problem && <ProblemNote problem={problem} />}
      <section
        aria-label="Terminal"
        ref={place}
        className="h-[60vh] min-h-64 overflow-hidden rounded-lg border bg-[#151413] p-2"
      />
      {(ended || problem) && (
        <div role="status" className="flex items-center gap-3 text-muted text-sm">
          {ended}
          <Button size="s" icon="retry" onClick={onAgain}>
            Open another
          </Button>
        </div>
      )}
    </div>
  );
}
