/** The ledger: what every run did, how long it took and what it cost. */

import type { PageProps } from "..";
import { RunDetail } from "./detail";
import { RunList } from "./list";

export default function RunsPage({ params }: PageProps) {
  return params.id ? <RunDetail id={params.id} /> : <RunList />;
}
