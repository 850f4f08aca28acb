// Draws the figure that the page around it hands over. It runs in an origin of its own and reaches nothing.
const place = document.getElementById("chart");

addEventListener("message", (event) => {
  if (event.source !== parent || event.data?.kind !== "figure") return;
  draw(event.data.figure, event.data.isDark).then(
    () => tell({ kind: "drawn" }),
    (error) => tell({ kind: "failed", message: String(error?.message ?? error) }),
  );
});
tell({ kind: "ready" });

async function draw(figure, isDark) {
  if (typeof Plotly === "undefined") throw new Error("The chart library did not load");
  const { width: _width, height: _height, ...layout } = figure.layout ?? {};
  const ink = isDark ? "#d9d5cf" : "#2b2723";
  const line = isDark ? "#3a3632" : "#e5e1da";
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
  await Plotly.react(
    place,
    figure.data ?? [],
    {
      ...layout,
      template: undefined,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      colorway: layout.colorway ?? [
        "#e0662b",
        "#3b7dd8",
        "#3f9a5d",
        "#a05bc2",
        "#c9a227",
        "#2aa6a6",
      ],
      font: { family: "system-ui, sans-serif", ...layout.font, color: ink },
      margin: { t: layout.title ? 56 : 24, r: 24, b: 60, l: 60, ...layout.margin },
      ...axes(layout, axis),
    },
    {
      responsive: true,
      displaylogo: false,
      modeBarButtonsToRemove: ["toImage"],
      ...safe(figure.config),
    },
  );
}

function axes(layout, look) {
  const named = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
  return Object.fromEntries(
    [...new Set(["xaxis", "yaxis", ...named])].map((name) => [
      name,
      { ...look, automargin: true, ...layout[name] },
    ]),
  );
}

function safe(config) {
  return { scrollZoom: config?.scrollZoom ?? false };
}

function tell(message) {
  parent.postMessage(message, "*");
}
