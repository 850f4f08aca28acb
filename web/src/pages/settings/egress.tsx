import { Switch } from "@/ui/field";
import { Lines } from "./lines";
import { Section } from "./section";
import { useGiven } from "./settings";

export function Egress() {
  const { settings, change } = useGiven();
  const { egress } = settings;
  return (
    <Section
      title="Network"
      about="What sandboxes of new conversations may reach. Each connection is decided by name on the server, and told on the sandbox's page."
    >
      <Switch
        label="Let them reach everything"
        about="All public hosts, never this machine or its neighbours. Off, only the hosts below."
        isOn={egress.network === "full"}
        onChange={(isOn) => change({ egress: { network: isOn ? "full" : "none" } })}
      />
      <Lines
        label="Hosts that are allowed"
        about="One a line: example.org, *.example.org or host:port."
        placeholder={"pypi.org\n*.example.org"}
        lines={egress.hosts}
        onKeep={(hosts) => change({ egress: { hosts } })}
      />
    </Section>
  );
}
