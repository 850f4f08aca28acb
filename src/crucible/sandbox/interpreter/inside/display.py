"""What a value looks like: text, and every richer form that it offers in the way notebooks know. Part of kernel.py."""

from __future__ import annotations

import os
import sys

import charts  # beside this file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

METHODS = {
    "html": "_repr_html_",
    "markdown": "_repr_markdown_",
    "svg": "_repr_svg_",
    "png": "_repr_png_",
    "jpeg": "_repr_jpeg_",
    "pdf": "_repr_pdf_",
    "latex": "_repr_latex_",
    "json": "_repr_json_",
    "javascript": "_repr_javascript_",
}
TYPES = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}
FIGURES = "crucible_figures"
_show: Callable[..., None] = print


def prepare(show: Callable[..., None]) -> None:
    """Figures of matplotlib, if it is there, are shown here and need no screen."""
    global _show
    _show = show
    os.environ.setdefault("MPLBACKEND", "module://" + FIGURES)
    sys.meta_path.append(FigureFinder())


def forms_of(value: Any) -> dict[str, Any]:
    forms: dict[str, Any] = {"text": text_of(value)}
    if type(value).__name__ == "Figure" and type(value).__module__.startswith("matplotlib."):
        forms.update(forms_of_figure(value))
        return forms
    if isinstance(value, type):
        return forms
    for name, method in METHODS.items():
        form = called(value, method)
        if form is not None:
            forms[name] = plain(form)
    bundle = called(value, "_repr_mimebundle_")
    if isinstance(bundle, dict):
        for kind, form in bundle.items():
            forms[TYPES.get(str(kind), str(kind))] = plain(form)
    if type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas."):
        forms["data"] = {str(key): list(column) for key, column in value.to_dict("list").items()}
    return forms


def text_of(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return "<%s whose repr failed: %s>" % (type(value).__name__, type(error).__name__)


def called(value: Any, method: str) -> Any:
    """What a value says of itself; one that fails at it has no such form."""
    try:
        found = getattr(value, method, None)
        form = found() if callable(found) else None
    except Exception:
        return None
    return form[0] if isinstance(form, tuple) and form else form


def plain(form: Any) -> Any:
    if not isinstance(form, bytes):
        return form
    import base64

    return base64.b64encode(form).decode()


def forms_of_figure(figure: Any) -> dict[str, Any]:
    import io

    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    forms: dict[str, Any] = {"png": plain(image.getvalue())}
    chart = charts.chart_of(figure)
    if chart is not None:
        forms["chart"] = chart
    return forms


def flush_figures(show: Callable[..., None]) -> None:
    """Figures that were drawn and not shown are shown when the code has ended, as notebooks do."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not os.environ.get("MPLBACKEND", "").endswith(FIGURES):
        return
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    for figure in figures:
        if figure.axes:
            show(figure)
    pyplot.close("all")


class FigureFinder:
    """Makes the module that matplotlib asks for when it first draws."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name == FIGURES:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, self)  # type: ignore[arg-type]
        return None

    def create_module(self, _: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        module.FigureCanvas = FigureCanvasAgg
        module.show = lambda *_, **__: flush_figures(_show)
