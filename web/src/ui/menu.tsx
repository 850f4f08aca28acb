import * as Radix from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";
import { Icon, type IconName } from "./icons";

/** `trigger` is the button that opens it. */
export function Menu({
  trigger,
  children,
  align = "end",
}: {
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "center" | "end";
}) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="animate-fade z-50 max-h-[60vh] min-w-44 overflow-auto rounded-lg border bg-raised p-1 shadow-pop"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const ITEM =
  "flex cursor-default items-center gap-2.5 rounded px-2.5 py-1.5 text-sm outline-none select-none data-[highlighted]:bg-hover data-[disabled]:opacity-50";

export function MenuItem({
  icon,
  children,
  onSelect,
  isDanger = false,
  isDisabled = false,
}: {
  icon?: IconName;
  children: ReactNode;
  onSelect: () => void;
  isDanger?: boolean;
  isDisabled?: boolean;
}) {
  return (
    <Radix.Item
      disabled={isDisabled}
      onSelect={onSelect}
      className={`${ITEM} ${isDanger ? "text-bad" : ""}`}
    >
      {icon && <Icon name={icon} className="size-4 opacity-75" />}
      {children}
    </Radix.Item>
  );
}

/** One of several, of which one holds. */
export function MenuChoice<T extends string>({
  value,
  onChange,
  choices,
}: {
  value: T;
  onChange: (value: T) => void;
  choices: { value: T; label: string; about?: string }[];
}) {
  return (
    <Radix.RadioGroup value={value} onValueChange={(next) => onChange(next as T)}>
      {choices.map((choice) => (
        <Radix.RadioItem key={choice.value} value={choice.value} className={ITEM}>
          <span className="w-4">
            <Radix.ItemIndicator>
              <Icon name="check" className="size-4 text-accent" />
            </Radix.ItemIndicator>
          </span>
          <span>
            {choice.label}
            {choice.about && <span className="block text-muted text-xs">{choice.about}</span>}
          </span>
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}

export function MenuLine() {
  return <Radix.Separator className="mx-1 my-1 h-px bg-line" />;
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2.5 py-1 text-faint text-xs">{children}</Radix.Label>;
}
