"""The numbers behind a figure of matplotlib: lines, points, bars, pies, boxes. Part of kernel.py."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_POINTS = 100_000


def chart_of(figure: Any) -> dict[str, Any] | None:
    """One chart, or all of them as one; None if nothing is known of what was drawn."""
    try:
        found = [chart for chart in map(chart_of_axes, figure.axes) if chart is not None]
    except Exception:
        return None
    if len(found) <= 1:
        return found[0] if found else None
    return {"type": "superchart", "title": title_of(figure), "elements": found}


def chart_of_axes(axes: Any) -> dict[str, Any] | None:
    for kind, elements_of in (
        ("pie", pie),
        ("box_and_whisker", boxes),
        ("bar", bars),
        ("scatter", points),
        ("line", lines),
    ):
        elements = elements_of(axes)
        if elements:
            return described(axes, kind, elements)
    return None


def described(axes: Any, kind: str, elements: list[dict[str, Any]]) -> dict[str, Any]:
    chart: dict[str, Any] = {"type": kind, "title": axes.get_title(), "elements": elements}
    if kind == "pie":
        return chart
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        label = axis.get_label_text()
        chart[name + "_label"] = label or None
        chart[name + "_unit"] = unit_of(label)
        if kind in ("line", "scatter"):
            chart[name + "_ticks"] = [plain(tick) for tick in axis.get_ticklocs()]
            chart[name + "_tick_labels"] = [tick.get_text() for tick in axis.get_ticklabels()]
            chart[name + "_scale"] = scale_of(axis)
    return chart


def lines(axes: Any) -> list[dict[str, Any]]:
    return [
        {"label": line.get_label(), "points": pairs(line.get_xdata(), line.get_ydata())}
        for line in axes.get_lines()
    ]


def points(axes: Any) -> list[dict[str, Any]]:
    return [
        {"label": drawn.get_label(), "points": pairs(*zip(*drawn.get_offsets()))}
        for drawn in axes.collections
        if type(drawn).__name__ == "PathCollection" and len(drawn.get_offsets())
    ]


def bars(axes: Any) -> list[dict[str, Any]]:
    elements = []
    for group in axes.containers:
        if type(group).__name__ != "BarContainer":
            continue
        is_lying = getattr(group, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if is_lying else axes.xaxis
        names = dict(zip(axis.get_ticklocs(), (tick.get_text() for tick in axis.get_ticklabels())))
        for bar in group.patches:
            at = (
                bar.get_y() + bar.get_height() / 2
                if is_lying
                else bar.get_x() + bar.get_width() / 2
            )
            value = bar.get_width() if is_lying else bar.get_height()
            label = next((name for tick, name in names.items() if math.isclose(tick, at)), "")
            elements.append(
                {
                    "label": label or str(plain(at)),
                    "group": group.get_label(),
                    "value": plain(value),
                }
            )
    return elements


def pie(axes: Any) -> list[dict[str, Any]]:
    return [
        {
            "label": wedge.get_label(),
            "angle": plain(abs(wedge.theta2 - wedge.theta1)),
            "radius": plain(wedge.r),
        }
        for wedge in axes.patches
        if type(wedge).__name__ == "Wedge"
    ]


def boxes(axes: Any) -> list[dict[str, Any]]:
    """A box is a closed line of five corners; then come its whiskers, caps, median and outliers."""
    found = axes.get_lines()
    closed = [
        at
        for at, line in enumerate(found)
        if len(line.get_ydata()) == 5 and line.get_ydata()[0] == line.get_ydata()[4]
    ]
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    elements = []
    for number, at in enumerate(closed):
        parts = [list(line.get_ydata()) for line in found[at : at + 7]]
        if len(parts) < 6 or any(len(part) != 2 for part in parts[1:6]):
            return []
        box, low, high, _, _, middle = parts[:6]
        elements.append(
            {
                "label": names[number] if number < len(names) else str(number + 1),
                "min": plain(min(low)),
                "first_quartile": plain(min(box)),
                "median": plain(middle[0]),
                "third_quartile": plain(max(box)),
                "max": plain(max(high)),
                "outliers": [plain(value) for value in parts[6]] if len(parts) > 6 else [],
            }
        )
    return elements


def pairs(xs: Any, ys: Any) -> list[tuple[Any, Any]]:
    return [(plain(x), plain(y)) for x, y in zip(list(xs)[:MOST_POINTS], list(ys)[:MOST_POINTS])]


def plain(value: Any) -> Any:
    """A number or text that JSON has; NaN and the infinities are not such."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (int, float, str)) or value is None else str(value)


def scale_of(axis: Any) -> str:
    if type(
        axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    ).__name__ in (
        "DateConverter",
        "_SwitchableDateConverter",
    ):
        return "datetime"
    if type(axis.get_major_formatter()).__name__ == "StrCategoryFormatter":
        return "categorical"
    return str(axis.get_scale())


def unit_of(label: str) -> str | None:
    start, end = label.rfind("("), label.rfind(")")
    return label[start + 1 : end] if 0 <= start < end else None


def title_of(figure: Any) -> str:
    title = getattr(figure, "_suptitle", None)
    return title.get_text() if title is not None else ""
