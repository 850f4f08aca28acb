/** Our own few icons, 16 units wide, drawn with one line. They say nothing to a screen reader: their button does. */

const SHAPES = {
  plus: "M8 3v10M3 8h10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14",
  chat: "M2.5 4.5a2 2 0 0 1 2-2h7a2 2 0 0 1 2 2v4.5a2 2 0 0 1-2 2H7l-3 2.5V11a2 2 0 0 1-1.5-2Z",
  box: "M8 1.8 13.5 4.9v6.2L8 14.2 2.5 11.1V4.9ZM2.7 5 8 8l5.3-3M8 8v6",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.6",
  memory:
    "M5 2.5h6a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1ZM6.5 5.5h3v5h-3ZM2 5h2M2 8h2M2 11h2M12 5h2M12 8h2M12 11h2",
  gear: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4ZM8 1.8v1.9M8 12.3v1.9M1.8 8h1.9M12.3 8h1.9M3.6 3.6 5 5M11 11l1.4 1.4M3.6 12.4 5 11M11 5l1.4-1.4",
  send: "M8 13.5V3M3.5 7.2 8 2.7l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7Z",
  pin: "M6 2.5h4l-.5 4 2 2.5H4.5l2-2.5ZM8 9v5",
  trash: "M2.8 4.5h10.4M6 4.5v-2h4v2M4.2 4.5l.6 9h6.4l.6-9M6.8 7v4.2M9.2 7v4.2",
  pencil: "M3 13l.6-3L11 2.6a1 1 0 0 1 1.4 0l1 1a1 1 0 0 1 0 1.4L6 12.4ZM9.8 3.8l2.4 2.4",
  copy: "M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  up: "M3.5 10 8 5.5 12.5 10",
  download: "M8 2.5v8M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11",
  attach:
    "M12.5 7.5 8 12a2.8 2.8 0 0 1-4-4l5-5a1.9 1.9 0 0 1 2.7 2.7L6.8 10.6a.9.9 0 0 1-1.3-1.3L9.8 5",
  branch:
    "M4.5 5.5v5M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM11.5 6.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM11.5 6.5c0 3-5 1.5-7 4",
  retry: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  rewind: "M7.5 4 3 8l4.5 4ZM13 4 8.5 8l4.5 4Z",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z",
  screen: "M2 3h12v8H2ZM6 13.5h4M8 11v2.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  shield: "M8 1.8l5 1.9v3.9c0 3-2.1 5.3-5 6.6-2.9-1.3-5-3.6-5-6.6V3.7Z",
  user: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8ZM2.8 13.8c.6-2.6 2.6-3.9 5.2-3.9s4.6 1.3 5.2 3.9",
  leave: "M6.5 13.5h-4v-11h4M6 8h8M11 5l3 3-3 3",
  file: "M4 1.8h5l3.5 3.5v8.9H4ZM9 1.8v3.5h3.5",
  image: "M2 3h12v10H2ZM2 11l3.5-3.5L8.5 10.5l2-2L14 12M10.5 6h.01",
  table: "M2 3h12v10H2ZM2 6.3h12M2 9.6h12M6.5 3v10",
  chart: "M2.5 2.5v11h11M5.5 10.5V8M8.5 10.5V5M11.5 10.5V6.5",
  terminal: "M2 3h12v10H2ZM4.5 6 7 8l-2.5 2M8.5 10.5h3",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5M9 3 7 13",
  spark: "M8 2v3.5M8 10.5V14M2 8h3.5M10.5 8H14M4 4l2 2M10 10l2 2M4 12l2-2M10 6l2-2",
  warn: "M8 2.2 14.3 13.3H1.7ZM8 6.3v3.2M8 11.4h.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.3v3.5M8 5.1h.01",
  link: "M6.5 9.5l3-3M7.5 4.8l1.4-1.4a2.6 2.6 0 0 1 3.7 3.7l-1.4 1.4M8.5 11.2l-1.4 1.4a2.6 2.6 0 0 1-3.7-3.7l1.4-1.4",
  diff: "M8 3v6M5 6h6M5 12.5h6",
  open: "M9 2.5h4.5V7M13.5 2.5 7.5 8.5M6.5 3.5h-4v10h10v-4",
  side: "M2 3h12v10H2ZM6 3v10",
  globe:
    "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c2 1.8 2.6 3.8 2.6 6S10 12.2 8 14c-2-1.8-2.6-3.8-2.6-6S6 3.8 8 2Z",
  play: "M5 3l8 5-8 5Z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  folder: "M2 4h4l1.5 1.5H14v7.5H2Z",
  camera: "M2 5h3l1-1.5h4L11 5h3v8H2ZM8 11a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 8 11Z",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 16 16"
      fill={name === "stop" ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`shrink-0 ${className}`}
      aria-hidden="true"
      focusable="false"
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}

/** A vessel with the melt in it. */
export function Mark({ className = "size-6" }: { className?: string }) {
  return (
    <svg
      viewBox="0 0 32 32"
      className={`shrink-0 ${className}`}
      aria-hidden="true"
      focusable="false"
    >
      <path
        d="M5 9h22l-3.4 15.2A3.6 3.6 0 0 1 20.1 27h-8.2a3.6 3.6 0 0 1-3.5-2.8z"
        fill="currentColor"
      />
      <path d="M7.6 12h16.8l-1.3 5.6c-2.2 1.7-4.4-.9-7.1.2-2.6 1.1-4.6 1.3-7.2.1z" fill="#f9732b" />
      <path d="M16 2.2c1.9 2 2.6 3.4 1.3 5.3h-2.7c-1-1.6-.2-3.2 1.4-5.3z" fill="#f9732b" />
    </svg>
  );
}

export function Spinner({ className = "size-4" }: { className?: string }) {
  return (
    <svg viewBox="0 0 16 16" className={`animate-turn shrink-0 ${className}`} aria-hidden="true">
      <circle
        cx="8"
        cy="8"
        r="6"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.6"
        opacity=".25"
      />
      <path
        d="M14 8a6 6 0 0 0-6-6"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.6"
        strokeLinecap="round"
      />
    </svg>
  );
}
