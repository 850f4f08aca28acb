"""OpenTelemetry spans of requests, by the standard variables. Loaded only where one of them is set."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.types import Scope

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_VARIABLES = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


class Tracing:
    """A span for each request, which goes on with the trace that its caller began."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("crucible.server")

    @contextmanager
    def span(self, scope: Scope, request_id: str) -> Iterator[None]:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        carried = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        method = scope.get("method", "WEBSOCKET")
        attributes = {
            "http.request.method": method,
            "url.path": scope["path"],
            "crucible.request_id": request_id,
        }
        with self._tracer.start_as_current_span(
            method, context=extract(carried), kind=SpanKind.SERVER, attributes=attributes
        ) as span:
            yield
            if (route := getattr(scope.get("route"), "path", None)) is not None:
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", scope["state"].get("status", 0))

    def close(self) -> None:
        """Sends what is still to be sent."""
        self._provider.shutdown()


def load_tracing(environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """None where nobody asked for traces, or asked for none."""
    wanted = environment.get("OTEL_TRACES_EXPORTER", "")
    is_off = wanted == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(environment.get(name) for name in _VARIABLES):
        return None
    try:
        return Tracing(_provider(wanted))
    except ImportError:
        sys.stderr.write(
            "warning: OTEL_ variables are set; traces need `pip install crucible[otel]`\n"
        )
        return None


def _provider(exporter: str) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    sender: SpanExporter
    if exporter == "console":
        sender = ConsoleSpanExporter(out=sys.stderr)
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        sender = OTLPSpanExporter()
    # What the variables say of the service counts; this is for when they say nothing.
    name = os.environ.get("OTEL_SERVICE_NAME") or "crucible"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(sender))
    return provider
