/** Tables out of what a sandbox made: separated values, or columns by name. Hostile, so bounded. */

export interface Table {
  columns: string[];
  rows: string[][];
  isCut: boolean;
}

const MOST_ROWS = 100_000;
const MOST_COLUMNS = 200;

export function readTable(text: string, mediaType: string, name: string): Table {
  if (mediaType.includes("json")) return readColumns(text);
  const isTabbed = mediaType.includes("tab") || /\.tsv$/i.test(name);
  return readSeparated(text, isTabbed ? "\t" : guess(text));
}

/** Fields in quotes may hold separators, newlines and doubled quotes. */
export function readSeparated(text: string, separator = ","): Table {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let isQuoted = false;
  let isCut = false;
  const endField = () => {
    if (row.length < MOST_COLUMNS) row.push(field);
    field = "";
  };
  const endRow = () => {
    endField();
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  };
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at += 1) {
    const sign = text[at] as string;
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else isQuoted = false;
    } else if (sign === '"' && field === "") isQuoted = true;
    else if (sign === separator) endField();
    else if (sign === "\n") {
      endRow();
      if (rows.length > MOST_ROWS) {
        isCut = true;
        break;
      }
    } else if (sign !== "\r") field += sign;
  }
  if (!isCut && (field || row.length)) endRow();
  const [columns = [], ...rest] = rows;
  return { columns, rows: rest, isCut };
}

function readColumns(text: string): Table {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return { columns: [], rows: [], isCut: false };
  }
  if (typeof given !== "object" || given === null) return { columns: [], rows: [], isCut: false };
  if (Array.isArray(given)) {
    const records = given
      .filter((one) => typeof one === "object" && one !== null)
      .slice(0, MOST_ROWS);
    const names = [...new Set(records.slice(0, 1000).flatMap(Object.keys))].slice(0, MOST_COLUMNS);
    const rows = records.map((one) =>
      names.map((name) => shown((one as Record<string, unknown>)[name])),
    );
    return { columns: names, rows, isCut: given.length > MOST_ROWS };
  }
  const entries = Object.entries(given).slice(0, MOST_COLUMNS);
  const columns = entries.map(([, values]) =>
    Array.isArray(values)
      ? values
      : typeof values === "object" && values !== null
        ? Object.values(values)
        : [values],
  );
  const length = Math.max(0, ...columns.map((values) => values.length));
  const rows = Array.from({ length: Math.min(length, MOST_ROWS) }, (_, at) =>
    columns.map((values) => shown(values[at])),
  );
  return { columns: entries.map(([name]) => name), rows, isCut: length > MOST_ROWS };
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function guess(text: string): string {
  const head = text.slice(0, text.indexOf("\n") + 1 || 1000);
  const counts = [",", ";", "\t", "|"].map((sign) => ({ sign, count: head.split(sign).length }));
  return counts.reduce((best, one) => (one.count > best.count ? one : best)).sign;
}
