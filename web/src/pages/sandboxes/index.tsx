/** The sandboxes of this user: seen live, looked into, worked in, ended. */

import type { PageProps } from "..";
import { SandboxDetail } from "./detail";
import { SandboxList } from "./list";

export default function SandboxesPage({ params }: PageProps) {
  return params.name ? (
    <SandboxDetail key={params.name} name={params.name} tab={params.tab ?? ""} />
  ) : (
    <SandboxList />
  );
}
