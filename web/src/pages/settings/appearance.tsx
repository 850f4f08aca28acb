import { setTheme, type Theme, useTheme } from "@/theme";
import { Section } from "./section";
import { useGiven } from "./settings";

const THEMES: { value: Theme; label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

export function Appearance() {
  const theme = useTheme();
  const { change } = useGiven();
  const choose = (value: Theme) => {
    setTheme(value);
    void change({ appearance: { theme: value } });
  };
  return (
    <Section title="Appearance">
      <fieldset className="flex flex-col gap-2">
        <legend className="sr-only">Theme</legend>
        {THEMES.map((one) => (
          <label key={one.value} className="flex items-center gap-2.5 text-sm">
            <input
              type="radio"
              name="theme"
              className="accent-[var(--accent)]"
              checked={theme === one.value}
              onChange={() => choose(one.value)}
            />
            {one.label}
          </label>
        ))}
      </fieldset>
    </Section>
  );
}
