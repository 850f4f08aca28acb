/** One figure with its name, within a `dl`. */
export function Figure({
  name,
  value,
  of = "",
  note = "",
}: {
  name: string;
  value: string;
  of?: string;
  note?: string;
}) {
  return (
    <div className="rounded-lg border bg-surface px-3 py-2.5">
      <dt className="text-muted text-xs">{name}</dt>
      <dd className="font-semibold tabular-nums">
        {value}
        {of && <span className="font-normal text-faint text-xs"> of {of}</span>}
      </dd>
      {note && <dd className="text-faint text-xs">{note}</dd>}
    </div>
  );
}
