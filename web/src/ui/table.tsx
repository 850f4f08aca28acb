/** A table of any length: only the rows that are seen are drawn. Sorted by its headers, walked by the keyboard. */

import { type ReactNode, useMemo, useRef, useState } from "react";
import { Icon } from "./icons";

export interface Column<Row> {
  id: string;
  label: string;
  /** What is shown. */
  cell: (row: Row) => ReactNode;
  /** What is sorted by; without it the column cannot be. */
  sort?: (row: Row) => string | number | null;
  align?: "left" | "right";
  /** As in CSS's `grid-template-columns`; a share of the width if missing. */
  width?: string;
}

const ROW_PX = 34;
const BEYOND = 8;

export function DataTable<Row>({
  label,
  rows,
  columns,
  rowKey,
  onOpen,
  height = "60vh",
  empty = "Nothing here",
}: {
  label: string;
  rows: readonly Row[];
  columns: Column<Row>[];
  rowKey: (row: Row, at: number) => string;
  onOpen?: (row: Row) => void;
  height?: string;
  empty?: ReactNode;
}) {
  const [sorting, setSorting] = useState<{ id: string; isDown: boolean } | null>(null);
  const [seen, setSeen] = useState({ top: 0, height: 800 });
  const scroller = useRef<HTMLDivElement>(null);

  const sorted = useMemo(() => {
    const by = columns.find((column) => column.id === sorting?.id)?.sort;
    return by ? sortedBy(rows, by, sorting?.isDown ?? false) : rows;
  }, [rows, columns, sorting]);

  const first = Math.max(0, Math.floor(seen.top / ROW_PX) - BEYOND);
  const last = Math.min(sorted.length, Math.ceil((seen.top + seen.height) / ROW_PX) + BEYOND);
  const template = columns.map((column) => column.width ?? "minmax(7rem, 1fr)").join(" ");
  const look = () => {
    const box = scroller.current;
    if (box) setSeen({ top: box.scrollTop, height: box.clientHeight });
  };

  return (
    // biome-ignore lint/a11y/useSemanticElements: a real table cannot leave out the rows that are not seen
    <div
      ref={scroller}
      role="table"
      aria-label={label}
      aria-rowcount={sorted.length + 1}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
      tabIndex={0}
      onScroll={look}
      className="overflow-auto rounded-lg border bg-surface text-sm"
      style={{ maxHeight: height }}
    >
      <div className="min-w-fit">
        {/* biome-ignore lint/a11y/useSemanticElements: see above */}
        {/* biome-ignore lint/a11y/useFocusableInteractive: its headers are */}
        <div
          role="row"
          aria-rowindex={1}
          className="sticky top-0 z-10 grid border-b bg-sunken"
          style={{ gridTemplateColumns: template }}
        >
          {columns.map((column) => (
            <Header
              key={column.id}
              column={column}
              direction={
                sorting?.id === column.id ? (sorting.isDown ? "descending" : "ascending") : "none"
              }
              onSort={() =>
                setSorting((old) =>
                  old?.id !== column.id
                    ? { id: column.id, isDown: false }
                    : old.isDown
                      ? null
                      : { id: column.id, isDown: true },
                )
              }
            />
          ))}
        </div>
        {sorted.length === 0 && <div className="px-3 py-8 text-center text-muted">{empty}</div>}
        <div className="relative" style={{ height: sorted.length * ROW_PX }}>
          {sorted.slice(first, last).map((row, at) => (
            // biome-ignore lint/a11y/useSemanticElements: see above
            <div
              key={rowKey(row, first + at)}
              role="row"
              aria-rowindex={first + at + 2}
              tabIndex={onOpen ? 0 : -1}
              onClick={onOpen && (() => onOpen(row))}
              onKeyDown={onOpen && ((event) => event.key === "Enter" && onOpen(row))}
              className={`absolute inset-x-0 grid items-center border-b last:border-b-0 ${onOpen ? "cursor-pointer hover:bg-hover" : ""}`}
              style={{ gridTemplateColumns: template, height: ROW_PX, top: (first + at) * ROW_PX }}
            >
              {columns.map((column) => (
                // biome-ignore lint/a11y/useSemanticElements: see above
                <div
                  key={column.id}
                  role="cell"
                  className={`truncate px-3 ${column.align === "right" ? "text-right tabular-nums" : ""}`}
                >
                  {column.cell(row)}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function Header<Row>({
  column,
  direction,
  onSort,
}: {
  column: Column<Row>;
  direction: "ascending" | "descending" | "none";
  onSort: () => void;
}) {
  const side = column.align === "right" ? "justify-end" : "";
  return (
    // biome-ignore lint/a11y/useSemanticElements: a real table cannot leave out the rows that are not seen
    // biome-ignore lint/a11y/useFocusableInteractive: the button in it is
    <div role="columnheader" aria-sort={column.sort ? direction : undefined} className="min-w-0">
      {column.sort ? (
        <button
          type="button"
          onClick={onSort}
          className={`flex w-full items-center gap-1 px-3 py-1.5 font-medium text-muted text-xs hover:text-ink ${side}`}
        >
          <span className="truncate">{column.label}</span>
          {direction !== "none" && (
            <Icon name={direction === "ascending" ? "up" : "down"} className="size-3" />
          )}
        </button>
      ) : (
        <span className={`flex px-3 py-1.5 font-medium text-muted text-xs ${side}`}>
          {column.label}
        </span>
      )}
    </div>
  );
}

/** Numbers by their size, words as people sort them, nothing last. */
export function sortedBy<Row>(
  rows: readonly Row[],
  by: (row: Row) => string | number | null,
  isDown: boolean,
): Row[] {
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  keyed.sort((one, other) => {
    if (one.key === null || other.key === null) {
      return Number(one.key === null) - Number(other.key === null);
    }
    const order =
      typeof one.key === "number" && typeof other.key === "number"
        ? one.key - other.key
        : words.compare(String(one.key), String(other.key));
    return isDown ? -order : order;
  });
  return keyed.map((one) => one.row);
}
