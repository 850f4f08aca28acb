import type { components } from "@/api/schema";

export type Fact = components["schemas"]["FactTold"];
export type Kind = Fact["kind"];
export type FactPage = components["schemas"]["Page_FactTold_"];
export type SummaryPage = components["schemas"]["Page_SummaryTold_"];

export const KINDS: { kind: Kind; label: string; plural: string }[] = [
  { kind: "fact", label: "Fact", plural: "Facts" },
  { kind: "preference", label: "Preference", plural: "Preferences" },
  { kind: "goal", label: "Goal", plural: "Goals" },
  { kind: "constraint", label: "Constraint", plural: "Constraints" },
];

export function labelOf(kind: Kind): string {
  return KINDS.find((one) => one.kind === kind)?.label ?? kind;
}
