import { Switch } from "@/ui/field";
import { EmptyState } from "@/ui/states";
import { Section } from "./section";
import { useGiven } from "./settings";

export function Skills() {
  const { settings, change } = useGiven();
  return (
    <Section
      title="Skills"
      about="Instructions and tools that the agent takes up when they are needed. Their programs run in the sandbox."
    >
      {settings.skills.length === 0 ? (
        <EmptyState icon="spark" title="There are no skills">
          Add one with <code className="font-mono text-xs">crucible skill add</code>.
        </EmptyState>
      ) : (
        <ul aria-label="Skills" className="flex flex-col gap-3">
          {settings.skills.map((one) => (
            <li key={one.name} className="rounded-lg border bg-surface px-4 py-3">
              <Switch
                label={one.name}
                about={`${one.description} (${one.origin})`}
                isOn={one.on}
                onChange={(on) => change({ skills: { [one.name]: on } })}
              />
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
