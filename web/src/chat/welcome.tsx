import { Icon, type IconName, Mark } from "@/ui/icons";

const EXAMPLES: { icon: IconName; title: string; prompt: string }[] = [
  {
    icon: "chart",
    title: "Chart a file",
    prompt:
      "Read the CSV file that I attached, tell me what is in it, and plot the most telling column over time as an interactive chart.",
  },
  {
    icon: "code",
    title: "Work something out",
    prompt:
      "Write a Python program that finds all primes below 10,000, run it, and tell me how many there are.",
  },
  {
    icon: "terminal",
    title: "Look around in the sandbox",
    prompt:
      "Which operating system, how much memory and which tools does your sandbox have? Run commands to find out.",
  },
  {
    icon: "file",
    title: "Make a file to take along",
    prompt:
      "Make a small table of the planets with their mass and moons, save it as planets.csv, and hand it to me.",
  },
];

/** What a first visit sees: what this is, and four ways to begin. */
export function Welcome({ onPick }: { onPick: (prompt: string) => void }) {
  return (
    <div className="pb-6">
      <Mark className="size-11" />
      <h1 className="mt-4 font-semibold text-2xl tracking-tight">What shall be done?</h1>
      <p className="mt-2 max-w-prose text-muted leading-relaxed">
        Code that the model writes runs in a machine of its own, cut off from yours. You see every
        command, and what you did not allow does not run.
      </p>
      <ul className="mt-6 grid gap-2 sm:grid-cols-2">
        {EXAMPLES.map((example) => (
          <li key={example.title}>
            <button
              type="button"
              onClick={() => onPick(example.prompt)}
              className="flex h-full w-full items-start gap-3 rounded-xl border bg-surface p-3 text-left transition-colors hover:border-accent"
            >
              <Icon name={example.icon} className="mt-0.5 size-4 text-accent" />
              <span className="min-w-0">
                <span className="block font-medium text-sm">{example.title}</span>
                <span className="mt-0.5 line-clamp-2 block text-muted text-xs leading-relaxed">
                  {example.prompt}
                </span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
