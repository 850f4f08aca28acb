import { EmptyState } from "@/ui/states";

export default function Chat() {
  return (
    <EmptyState icon="chat" title="Crucible runs here">
      Programs reach it by the API, people by the command line: `crucible chat`.
    </EmptyState>
  );
}
