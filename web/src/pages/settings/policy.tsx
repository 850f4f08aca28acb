import { Lines } from "./lines";
import { Section } from "./section";
import { useGiven } from "./settings";

const RULES = [
  {
    id: "allow",
    label: "Allow",
    about: "runs without a question",
    example: "read\nbash(git status*)",
  },
  { id: "ask", label: "Ask", about: "waits for your answer", example: "bash(git push*)" },
  {
    id: "deny",
    label: "Deny",
    about: "never runs; goes before all else",
    example: "bash(rm -rf *)",
  },
] as const;

export function Policy() {
  const { settings, change } = useGiven();
  const { policy } = settings;
  return (
    <Section
      title="Permissions"
      about="Rules by tool and pattern, one a line. Deny wins over ask, ask over allow; what no rule names is asked for where it is risky."
    >
      {RULES.map(({ id, label, about, example }) => (
        <Lines
          key={id}
          label={label}
          about={about}
          placeholder={example}
          lines={policy[id]}
          onKeep={(lines) => change({ policy: { ...policy, [id]: lines } })}
        />
      ))}
    </Section>
  );
}
