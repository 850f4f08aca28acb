/** What a page shows when it has nothing, waits, or failed. */

import { Component, type ReactNode } from "react";
import { asProblem, type Problem } from "@/api/problem";
import { Button } from "./button";
import { Icon, type IconName, Spinner } from "./icons";

export function EmptyState({
  icon,
  title,
  children,
  action,
}: {
  icon: IconName;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-14 text-center">
      <span className="grid size-11 place-items-center rounded-xl border bg-surface text-accent">
        <Icon name={icon} className="size-5" />
      </span>
      <h2 className="font-semibold">{title}</h2>
      {children && <div className="text-muted text-sm leading-relaxed">{children}</div>}
      {action}
    </div>
  );
}

export function ErrorState({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div
      role="alert"
      className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-14 text-center"
    >
      <span className="grid size-11 place-items-center rounded-xl bg-bad-soft text-bad">
        <Icon name="warn" className="size-5" />
      </span>
      <h2 className="font-semibold">{problem.message}</h2>
      {problem.hint && <p className="text-muted text-sm">{problem.hint}</p>}
      <p className="font-mono text-2xs text-faint">
        {problem.code}
        {problem.requestId && ` · request ${problem.requestId}`}
      </p>
      {retry && (
        <Button icon="retry" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** The same, within a form or a card. */
export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <div role="alert" className="flex gap-2.5 rounded-md bg-bad-soft px-3 py-2 text-bad text-sm">
      <Icon name="warn" className="mt-0.5 size-4" />
      <div className="min-w-0 break-words">
        {problem.message}
        {problem.hint && <div className="text-ink text-xs">{problem.hint}</div>}
      </div>
    </div>
  );
}

export function Waiting({ text = "Loading" }: { text?: string }) {
  return (
    <div
      role="status"
      className="flex items-center justify-center gap-2.5 py-14 text-muted text-sm"
    >
      <Spinner /> {text}…
    </div>
  );
}

/** One card that fails to draw must not take the page with it. */
export class Boundary extends Component<
  { children: ReactNode; resetKey?: string },
  { problem: Problem | null }
> {
  override state: { problem: Problem | null } = { problem: null };

  static getDerivedStateFromError(error: unknown) {
    return { problem: asProblem(error) };
  }

  override componentDidUpdate(before: { resetKey?: string }) {
    if (before.resetKey !== this.props.resetKey && this.state.problem) {
      this.setState({ problem: null });
    }
  }

  override render() {
    if (!this.state.problem) return this.props.children;
    return (
      <ErrorState problem={this.state.problem} retry={() => this.setState({ problem: null })} />
    );
  }
}
