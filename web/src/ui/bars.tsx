/** A few bars, drawn without a library. The figures are also a table, for who does not see them. */

export interface Bar {
  label: string;
  value: number;
  shown: string;
}

const WIDTH = 600;
const HEIGHT = 120;

export function Bars({ title, bars }: { title: string; bars: Bar[] }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  const step = WIDTH / Math.max(bars.length, 1);
  return (
    <figure className="rounded-lg border bg-surface p-4">
      <figcaption className="mb-2 flex justify-between gap-2 text-sm">
        <span className="font-medium">{title}</span>
        <span className="text-muted">at most {bars.find((bar) => bar.value === most)?.shown}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        className="h-28 w-full"
        aria-hidden="true"
      >
        {bars.map((bar, at) => {
          const height =
            most > 0 ? Math.max((bar.value / most) * HEIGHT, bar.value > 0 ? 2 : 0) : 0;
          return (
            <rect
              key={bar.label}
              x={at * step + Math.min(1, step * 0.1)}
              y={HEIGHT - height}
              width={Math.max(step - Math.min(2, step * 0.2), 1)}
              height={height}
              className="fill-accent"
            >
              <title>{`${bar.label}: ${bar.shown}`}</title>
            </rect>
          );
        })}
      </svg>
      <div className="mt-1 flex justify-between text-faint text-xs">
        <span>{bars[0]?.label}</span>
        {bars.length > 1 && <span>{bars.at(-1)?.label}</span>}
      </div>
      <table className="sr-only">
        <caption>{title}</caption>
        <tbody>
          {bars.map((bar) => (
            <tr key={bar.label}>
              <th scope="row">{bar.label}</th>
              <td>{bar.shown}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

/** Shares of a whole, one beneath the other, each with its name and figure. */
export function Shares({ title, bars }: { title: string; bars: Bar[] }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  return (
    <figure className="rounded-lg border bg-surface p-4">
      <figcaption className="mb-2 font-medium text-sm">{title}</figcaption>
      <ul className="flex flex-col gap-2">
        {bars.map((bar) => (
          <li key={bar.label}>
            <div className="flex justify-between gap-3 text-xs">
              <span className="truncate text-muted">{bar.label}</span>
              <span className="whitespace-nowrap tabular-nums">{bar.shown}</span>
            </div>
            <div className="mt-1 h-1.5 overflow-hidden rounded-full bg-sunken">
              <div
                className="h-full rounded-full bg-accent"
                style={{ width: `${most > 0 ? (bar.value / most) * 100 : 0}%` }}
              />
            </div>
          </li>
        ))}
      </ul>
    </figure>
  );
}
