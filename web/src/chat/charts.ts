/** The numbers behind a figure of matplotlib, as a figure that can be zoomed and read. Null if nothing is known of it. */

interface Figure {
  data: Record<string, unknown>[];
  layout: Record<string, unknown>;
}

export function readChart(given: unknown): Figure | null {
  const chart = fields(given);
  if (chart.type === "superchart") return readChart(items(chart.elements)[0]);
  const elements = items(chart.elements).map(fields);
  const traces = elements.flatMap((one) => traceOf(String(chart.type), one));
  const data =
    chart.type === "bar" ? barsOf(elements) : chart.type === "pie" ? pieOf(elements) : traces;
  if (!data.length) return null;
  const axis = (name: "x" | "y") => ({
    title: { text: word(chart[`${name}_label`]) },
    ...(chart[`${name}_scale`] === "log" ? { type: "log" } : {}),
  });
  return {
    data,
    layout: {
      title: word(chart.title) ? { text: word(chart.title) } : undefined,
      xaxis: axis("x"),
      yaxis: axis("y"),
      showlegend: data.length > 1 || chart.type === "pie",
    },
  };
}

function traceOf(kind: string, element: Record<string, unknown>): Record<string, unknown>[] {
  if (kind === "line" || kind === "scatter") {
    const points = items(element.points).filter((one): one is unknown[] => Array.isArray(one));
    return [
      {
        type: "scatter",
        mode: kind === "line" ? "lines" : "markers",
        name: word(element.label),
        x: points.map((point) => point[0]),
        y: points.map((point) => point[1]),
      },
    ];
  }
  if (kind === "box_and_whisker") {
    const bound = (name: string) => [element[name]];
    return [
      {
        type: "box",
        name: word(element.label),
        lowerfence: bound("min"),
        q1: bound("first_quartile"),
        median: bound("median"),
        q3: bound("third_quartile"),
        upperfence: bound("max"),
      },
    ];
  }
  return [];
}

function barsOf(elements: Record<string, unknown>[]): Record<string, unknown>[] {
  const groups = [...new Set(elements.map((one) => word(one.group)))];
  return groups.map((group) => {
    const own = elements.filter((one) => word(one.group) === group);
    return {
      type: "bar",
      name: group,
      x: own.map((one) => one.label),
      y: own.map((one) => one.value),
    };
  });
}

function pieOf(elements: Record<string, unknown>[]): Record<string, unknown>[] {
  if (!elements.length) return [];
  return [
    {
      type: "pie",
      labels: elements.map((one) => one.label),
      values: elements.map((one) => one.angle ?? one.value),
    },
  ];
}

const fields = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
const items = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const word = (value: unknown): string => (typeof value === "string" ? value : "");
