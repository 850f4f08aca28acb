import * as Tooltip from "@radix-ui/react-tooltip";
import type { ReactNode } from "react";

export const Tips = Tooltip.Provider;

/** The name of what is pointed at; its child must be one focusable element. */
export function Tip({ text, children }: { text: string; children: ReactNode }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          sideOffset={5}
          collisionPadding={8}
          className="animate-fade z-50 max-w-64 rounded bg-ink px-2 py-1 text-canvas text-xs"
        >
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
