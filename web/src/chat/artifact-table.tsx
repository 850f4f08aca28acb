import { useMemo } from "react";
import { type Column, DataTable } from "@/ui/table";
import type { Table } from "./tables";

type Row = { at: number; cells: string[] };

/** Numbers to the right, sorted by their size; a column is numbers if all that is in it are. */
export default function ArtifactTable({
  table,
  label,
  height,
}: {
  table: Table;
  label: string;
  height: string;
}) {
  const rows = useMemo(() => table.rows.map((cells, at) => ({ at, cells })), [table]);
  const columns = useMemo<Column<Row>[]>(
    () =>
      table.columns.map((name, place) => {
        const isNumeric = table.rows.slice(0, 500).every((row) => isNumber(row[place] ?? ""));
        return {
          id: String(place),
          label: name || `(${place + 1})`,
          align: isNumeric ? "right" : "left",
          cell: (row) => <span title={row.cells[place]}>{row.cells[place]}</span>,
          sort: (row) => {
            const cell = row.cells[place] ?? "";
            if (cell === "") return null;
            return isNumeric ? Number(cell) : cell;
          },
        };
      }),
    [table],
  );
  return (
    <div className="p-2">
      <DataTable
        label={label}
        rows={rows}
        columns={columns}
        rowKey={(row) => String(row.at)}
        height={height}
      />
      <p className="px-1 pt-1.5 text-faint text-xs">
        {table.rows.length.toLocaleString()} rows{table.isCut && ", the first of more"}
      </p>
    </div>
  );
}

function isNumber(text: string): boolean {
  return text === "" || (text.trim() !== "" && Number.isFinite(Number(text)));
}
