import * as Radix from "@radix-ui/react-tabs";
import type { ReactNode } from "react";

export interface Tab {
  id: string;
  label: ReactNode;
  content: ReactNode;
}

export function Tabs({
  label,
  tabs,
  value,
  onChange,
  className = "",
}: {
  label: string;
  tabs: Tab[];
  value?: string;
  onChange?: (id: string) => void;
  className?: string;
}) {
  const control = value === undefined ? { defaultValue: tabs[0]?.id ?? "" } : { value };
  return (
    <Radix.Root
      {...control}
      onValueChange={(id) => onChange?.(id)}
      className={`flex min-h-0 flex-col ${className}`}
    >
      <Radix.List aria-label={label} className="flex gap-1 overflow-x-auto border-b px-1">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.id}
            value={tab.id}
            className="-mb-px whitespace-nowrap border-transparent border-b-2 px-2.5 py-2 text-muted text-sm hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.id} value={tab.id} className="min-h-0 flex-1 outline-none">
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
